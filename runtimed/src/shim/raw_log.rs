//! The raw log: everything that an agent with a structured protocol printed, as it was printed. Only the
//! newest part is kept.

use crate::limits::{RAW_LOG_MAX_BYTES, RAW_SEGMENT_MAX_BYTES};
use crate::log::segment::{self, Segment};
use crate::log::writer::{Appended, Writer};
use protocol::Stream;
use std::io;
use std::path::{Path, PathBuf};

pub struct RawLog {
    dir: PathBuf,
    writer: Writer,
}

impl RawLog {
    pub fn open(dir: &Path) -> io::Result<Self> {
        let writer = Writer::resume(dir, 0)?.with_segment_max_bytes(RAW_SEGMENT_MAX_BYTES);
        Ok(Self { dir: dir.to_owned(), writer })
    }

    /// Appends output; whether a file was rotated.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> bool {
        let rotated = self.writer.append(stream, bytes) == Appended::Rotated;
        if rotated {
            self.trim();
        }
        rotated
    }

    pub fn end(&self) -> u64 {
        self.writer.end()
    }

    /// Removes the oldest files; never the one being written.
    fn trim(&self) {
        let segments = segment::list(&self.dir).unwrap_or_default();
        let mut bytes: u64 = segments.iter().map(Segment::disk_bytes).sum();
        let older = segments.split_last().map_or(&[][..], |(_, older)| older);
        for oldest in older {
            if bytes <= RAW_LOG_MAX_BYTES - RAW_SEGMENT_MAX_BYTES {
                return;
            }
            bytes -= oldest.disk_bytes();
            let _ = segment::remove(&self.dir, oldest.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Read, Reader};

    #[test]
    fn only_the_end_of_a_long_log_is_kept() {
        let home = tempfile::tempdir().expect("a directory");
        let mut raw = RawLog::open(home.path()).expect("a log");
        let line = [b'x'; 1000];
        let lines = 2 * RAW_LOG_MAX_BYTES / line.len() as u64;
        for at in 0..lines {
            raw.append(if at % 100 == 0 { Stream::Stderr } else { Stream::Stdout }, &line);
        }
        raw.append(Stream::Stdout, b"end");
        let segments = segment::list(home.path()).expect("a directory");
        let bytes: u64 = segments.iter().map(Segment::disk_bytes).sum();
        assert!(bytes <= RAW_LOG_MAX_BYTES && bytes > RAW_LOG_MAX_BYTES / 2, "{bytes}");
        assert_eq!(raw.end(), lines * line.len() as u64 + 3);
        let mut reader = Reader::new(home.path(), raw.end() - 3);
        let Ok(Read::Bytes { bytes, .. }) = reader.read(10, raw.end()) else { panic!("no end") };
        assert_eq!(bytes, b"end");
    }
}
