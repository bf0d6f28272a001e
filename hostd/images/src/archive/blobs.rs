//! The files of a layout or an archive by name.

use super::{
    ArchiveError,
    tar_index::{Section, TarIndex},
    verified_reader::VerifiedReader,
};
use crate::Digest;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::{
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::Arc,
};

/// Symlinks may lead from one file of a layout to another, never out of it.
const WITHIN: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

#[derive(Debug)]
pub enum Blobs {
    Directory(OwnedFd),
    Tar { file: Arc<File>, index: TarIndex },
}

impl Blobs {
    /// Opens a file; nothing if there is none. Returns its size too.
    pub fn open(&self, name: &str) -> io::Result<Option<(Box<dyn Read + Send>, u64)>> {
        match self {
            Self::Directory(directory) => Ok(open_beneath(directory, name)?.map(|(file, bytes)| {
                let file: Box<dyn Read + Send> = Box::new(file);
                (file, bytes)
            })),
            Self::Tar { file, index } => Ok(index.find(name.as_bytes()).map(|section| {
                let reader: Box<dyn Read + Send> =
                    Box::new(SectionReader { file: Arc::clone(file), section });
                (reader, section.bytes)
            })),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.open(name).is_ok_and(|found| found.is_some())
    }

    /// Reads a document of limited size.
    pub fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        let failed = || ArchiveError::read(name);
        let missing = || ArchiveError::MissingBlob { name: name.to_owned() };
        let (reader, _) = self.open(name).map_err(failed())?.ok_or_else(missing)?;
        let mut bytes = vec![];
        // One byte more: the parser of the document refuses it as too large.
        reader.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed())?;
        Ok(bytes)
    }

    /// Reads a blob of limited size and verifies its digest.
    pub fn read_blob(&self, digest: &Digest, max_bytes: u64) -> Result<Vec<u8>, ArchiveError> {
        let bytes = self.read(&blob_name(digest), max_bytes)?;
        if bytes.len() as u64 <= max_bytes && Digest::of(&bytes) != *digest {
            return Err(ArchiveError::DigestMismatch { name: blob_name(digest) });
        }
        Ok(bytes)
    }

    /// Opens a file whose end is an error unless it has this digest. The size is that of the file.
    pub fn open_verified(&self, name: &str, digest: &Digest) -> io::Result<Option<Box<dyn Read + Send>>> {
        Ok(self.open(name)?.map(|(reader, bytes)| {
            let verified: Box<dyn Read + Send> = Box::new(VerifiedReader::new(reader, digest.clone(), bytes));
            verified
        }))
    }
}

/// Returns the name of a blob in a layout.
pub fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Opens a regular file of a directory; nothing if there is none.
fn open_beneath(directory: &OwnedFd, name: &str) -> io::Result<Option<(File, u64)>> {
    // Without O_NONBLOCK, opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat2(directory, name, flags, Mode::empty(), WITHIN) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let meta = file.metadata()?;
    Ok(meta.is_file().then_some((file, meta.len())))
}

/// Reads a part of a file that others read at the same time.
struct SectionReader {
    file: Arc<File>,
    section: Section,
}

impl Read for SectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let max = usize::try_from(self.section.bytes).unwrap_or(usize::MAX).min(buffer.len());
        if max == 0 {
            return Ok(0);
        }
        let length = self.file.read_at(&mut buffer[..max], self.section.offset)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.section.offset += length as u64;
        self.section.bytes -= length as u64;
        Ok(length)
    }
}
