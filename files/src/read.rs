//! Reads a regular file, or a part of it.

use crate::{
    Exchange, FilesError, Workspace,
    entry::{matches, of_stat},
    exchange::gone,
    limits::{CHUNK_BYTES, UNSIZED_FILE_MAX_BYTES},
};
use bytes::Bytes;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use protocol::files::{ByteRange, FilePath, FilesReply};
use rustix::{buffer::spare_capacity, io::Errno};
use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    os::fd::AsFd,
};

pub fn read(
    workspace: &Workspace,
    exchange: &mut dyn Exchange,
    path: &FilePath,
    range: Option<ByteRange>,
    unless_etag: &[String],
) -> Result<(), FilesError> {
    let (mut file, stat) = workspace.open_file(path, OFlag::O_RDONLY)?;
    let mut entry = of_stat(path.clone(), &stat, None);
    if matches(unless_etag, &entry.etag) {
        return exchange.reply(FilesReply::NotModified { entry }).map_err(gone);
    }
    let unsized_content = if entry.size == 0 { read_unsized(&file, path)? } else { Bytes::new() };
    entry.size += unsized_content.len() as u64;
    let size = entry.size;
    let (first, bytes) = match range {
        None => (0, size),
        Some(range) => resolve(range, size).ok_or(FilesError::Range { path: path.clone(), size })?,
    };
    exchange.reply(FilesReply::Content { entry, first, bytes }).map_err(gone)?;
    if !unsized_content.is_empty() {
        let (first, bytes) = (index(first), index(bytes));
        let part = unsized_content.slice(first..first + bytes);
        return part
            .chunks(CHUNK_BYTES)
            .try_for_each(|chunk| exchange.send(part.slice_ref(chunk)).map_err(gone));
    }
    file.seek(SeekFrom::Start(first)).map_err(FilesError::io_at("read the file", path))?;
    // Only speed depends on it.
    let _ = posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_SEQUENTIAL);
    send(&file, exchange, path, bytes)
}

/// Returns the content of a file that has one although its size is 0, as those of `/proc`.
fn read_unsized(file: &File, path: &FilePath) -> Result<Bytes, FilesError> {
    let mut content = Vec::new();
    let read = file.take(UNSIZED_FILE_MAX_BYTES + 1).read_to_end(&mut content);
    read.map_err(FilesError::io_at("read the file", path))?;
    if content.len() as u64 > UNSIZED_FILE_MAX_BYTES {
        let source = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
        return Err(FilesError::Io {
            what: "read a file that does not tell its size",
            path: path.clone(),
            source,
        });
    }
    Ok(content.into())
}

/// Of a content that is in memory.
fn index(position: u64) -> usize {
    usize::try_from(position).expect("it is within the content")
}

/// The first byte and the number of bytes; `None` where no byte of the range exists.
fn resolve(range: ByteRange, size: u64) -> Option<(u64, u64)> {
    match range {
        ByteRange::From { first, last } if first < size => {
            let end = last.map_or(size, |last| last.saturating_add(1).min(size));
            (end > first).then_some((first, end - first))
        }
        ByteRange::Suffix { bytes } if bytes > 0 && size > 0 => {
            let bytes = bytes.min(size);
            Some((size - bytes, bytes))
        }
        ByteRange::From { .. } | ByteRange::Suffix { .. } => None,
    }
}

/// Sends as many bytes as the reply promised. A file that became shorter meanwhile breaks the response off.
fn send(file: &File, exchange: &mut dyn Exchange, path: &FilePath, mut left: u64) -> Result<(), FilesError> {
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let chunk = read_chunk(file, want).map_err(FilesError::io_at("read the file", path))?;
        if chunk.is_empty() {
            let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(FilesError::Io { what: "read the file to its end", path: path.clone(), source });
        }
        left -= chunk.len() as u64;
        exchange.send(chunk).map_err(gone)?;
    }
    Ok(())
}

/// Reads up to `want` bytes, into memory that is not cleared first: that would take as long as the reading.
pub fn read_chunk(file: &impl AsFd, want: usize) -> std::io::Result<Bytes> {
    let mut chunk = Vec::with_capacity(want);
    loop {
        match rustix::io::read(file, spare_capacity(&mut chunk)) {
            Err(Errno::INTR) => {}
            read => return read.map(|_| chunk.into()).map_err(Into::into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_file() {
        let from = |first, last| ByteRange::From { first, last };
        let suffix = |bytes| ByteRange::Suffix { bytes };
        let table = [
            (from(0, None), 10, Some((0, 10))),
            (from(0, Some(0)), 10, Some((0, 1))),
            (from(3, Some(5)), 10, Some((3, 3))),
            (from(9, Some(u64::MAX)), 10, Some((9, 1))),
            (from(10, None), 10, None),
            (from(5, Some(4)), 10, None),
            (from(0, None), 0, None),
            (suffix(3), 10, Some((7, 3))),
            (suffix(30), 10, Some((0, 10))),
            (suffix(0), 10, None),
            (suffix(1), 0, None),
        ];
        for (range, size, expected) in table {
            assert_eq!(resolve(range, size), expected, "{range:?} of {size}");
        }
    }

    #[test]
    fn a_file_that_does_not_tell_its_size_is_read_to_its_end() {
        let path = FilePath(b"status".to_vec());
        let file = File::open("/proc/self/status").expect("a file of the kernel");
        assert_eq!(file.metadata().expect("its attributes").len(), 0);
        assert!(read_unsized(&file, &path).expect("it is short").starts_with(b"Name:"));
        let endless = File::open("/dev/zero").expect("a device");
        assert!(read_unsized(&endless, &path).is_err());
    }
}
