//! Free space of file systems.

use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use std::os::fd::AsFd;
use std::path::Path;

/// Space on a file system, for ordinary users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    pub free_bytes: u64,
    pub total_bytes: u64,
}

impl Space {
    /// Space of the file system of a descriptor; zero where that fails.
    pub fn of(fd: impl AsFd) -> Self {
        fstatvfs(fd).map(|space| Self::from(&space)).unwrap_or_default()
    }
}

impl From<&Statvfs> for Space {
    fn from(space: &Statvfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(space.fragment_size());
        Self { free_bytes: bytes(space.blocks_available()), total_bytes: bytes(space.blocks()) }
    }
}

/// Whether the file system has no block, or no inode, left for ordinary users. `root` must be reachable for
/// root without DAC_OVERRIDE, as the mount point of the workspace is.
pub fn is_full(root: &Path) -> bool {
    statvfs(root).is_ok_and(|space| {
        // Some file systems have no blocks, or create inodes dynamically, and report 0 of 0.
        let no_blocks = space.blocks() > 0 && space.blocks_available() == 0;
        let no_inodes = space.files() > 0 && space.files_available() == 0;
        no_blocks || no_inodes
    })
}
