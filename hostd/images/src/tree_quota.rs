//! The limits of one tree: bytes, entries, and the archive that they come from.

use crate::limits::{
    ENTRY_HEADERS_MAX_BYTES, ENTRY_HEADERS_MEAN_MAX_BYTES, IMAGE_MAX_BYTES, IMAGE_MAX_ENTRIES,
};
use std::io;

/// Bytes and entries that a tree may still use. All layers of an image share one.
pub struct TreeQuota {
    what: &'static str,
    max_bytes: u64,
    max_entries: u64,
    bytes: u64,
    entries: u64,
    /// Bytes of archives that may still be read: files, and the headers of entries.
    archive_bytes: u64,
}

/// A tree is larger than it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} has more than {limit}")]
pub struct QuotaExceeded {
    what: &'static str,
    limit: String,
}

impl From<QuotaExceeded> for io::Error {
    fn from(error: QuotaExceeded) -> Self {
        Self::other(error)
    }
}

impl TreeQuota {
    /// `what` begins the message of an error.
    pub fn new(what: &'static str, max_bytes: u64, max_entries: u64) -> Self {
        let headers = max_entries.saturating_mul(ENTRY_HEADERS_MEAN_MAX_BYTES);
        let archive_bytes = max_bytes.saturating_add(headers).saturating_add(ENTRY_HEADERS_MAX_BYTES);
        Self { what, max_bytes, max_entries, bytes: max_bytes, entries: max_entries, archive_bytes }
    }

    /// Returns the quota of an image with all its layers.
    pub fn of_image() -> Self {
        Self::new("the image", IMAGE_MAX_BYTES, IMAGE_MAX_ENTRIES)
    }

    /// Takes one entry of so many bytes.
    pub fn take(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        let max_entries = self.max_entries;
        self.entries =
            self.entries.checked_sub(1).ok_or_else(|| self.exceeded(format!("{max_entries} entries")))?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| self.exceeded(size(self.max_bytes)))?;
        Ok(())
    }

    /// Takes bytes that were read of an archive: headers that describe nothing take time too.
    pub fn take_archive(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        let left = self.archive_bytes.checked_sub(bytes);
        self.archive_bytes = left.ok_or_else(|| self.exceeded("its size in headers".to_owned()))?;
        Ok(())
    }

    /// Returns the bytes of all entries so far.
    pub fn used_bytes(&self) -> u64 {
        self.max_bytes - self.bytes
    }

    /// Returns the number of entries so far.
    pub fn used_entries(&self) -> u64 {
        self.max_entries - self.entries
    }

    fn exceeded(&self, limit: String) -> QuotaExceeded {
        QuotaExceeded { what: self.what, limit }
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_entries_and_headers_are_limited() {
        let quota = || TreeQuota::new("it", 2 << 20, 2);
        let mut one = quota();
        one.take(1 << 20).expect("within");
        one.take(1 << 20).expect("within");
        assert_eq!((one.used_bytes(), one.used_entries()), (2 << 20, 2));
        assert_eq!(one.take(0).expect_err("a third").to_string(), "it has more than 2 entries");
        assert_eq!(quota().take((2 << 20) + 1).expect_err("too large").to_string(), "it has more than 2 MiB");
        assert!(quota().take(u64::MAX).is_err());
        let mut one = quota();
        one.take_archive(3 << 20).expect("within");
        assert!(one.take_archive(1 << 20).is_err());
        assert!(TreeQuota::new("it", u64::MAX, u64::MAX).take_archive(u64::MAX).is_ok());
    }
}
