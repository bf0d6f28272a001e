//! Copy-on-write on btrfs gives a rewritten file new blocks, which a full disk does not have: a commit fails
//! despite preallocated space, and a page of SQLite's shared memory without a block kills hostd (SIGBUS).
//! Files created while their directory has the NOCOW flag (`chattr +C`) are overwritten in place; the
//! database, its WAL and its shared memory are.

use nix::{
    libc::c_long,
    sys::statfs::{BTRFS_SUPER_MAGIC, statfs},
};
use std::{fs::File, os::fd::AsRawFd, path::Path};

/// `FS_NOCOW_FL`
const NO_COPY_ON_WRITE: c_long = 0x0080_0000;

nix::ioctl_read!(get_flags, b'f', 1, c_long);
nix::ioctl_write_ptr!(set_flags, b'f', 2, c_long);

/// Sets the NOCOW flag of a directory while it lives: files created meanwhile are overwritten in place.
pub(super) struct NoCowGuard {
    dir: File,
    before: c_long,
}

impl NoCowGuard {
    /// Sets the flag; `None` on other file systems and where it cannot be set.
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
        tracing::warn!(%error, "failed to set the NOCOW flag of the data directory");
    }
}
