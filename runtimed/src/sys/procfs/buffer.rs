//! Reads many small kernel files with one buffer and few system calls.
//!
//! Must not: read files of the user, which could be anything. The kernel's own files never block.

use crate::limits::{PROC_ENTRIES_MAX, PROC_FILE_MAX_BYTES};
use std::fmt::{self, Write as _};
use std::fs::{File, read_dir};
use std::io::{self, Read};

/// Enough for any `stat`, and for the counters of a control group, in one read.
const CHUNK_BYTES: usize = 4096;

pub struct Buffer {
    path: String,
    bytes: Vec<u8>,
}

impl Buffer {
    pub fn new() -> Self {
        Self { path: String::with_capacity(64), bytes: vec![0; CHUNK_BYTES] }
    }

    /// Reads once: a small file is complete, since the kernel writes it in one piece.
    pub fn small(&mut self, path: fmt::Arguments<'_>) -> io::Result<&[u8]> {
        let read = self.open(path)?.read(&mut self.bytes)?;
        Ok(&self.bytes[..read])
    }

    /// Reads the whole file, up to `PROC_FILE_MAX_BYTES`; the kernel returns long ones in pieces.
    pub fn whole(&mut self, path: fmt::Arguments<'_>) -> io::Result<&[u8]> {
        let mut file = self.open(path)?;
        let mut filled = 0;
        while filled < PROC_FILE_MAX_BYTES {
            if filled == self.bytes.len() {
                self.bytes.resize((filled * 2).min(PROC_FILE_MAX_BYTES), 0);
            }
            match file.read(&mut self.bytes[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(&self.bytes[..filled])
    }

    fn open(&mut self, path: fmt::Arguments<'_>) -> io::Result<File> {
        self.path.clear();
        self.path.write_fmt(path).map_err(io::Error::other)?;
        File::open(&self.path)
    }
}

/// The numeric names in a directory of /proc, within the limit of one response.
pub fn numbers_in(directory: &str) -> io::Result<impl Iterator<Item = i32> + use<>> {
    let entries = read_dir(directory)?.map_while(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).take(PROC_ENTRIES_MAX))
}

/// Every process of this PID namespace.
pub fn pids() -> impl Iterator<Item = i32> {
    numbers_in("/proc").into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_longer_than_the_buffer_is_read_whole_and_the_buffer_can_be_used_again() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        let path = file.path().display().to_string();
        let mut buffer = Buffer::new();
        for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 100_000, 3] {
            std::fs::write(&path, vec![b'x'; length]).expect("write");
            assert_eq!(buffer.whole(format_args!("{path}")).expect("read").len(), length);
        }
    }

    #[test]
    fn a_file_beyond_the_limit_is_cut() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        file.as_file().set_len(2 * PROC_FILE_MAX_BYTES as u64).expect("size");
        let path = file.path().display();
        let mut buffer = Buffer::new();
        assert_eq!(buffer.whole(format_args!("{path}")).expect("read").len(), PROC_FILE_MAX_BYTES);
    }

    #[test]
    fn every_process_is_listed_and_nothing_else() {
        let listed: Vec<i32> = pids().collect();
        assert!(listed.contains(&(std::process::id() as i32)));
        assert!(listed.iter().all(|pid| *pid > 0));
    }
}
