//! The fields of a header.

use super::TarError;
use tar::Header;

pub const BLOCK_BYTES: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Returns the bytes between a content of this size and the next block.
pub fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK_BYTES as u64
}

/// Checks the checksum of a header, whose own field counts as spaces.
pub fn check(header: &Header) -> Result<(), TarError> {
    let bytes = header.as_bytes();
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    let own: u32 = bytes[CHECKSUM].iter().map(|byte| u32::from(*byte)).sum();
    let expected = sum - own + u32::from(b' ') * 8;
    match header.cksum() {
        Ok(found) if found == expected => Ok(()),
        Ok(_) | Err(_) => Err(TarError::Damaged("a header has a wrong checksum")),
    }
}

/// Returns the size of the content; so large a one that its padding does not fit is damage.
pub fn size(header: &Header) -> Result<u64, TarError> {
    checked_size(header.entry_size().map_err(|_| TarError::Damaged("a header has no valid size"))?)
}

pub fn checked_size(size: u64) -> Result<u64, TarError> {
    if size > i64::MAX as u64 - BLOCK_BYTES as u64 {
        return Err(TarError::Damaged("an entry has an impossible size"));
    }
    Ok(size)
}

/// Returns the mode, of which only the lowest twelve bits mean something.
pub fn mode(header: &Header) -> Result<u32, TarError> {
    header.mode().map(|mode| mode & 0o7777).map_err(|_| TarError::Damaged("a header has no valid mode"))
}
