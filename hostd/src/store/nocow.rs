//! On btrfs a file that is written anew gets new blocks, which a full disk does not have: a commit fails however
//! much room was set aside, and a page of SQLite's shared memory that finds none ends hostd (SIGBUS). Files that are
//! made while their directory says so (`chattr +C`) are overwritten in place; so the database and what is beside it.

use nix::{
    libc::c_long,
    sys::statfs::{BTRFS_SUPER_MAGIC, statfs},
};
use std::{fs::File, os::fd::AsRawFd, path::Path};

/// `FS_NOCOW_FL`
const NO_COPY_ON_WRITE: c_long = 0x0080_0000;

nix::ioctl_read!(get_flags, b'f', 1, c_long);
nix::ioctl_write_ptr!(set_flags, b'f', 2, c_long);

/// Files made in the directory are overwritten in place, as long as this lives.
pub(super) struct NoCowGuard {
    dir: File,
    before: c_long,
}

impl NoCowGuard {
    /// Absent where it makes no difference, or cannot be had.
    pub(super) fn set(dir: &Path) -> Option<Self> {
        if !statfs(dir).is_ok_and(|disk| disk.filesystem_type() == BTRFS_SUPER_MAGIC) {
            return None;
        }
        let dir = File::open(dir).ok()?;
        let before = flags_of(&dir)?;
        change(&dir, before | NO_COPY_ON_WRITE);
        Some(Self { dir, before })
    }
}

impl Drop for NoCowGuard {
    fn drop(&mut self) {
        change(&self.dir, self.before);
    }
}

#[allow(unsafe_code)]
fn flags_of(dir: &File) -> Option<c_long> {
    let mut flags: c_long = 0;
    // SAFETY: the descriptor is open, and the kernel writes no more than a `long` to the pointer.
    unsafe { get_flags(dir.as_raw_fd(), &raw mut flags) }.ok().map(|_| flags)
}

#[allow(unsafe_code)]
fn change(dir: &File, flags: c_long) {
    // SAFETY: the descriptor is open, and the kernel reads no more than a `long` from the pointer.
    if let Err(error) = unsafe { set_flags(dir.as_raw_fd(), &raw const flags) } {
        tracing::warn!(%error, "could not have the database overwritten in place");
    }
}
