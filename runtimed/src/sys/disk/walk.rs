//! Counts the size of the workspace in slices, so that PID 1 handles other events in between.
//!
//! ```text
//! start ──▶ slice ──▶ slice ──▶ … ──▶ finished ──▶ result
//!             │ one directory is read at a time; the others wait as paths
//! ```
//!
//! Must not: recurse, or hold more than four descriptors. A file with several hard links is counted once per
//! name: telling them apart would cost memory for every file, and the number is informative.

use super::open_beneath::{OpenDir, RootDir};
use super::pending::Pending;
use super::space::Space;
use crate::limits::{DISK_WALK_MAX_FILES, DISK_WALK_SLICE};
use crate::sys::fs_identity::{FsIdentityGuard, Identity};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
use protocol::WorkspaceUse;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Steps of the whole walk: entries, and directories passed through to reach others. Real trees take one or
/// two per file; a tree made to be endless is counted in part.
const STEPS_MAX: u64 = 8 * DISK_WALK_MAX_FILES;
/// Unit of `st_blocks`, whatever the file system's own block size is.
const BLOCK_BYTES: u64 = 512;

/// A walk over the workspace that can be suspended at any entry.
pub struct Walk {
    identity: Identity,
    /// Absent when the workspace could not be opened; then there is nothing to walk.
    tree: Option<RootDir>,
    current: Option<OpenDir>,
    pending: Pending,
    steps_left: u64,
    used_bytes: u64,
    /// Entries of any kind, directories too: each takes an inode.
    files: u64,
    partial: bool,
}

impl Walk {
    pub fn start(root: &Path, identity: Identity) -> Self {
        let tree = RootDir::open(root, identity).ok();
        let mut pending = Pending::default();
        if tree.is_some() {
            pending.push(PathBuf::new());
        }
        let partial = tree.is_none();
        let steps_left = STEPS_MAX;
        Self { identity, tree, current: None, pending, steps_left, used_bytes: 0, files: 0, partial }
    }

    /// Counts one slice, as the user; true when there is nothing more to count.
    pub fn slice(&mut self) -> bool {
        let Ok(_user) = FsIdentityGuard::enter(self.identity) else {
            self.stop_early();
            return true;
        };
        let mut budget = DISK_WALK_SLICE;
        while budget > 0 {
            let Some(steps) = self.step() else { return true };
            budget = budget.saturating_sub(steps);
            self.steps_left = self.steps_left.saturating_sub(steps as u64);
            if self.steps_left == 0 || self.files >= DISK_WALK_MAX_FILES {
                self.stop_early();
                return true;
            }
        }
        false
    }

    pub fn result(&self, now_ms: u64) -> WorkspaceUse {
        let space = self.tree.as_ref().map(Space::of).unwrap_or_default();
        WorkspaceUse {
            used_bytes: self.used_bytes,
            files: self.files,
            partial: self.partial,
            free_bytes: space.free_bytes,
            total_bytes: space.total_bytes,
            measured_ms: now_ms,
        }
    }

    /// Counts one entry, or opens one directory. Returns the cost, or `None` when all is done.
    fn step(&mut self) -> Option<usize> {
        let Some(mut directory) = self.current.take() else {
            let path = self.pending.pop()?;
            return Some(self.open(path));
        };
        match directory.entries.next() {
            Some(Ok(entry)) => {
                self.count(&directory, entry.file_name());
                self.current = Some(directory);
            }
            Some(Err(_)) => self.partial = true,
            None => self.close(directory),
        }
        Some(1)
    }

    fn open(&mut self, path: PathBuf) -> usize {
        let Some(tree) = &mut self.tree else { return 1 };
        let steps = tree.steps_to(&path);
        match tree.descend(path) {
            Ok(opened) => self.current = Some(opened),
            Err(errno) => self.note_failure(errno),
        }
        steps
    }

    fn close(&mut self, directory: OpenDir) {
        if let Some(tree) = &mut self.tree
            && self.pending.next_is_below(&directory.path)
        {
            tree.set_parent(directory);
        }
    }

    fn count(&mut self, directory: &OpenDir, name: &CStr) {
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        let stat = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(errno) => return self.note_failure(errno),
        };
        // Another file system may be mounted here.
        if !self.tree.as_ref().is_some_and(|tree| tree.is_on(stat.st_dev)) {
            return;
        }
        self.add(&stat);
        if is_directory(&stat) && !self.pending.push(directory.path.join(OsStr::from_bytes(name.to_bytes())))
        {
            self.partial = true;
        }
    }

    fn add(&mut self, stat: &FileStat) {
        let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
        self.used_bytes = self.used_bytes.saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        self.files += 1;
    }

    /// Marks the count as partial, except for entries that vanished or changed type: the user keeps working.
    fn note_failure(&mut self, errno: Errno) {
        if !matches!(errno, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) {
            self.partial = true;
        }
    }

    fn stop_early(&mut self) {
        self.partial = true;
        self.current = None;
        self.pending = Pending::default();
    }
}

fn is_directory(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

#[cfg(test)]
mod tests;
