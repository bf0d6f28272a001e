//! The content of a file that is packed: as many bytes as its header promises, whatever happens to the file meanwhile.

use crate::{FilesError, limits::CHUNK_BYTES};
use protocol::files::FilePath;
use std::{fs::File, io::Read};

pub struct Content<'a> {
    file: &'a File,
    path: &'a FilePath,
    left: u64,
    buffer: &'a mut [u8],
}

impl<'a> Content<'a> {
    pub fn new(file: &'a File, path: &'a FilePath, size: u64, buffer: &'a mut [u8]) -> Self {
        Self { file, path, left: size, buffer }
    }

    /// A buffer for the content of many files.
    pub fn buffer() -> Vec<u8> {
        vec![0; CHUNK_BYTES]
    }

    /// The next bytes; none at the end. A file that became shorter is continued with zeros, one that became longer is
    /// cut.
    pub fn next(&mut self) -> Result<&[u8], FilesError> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(self.buffer.len());
        let buffer = &mut self.buffer[..want];
        let count = match want {
            0 => 0,
            _ => self.file.read(buffer).map_err(FilesError::io_at("read the file", self.path))?,
        };
        let taken = if count == 0 {
            buffer.fill(0);
            want
        } else {
            count
        };
        self.left -= taken as u64;
        Ok(&buffer[..taken])
    }
}
