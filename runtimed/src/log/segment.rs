//! The format of output logs on disk.
//!
//! A log is a directory of segments. A segment is two files named after the position of its first byte:
//!
//! ```text
//! 0000000000000000.data    the bytes of all streams, in the order they came
//! 0000000000000000.index   one record where the stream changes: (at, stream, position in that stream),
//!                          before them one for each other stream, so that a segment needs no earlier one
//! 0000000000400000.data    …
//! ```
//!
//! A record is written *before* the bytes it describes, so a reader that sees a byte finds its record.
//! Positions count every byte the job wrote. Bytes that could not be stored leave a hole between two
//! segments; trimmed bytes leave one at the front. Nothing here reads a clock.

use protocol::Stream;
use std::io;
use std::path::{Path, PathBuf};

/// The beginning of a run of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub at: u64,
    pub stream: Stream,
    pub stream_at: u64,
}

pub const RECORD_BYTES: usize = 24;

impl Record {
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[0..8].copy_from_slice(&self.at.to_le_bytes());
        out[8..16].copy_from_slice(&self.stream_at.to_le_bytes());
        out[16] = match self.stream {
            Stream::Stdout => 1,
            Stream::Stderr => 2,
            Stream::Pty => 3,
        };
        let sum = crc32fast::hash(&out[..20]);
        out[20..24].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let word = |from: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[from + i]));
        let sum = u32::from_le_bytes(std::array::from_fn(|i| bytes[20 + i]));
        if crc32fast::hash(&bytes[..20]) != sum {
            return None;
        }
        let stream = match bytes[16] {
            1 => Stream::Stdout,
            2 => Stream::Stderr,
            3 => Stream::Pty,
            _ => return None,
        };
        Some(Self { at: word(0), stream, stream_at: word(8) })
    }
}

/// The records of an index up to the first that is torn, damaged or out of order.
pub fn decode_index(bytes: &[u8], start: u64) -> Vec<Record> {
    decode_index_after(bytes, start, None)
}

/// The same for bytes that follow the record `before`.
pub fn decode_index_after(bytes: &[u8], start: u64, mut before: Option<Record>) -> Vec<Record> {
    let mut records = Vec::new();
    for chunk in bytes.chunks_exact(RECORD_BYTES) {
        let raw = std::array::from_fn(|i| chunk[i]);
        let Some(record) = Record::decode(&raw) else { break };
        if !before.map_or(record.at == start, |before| record.at >= before.at) {
            break;
        }
        before = Some(record);
        records.push(record);
    }
    records
}

/// One segment as listed in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    pub bytes: u64,
    pub index_bytes: u64,
}

impl Segment {
    /// Size of both files: where streams alternate byte by byte, the index is the larger one.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.index_bytes)
    }
}

pub fn data_path(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("{start:016x}.data"))
}

pub fn index_path(dir: &Path, start: u64) -> PathBuf {
    dir.join(format!("{start:016x}.index"))
}

/// The segments of a log, oldest first; none where the directory does not exist.
pub fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(stem) = name.to_str().and_then(|n| n.strip_suffix(".data")) else { continue };
        let Ok(start) = u64::from_str_radix(stem, 16) else { continue };
        // A segment that is trimmed between the two calls is skipped.
        let Ok(meta) = entry.metadata() else { continue };
        let index_bytes = std::fs::metadata(index_path(dir, start)).map_or(0, |index| index.len());
        found.push(Segment { start, bytes: meta.len(), index_bytes });
    }
    found.sort_unstable_by_key(|segment| segment.start);
    Ok(found)
}

/// Removes a segment. The data file goes last: while it is listed its index can be missing, never the
/// reverse.
pub fn remove(dir: &Path, start: u64) -> io::Result<()> {
    for path in [index_path(dir, start), data_path(dir, start)] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(at: u64, stream_at: u64) -> Record {
        Record { at, stream: Stream::Stderr, stream_at }
    }

    #[test]
    fn an_index_is_read_up_to_its_first_bad_record() {
        let mut bytes = Vec::new();
        for r in [record(8, 0), record(10, 2), record(20, 3)] {
            bytes.extend(r.encode());
        }
        assert_eq!(decode_index(&bytes, 8).len(), 3);
        assert_eq!(decode_index(&bytes, 9).len(), 0, "the first record starts the segment");
        assert_eq!(decode_index(&bytes[..bytes.len() - 1], 8).len(), 2, "torn tail");
        bytes[RECORD_BYTES + 3] ^= 1;
        assert_eq!(decode_index(&bytes, 8).len(), 1, "flipped bit");
    }

    proptest! {
        #[test]
        fn a_record_is_what_it_encodes(at: u64, stream_at: u64) {
            prop_assert_eq!(Record::decode(&record(at, stream_at).encode()), Some(record(at, stream_at)));
        }

        #[test]
        fn any_bytes_are_a_readable_index(bytes in prop::collection::vec(any::<u8>(), 0..200), start: u64) {
            crate::fuzz::output_index(&bytes);
            prop_assert!(decode_index(&bytes, start).len() <= bytes.len() / RECORD_BYTES);
        }
    }
}
