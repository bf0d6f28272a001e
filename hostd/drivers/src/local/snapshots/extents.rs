//! The parts of a file that are not holes, without reading the holes.

use super::super::files::errno;
use nix::{
    errno::Errno,
    unistd::{Whence, lseek},
};
use std::{fs::File, io};

/// The unit in which parts of a file are told apart, whatever the blocks of its file system are.
pub const BLOCK_BYTES: u64 = 4096;

/// A part of a file: whole blocks, but for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub start: u64,
    pub end: u64,
}

impl Extent {
    pub fn bytes(self) -> u64 {
        self.end - self.start
    }
}

/// Finds the first part with data at or after an offset that is a multiple of a block.
pub fn next_extent(file: &File, at: u64, size: u64) -> io::Result<Option<Extent>> {
    if at >= size {
        return Ok(None);
    }
    let offset = |at: u64| i64::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let data = match lseek(file, offset(at)?, Whence::SeekData) {
        Ok(data) => u64::try_from(data).unwrap_or(at),
        // Nothing but a hole is left.
        Err(Errno::ENXIO) => return Ok(None),
        // A file system without holes.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(Some(Extent { start: at, end: size })),
        Err(error) => return Err(errno(error)),
    };
    if data >= size {
        return Ok(None);
    }
    let hole = lseek(file, offset(data)?, Whence::SeekHole).map_err(errno)?;
    let hole = u64::try_from(hole).unwrap_or(size);
    let start = (data - data % BLOCK_BYTES).max(at);
    let end = hole.max(data + 1).next_multiple_of(BLOCK_BYTES).min(size);
    Ok(Some(Extent { start, end }))
}

/// The parts of a file, with small gaps between them counted in: there are `max` of them at most.
#[derive(Debug, PartialEq, Eq)]
pub struct Extents {
    pub parts: Vec<Extent>,
    /// Bytes without the gaps that were counted in.
    pub data_bytes: u64,
}

/// Gaps of less than `gap_min` bytes are counted in, and larger ones where there would be too many parts.
pub fn extents(file: &File, size: u64, mut gap_min: u64, max: usize) -> io::Result<Extents> {
    let (mut found, mut at, mut data_bytes) = (Vec::<Extent>::new(), 0, 0);
    while let Some(next) = next_extent(file, at, size)? {
        at = next.end;
        data_bytes += next.bytes();
        match found.last_mut() {
            Some(last) if next.start - last.end < gap_min => last.end = next.end,
            Some(_) | None => found.push(next),
        }
        while found.len() > max {
            gap_min = gap_min.saturating_mul(2);
            found = joined(&found, gap_min);
        }
    }
    Ok(Extents { parts: found, data_bytes })
}

fn joined(extents: &[Extent], gap_min: u64) -> Vec<Extent> {
    let mut joined = Vec::<Extent>::new();
    for next in extents {
        match joined.last_mut() {
            Some(last) if next.start - last.end < gap_min => last.end = next.end,
            Some(_) | None => joined.push(*next),
        }
    }
    joined
}
