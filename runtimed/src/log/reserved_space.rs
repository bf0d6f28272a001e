//! Disk space reserved beyond the end of a file that must stay writable when the disk is full: records and
//! events are small, and losing them costs more than the space.

use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;

/// Reserved at once; renewed when half of it is used.
const RESERVED_BYTES: u64 = 64 << 10;

#[derive(Debug, Default)]
pub struct ReservedSpace {
    until: u64,
}

impl ReservedSpace {
    /// Ensures that there is reserved space after `end`. Best effort: a file system that cannot do it, or is
    /// already full, is no error.
    pub fn extend(&mut self, file: &File, end: u64) {
        let enough = end + RESERVED_BYTES / 2 <= self.until;
        if !enough
            && fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, end as i64, RESERVED_BYTES as i64).is_ok()
        {
            self.until = end + RESERVED_BYTES;
        }
    }
}
