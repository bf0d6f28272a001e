//! The single writer of an output log. Never fails: bytes that cannot be stored are counted, leave a hole in
//! the positions, and the next bytes are tried again. A full disk costs output, never the job.

use super::segment::{self, Record};
use crate::limits::SEGMENT_MAX_BYTES;
use protocol::Stream;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A segment also ends after this many changes of stream, so that its index stays small in every reader.
const INDEX_MAX_RECORDS: u32 = 16 << 10;

pub struct Writer {
    dir: PathBuf,
    segment_max_bytes: u64,
    at: u64,
    stream_at: [u64; 3],
    open: Option<OpenSegment>,
    lost: u64,
}

struct OpenSegment {
    data: File,
    index: File,
    start: u64,
    stream: Option<Stream>,
    records: u32,
}

/// Whether one append began another segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    Same,
    /// A segment was created: the quota should be checked.
    Rotated,
}

impl Writer {
    /// Continues where the log in `dir` ends, but not before `from`. The directory is created with the first
    /// byte.
    pub fn resume(dir: &Path, from: u64) -> io::Result<Self> {
        let mut writer = Self {
            dir: dir.to_owned(),
            segment_max_bytes: SEGMENT_MAX_BYTES,
            at: from,
            stream_at: [0; 3],
            open: None,
            lost: 0,
        };
        for segment in segment::list(dir)? {
            writer.skip_over(segment);
        }
        Ok(writer)
    }

    pub fn with_segment_max_bytes(mut self, bytes: u64) -> Self {
        self.segment_max_bytes = bytes;
        self
    }

    /// The position after the last byte, stored or lost.
    pub fn end(&self) -> u64 {
        self.at
    }

    /// Bytes that could not be stored since this writer was created.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn append(&mut self, stream: Stream, mut bytes: &[u8]) -> Appended {
        let mut appended = Appended::Same;
        while !bytes.is_empty() {
            match self.store(stream, bytes, &mut appended) {
                Ok(stored) => {
                    self.advance(stream, stored);
                    bytes = &bytes[stored as usize..];
                }
                Err(_) => {
                    self.lose(stream, bytes.len() as u64);
                    break;
                }
            }
        }
        appended
    }

    /// Stores as much as one write takes. Every append tries again: output that follows once the disk has
    /// space must be stored, and a failed try costs a few calls.
    fn store(&mut self, stream: Stream, bytes: &[u8], appended: &mut Appended) -> io::Result<u64> {
        self.open.take_if(|open| open.is_full(self.at, self.segment_max_bytes));
        let begins = self.open.is_none();
        let changes = self.open.as_ref().is_none_or(|open| open.stream != Some(stream));
        let records = if changes { self.records(stream, begins) } else { Vec::new() };
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(OpenSegment::create(&self.dir, self.at)?),
        };
        if changes {
            open.index.write_all(&records)?;
            open.stream = Some(stream);
            open.records += 1;
        }
        let room = (self.segment_max_bytes - (self.at - open.start)) as usize;
        match open.data.write(&bytes[..bytes.len().min(room)])? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            stored => {
                if begins {
                    *appended = Appended::Rotated;
                }
                Ok(stored as u64)
            }
        }
    }

    /// The index records for the beginning of a run of `stream`. A segment opens with the positions of all
    /// streams, each but the last as an empty run: earlier segments may be trimmed.
    fn records(&self, stream: Stream, begins: bool) -> Vec<u8> {
        let record = |stream| Record { at: self.at, stream, stream_at: self.stream_at[slot(stream)] };
        let others = STREAMS.into_iter().filter(|other| begins && *other != stream).map(record);
        let known = others.filter(|record| record.stream_at > 0);
        known.chain([record(stream)]).flat_map(|record| record.encode()).collect()
    }

    fn advance(&mut self, stream: Stream, bytes: u64) {
        self.at += bytes;
        self.stream_at[slot(stream)] += bytes;
    }

    fn lose(&mut self, stream: Stream, bytes: u64) {
        if let Some(open) = self.open.take()
            && open.start == self.at
        {
            // An empty segment is removed, or a full disk would fill with empty files.
            let _ = segment::remove(&self.dir, open.start);
        }
        self.lost += bytes;
        self.advance(stream, bytes);
    }

    /// Takes the positions from a segment of an earlier writer.
    fn skip_over(&mut self, segment: segment::Segment) {
        let end = segment.start.saturating_add(segment.bytes);
        self.at = self.at.max(end);
        let index = std::fs::read(segment::index_path(&self.dir, segment.start)).unwrap_or_default();
        let records = segment::decode_index(&index, segment.start);
        for (i, record) in records.iter().enumerate() {
            let run_end = records.get(i + 1).map_or(end, |next| next.at);
            let position = record.stream_at.saturating_add(run_end.saturating_sub(record.at));
            let known = &mut self.stream_at[slot(record.stream)];
            *known = (*known).max(position);
        }
    }
}

impl OpenSegment {
    fn create(dir: &Path, start: u64) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let create =
            |path: PathBuf| OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        // Data last: a segment is listed by its data file and must then have an index.
        let index = create(segment::index_path(dir, start))?;
        let data = create(segment::data_path(dir, start)).inspect_err(|_| {
            let _ = std::fs::remove_file(segment::index_path(dir, start));
        })?;
        Ok(Self { data, index, start, stream: None, records: 0 })
    }

    fn is_full(&self, at: u64, max_bytes: u64) -> bool {
        at - self.start >= max_bytes || self.records >= INDEX_MAX_RECORDS
    }
}

const STREAMS: [Stream; 3] = [Stream::Stdout, Stream::Stderr, Stream::Pty];

fn slot(stream: Stream) -> usize {
    match stream {
        Stream::Stdout => 0,
        Stream::Stderr => 1,
        Stream::Pty => 2,
    }
}
