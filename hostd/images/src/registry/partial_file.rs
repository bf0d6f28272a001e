//! A blob that is being written to a file, with its digest so far. Blocking. The file is locked, so that a download
//! whose caller has gone away and the next one do not write it at the same time.

use crate::{Digest, digest::Hasher, limits::REHASH_PIECE_BYTES};
use bytes::Bytes;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};
use tokio::sync::mpsc;

pub struct PartialFile {
    file: File,
    hasher: Hasher,
    length: u64,
}

impl PartialFile {
    /// Opens or creates a file, and hashes what is in it. A file with more than `max_bytes` is emptied.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        let mut partial = Self { file, hasher: Hasher::default(), length: 0 };
        if partial.file.metadata()?.len() > max_bytes {
            partial.empty()?;
        }
        partial.hash_content()?;
        Ok(partial)
    }

    /// The number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the digest of all bytes.
    pub fn digest(&self) -> Digest {
        self.hasher.clone().finish()
    }

    pub fn empty(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.hasher, self.length) = (Hasher::default(), 0);
        Ok(())
    }

    /// Appends pieces until the sender is dropped.
    pub fn append_all(&mut self, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<()> {
        while let Some(piece) = pieces.blocking_recv() {
            self.file.write_all(&piece)?;
            self.hasher.update(&piece);
            self.length += piece.len() as u64;
        }
        Ok(())
    }

    fn hash_content(&mut self) -> io::Result<()> {
        let mut piece = vec![0; REHASH_PIECE_BYTES];
        loop {
            let count = self.file.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(&piece[..count]);
            self.length += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_hashed_and_what_comes_is_appended() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("blob");
        std::fs::write(&path, "one ").expect("written");
        let mut partial = PartialFile::open(&path, 7).expect("opened");
        assert_eq!((partial.length(), partial.digest()), (4, Digest::of(b"one ")));
        let (pieces, accepted) = mpsc::channel(2);
        pieces.blocking_send(Bytes::from_static(b"tw")).expect("room");
        pieces.blocking_send(Bytes::from_static(b"o")).expect("room");
        drop(pieces);
        partial.append_all(accepted).expect("appended");
        assert_eq!((partial.length(), partial.digest()), (7, Digest::of(b"one two")));
        assert_eq!(std::fs::read(&path).expect("read"), b"one two");
        partial.empty().expect("emptied");
        assert_eq!((partial.length(), partial.digest()), (0, Digest::of(b"")));
    }

    #[test]
    fn a_file_that_is_too_long_is_emptied() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("blob");
        std::fs::write(&path, "four").expect("written");
        let partial = PartialFile::open(&path, 3).expect("opened");
        assert_eq!((partial.length(), std::fs::read(&path).expect("read")), (0, vec![]));
    }
}
