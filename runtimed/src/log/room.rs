//! Disk space set aside beyond the end of a file that must go on when the disk is full: records and
//! events are small, and losing them costs more than the space.

use nix::fcntl::{FallocateFlags, fallocate};
use std::fs::File;

/// Set aside at once; renewed when half of it is used.
const ROOM_BYTES: u64 = 64 << 10;

#[derive(Debug, Default)]
pub struct Room {
    until: u64,
}

impl Room {
    /// Makes sure there is room after `end`. Best effort: a file system that cannot do it, or is full
    /// already, is no reason to stop.
    pub fn keep(&mut self, file: &File, end: u64) {
        let enough = end + ROOM_BYTES / 2 <= self.until;
        if !enough
            && fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, end as i64, ROOM_BYTES as i64).is_ok()
        {
            self.until = end + ROOM_BYTES;
        }
    }
}
