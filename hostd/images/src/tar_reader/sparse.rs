//! Maps of sparse files in the format of GNU: where each stored part belongs.

use super::{Segment, TarError, header::BLOCK_BYTES};
use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

/// A map that is being read.
pub struct Map {
    segments: Vec<Segment>,
    stored_left: u64,
    end: u64,
    size: u64,
    is_continued: bool,
}

const WRONG: TarError = TarError::Damaged("the map of a sparse file is not valid");

impl Map {
    /// Starts with the header of the member, whose content has `stored` bytes.
    pub fn begin(header: &Header, stored: u64) -> Result<Self, TarError> {
        let gnu = header.as_gnu().ok_or(WRONG)?;
        let size = gnu.real_size().map_err(|_| WRONG)?;
        let is_continued = gnu.is_extended();
        let mut map = Self { segments: vec![], stored_left: stored, end: 0, size, is_continued };
        map.add(&gnu.sparse)?;
        Ok(map)
    }

    /// Whether another block of the map follows.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    pub fn extend(&mut self, block: &[u8; BLOCK_BYTES]) -> Result<(), TarError> {
        let mut header = GnuExtSparseHeader::new();
        header.as_mut_bytes().copy_from_slice(block);
        self.is_continued = header.is_extended();
        self.add(&header.sparse)
    }

    /// Returns the parts and the size of the file.
    pub fn finish(self) -> Result<(Vec<Segment>, u64), TarError> {
        if self.stored_left > 0 || self.end > self.size || self.size > i64::MAX as u64 {
            return Err(WRONG);
        }
        Ok((self.segments, self.size))
    }

    fn add(&mut self, entries: &[GnuSparseHeader]) -> Result<(), TarError> {
        for entry in entries.iter().filter(|entry| !entry.is_empty()) {
            let offset = entry.offset().map_err(|_| WRONG)?;
            let bytes = entry.length().map_err(|_| WRONG)?;
            if offset < self.end {
                return Err(WRONG);
            }
            self.end = offset.checked_add(bytes).ok_or(WRONG)?;
            self.stored_left = self.stored_left.checked_sub(bytes).ok_or(WRONG)?;
            self.segments.push(Segment { offset, bytes });
        }
        Ok(())
    }
}
