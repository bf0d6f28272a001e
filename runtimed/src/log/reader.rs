//! Reads an output log at the reader's own pace. A reader holds one open segment and a position, so readers
//! cost the writer nothing.

use super::segment::{self, RECORD_BYTES, Record};
use protocol::Stream;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub struct Reader {
    dir: PathBuf,
    at: u64,
    open: Option<OpenSegment>,
}

struct OpenSegment {
    start: u64,
    data: File,
    index: File,
    records: Vec<Record>,
    /// A record of the index is damaged: the end of the run before it is not known.
    damaged: bool,
}

/// The next part of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    Bytes {
        stream: Stream,
        stream_at: u64,
        bytes: Vec<u8>,
    },
    /// Bytes that are not stored: `lost` of them are skipped.
    Gap {
        lost: u64,
    },
    /// Nothing more for now.
    End,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The position was trimmed.
    #[error("history before position {oldest} is gone")]
    Trimmed { oldest: u64 },
    #[error("read the log")]
    Io(#[from] io::Error),
}

impl Reader {
    pub fn new(dir: &Path, at: u64) -> Self {
        Self { dir: dir.to_owned(), at, open: None }
    }

    /// The position of the next byte.
    pub fn position(&self) -> u64 {
        self.at
    }

    pub fn seek(&mut self, at: u64) {
        self.at = at;
        self.open = None;
    }

    /// Reads up to `max` bytes of one stream. `head` is the known length of the log: below it, bytes that are
    /// not stored are a gap; at it, there is nothing more for now.
    pub fn read(&mut self, max: usize, head: u64) -> Result<Read, ReadError> {
        if let Some(read) = self.read_open(max)? {
            return Ok(read);
        }
        if self.at >= head && self.open.is_some() {
            return Ok(Read::End);
        }
        let segments = segment::list(&self.dir)?;
        // More may have been written to the open segment before the next one was begun.
        if let Some(read) = self.read_open(max)? {
            return Ok(read);
        }
        let Some(next) = segments.iter().rfind(|s| s.start <= self.at) else {
            return self.before_the_first(segments.first().map(|s| s.start), head);
        };
        let known = self.open.as_ref().map(|open| open.start);
        if known != Some(next.start) && self.at < next.start.saturating_add(next.bytes.max(1)) {
            let later = segments.iter().map(|s| s.start).find(|start| *start > self.at);
            self.open = match OpenSegment::at(&self.dir, next.start) {
                Ok(open) => Some(open),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let end = head.max(next.start.saturating_add(next.bytes));
                    return self.skipped(later.unwrap_or(end));
                }
                Err(error) => return Err(error.into()),
            };
            return Ok(self.read_open(max)?.unwrap_or(Read::End));
        }
        let until = segments.iter().find(|s| s.start > self.at).map_or(head, |s| s.start);
        Ok(self.pass_over(until))
    }

    fn before_the_first(&mut self, first: Option<u64>, head: u64) -> Result<Read, ReadError> {
        match first {
            Some(oldest) => Err(ReadError::Trimmed { oldest }),
            // Everything below the head is gone: all was trimmed, or nothing could be stored.
            None if self.at < head => Err(ReadError::Trimmed { oldest: head }),
            None => Ok(Read::End),
        }
    }

    /// The segment was removed while it was being opened: kept output begins at `oldest`.
    fn skipped(&self, oldest: u64) -> Result<Read, ReadError> {
        if oldest > self.at { Err(ReadError::Trimmed { oldest }) } else { Ok(Read::End) }
    }

    fn pass_over(&mut self, until: u64) -> Read {
        if until <= self.at {
            return Read::End;
        }
        let lost = until - self.at;
        self.seek(until);
        Read::Gap { lost }
    }

    fn read_open(&mut self, max: usize) -> Result<Option<Read>, ReadError> {
        let Some(open) = &mut self.open else { return Ok(None) };
        let end = open.start.saturating_add(open.data.metadata()?.len());
        if self.at < open.start || self.at >= end {
            return Ok(None);
        }
        let Some((record, run_end)) = open.run_at(self.at, end)? else {
            // The index is damaged: the stream of these bytes is not known.
            let lost = end - self.at;
            self.at = end;
            return Ok(Some(Read::Gap { lost }));
        };
        let want = (run_end - self.at).min(max as u64) as usize;
        let mut bytes = vec![0; want];
        open.data.read_exact_at(&mut bytes, self.at - open.start)?;
        let stream_at = record.stream_at.saturating_add(self.at - record.at);
        self.at += want as u64;
        Ok(Some(Read::Bytes { stream: record.stream, stream_at, bytes }))
    }
}

impl OpenSegment {
    fn at(dir: &Path, start: u64) -> io::Result<Self> {
        Ok(Self {
            start,
            data: File::open(segment::data_path(dir, start))?,
            index: File::open(segment::index_path(dir, start))?,
            records: Vec::new(),
            damaged: false,
        })
    }

    /// The run that holds `at`, and where it ends.
    fn run_at(&mut self, at: u64, end: u64) -> io::Result<Option<(Record, u64)>> {
        self.refresh()?;
        let after = self.records.partition_point(|record| record.at <= at);
        let Some(record) = after.checked_sub(1).map(|i| self.records[i]) else { return Ok(None) };
        if self.damaged && after == self.records.len() {
            return Ok(None);
        }
        let run_end = self.records.get(after).map_or(end, |next| next.at.min(end));
        Ok((run_end > at).then_some((record, run_end)))
    }

    /// Reads new records of the index. Records after a damaged one are ignored.
    fn refresh(&mut self) -> io::Result<()> {
        let known = self.records.len() * RECORD_BYTES;
        let length = self.index.metadata()?.len() as usize;
        let mut added = vec![0; length.saturating_sub(known) / RECORD_BYTES * RECORD_BYTES];
        if added.is_empty() {
            return Ok(());
        }
        self.index.read_exact_at(&mut added, known as u64)?;
        let from = self.records.last().copied();
        let sound = segment::decode_index_after(&added, self.start, from);
        self.damaged = sound.len() * RECORD_BYTES < added.len();
        self.records.extend(sound);
        Ok(())
    }
}

/// The last bytes of a log, at most `max` of them, of all streams.
pub fn tail_bytes(dir: &Path, end: u64, max: u64) -> Vec<u8> {
    let mut reader = Reader::new(dir, end.saturating_sub(max));
    let mut tail = Vec::new();
    loop {
        // Bytes written behind `end` meanwhile are not read: a busy writer would never let this end.
        let left = end.saturating_sub(reader.position());
        if left == 0 {
            return tail;
        }
        match reader.read(left as usize, end) {
            Ok(Read::Bytes { bytes, .. }) => tail.extend(bytes),
            Ok(Read::Gap { .. }) => {}
            Err(ReadError::Trimmed { oldest }) if oldest > reader.position() => reader.seek(oldest),
            Ok(Read::End) | Err(_) => return tail,
        }
    }
}
