//! Snapshots that are not published: copies that were begun, and those that are captured.

use super::{super::trash::NewEntry, btrfs, mirror::CopiedBefore, pins::PinnedLayers};
use std::{io, os::unix::fs::MetadataExt, path::Path, time::SystemTime};

/// A tree in the trash. When this is dropped the tree is removed, unless it was renamed.
#[derive(Debug)]
pub struct NewTree {
    entry: NewEntry,
}

impl NewTree {
    /// Names a tree; nothing is made yet.
    pub fn reserve(trash: &Path, kind: &str) -> Self {
        Self { entry: NewEntry::reserve(trash, kind) }
    }

    pub fn path(&self) -> &Path {
        self.entry.path()
    }
}

impl Drop for NewTree {
    fn drop(&mut self) {
        // What is left goes when hostd starts again.
        if let Err(error) = btrfs::remove(self.path()) {
            tracing::warn!(path = %self.path().display(), %error, "failed to remove a copy that is not needed");
        }
    }
}

/// Which directory a copy is of. One that took its place, as by a restore, has files as old as any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedTree {
    device: u64,
    inode: u64,
    /// Where the file system says so: inodes are used again.
    made: Option<SystemTime>,
}

impl CopiedTree {
    pub fn at(path: &Path) -> io::Result<Self> {
        let meta = std::fs::symlink_metadata(path)?;
        Ok(Self { device: meta.dev(), inode: meta.ino(), made: meta.created().ok() })
    }
}

/// A copy that was begun while its sandbox goes on.
#[derive(Debug)]
pub struct BegunCopy {
    pub tree: NewTree,
    pub before: CopiedBefore,
    pub of: CopiedTree,
    /// The layers below the copy.
    pub lowers: PinnedLayers,
    /// The difference of the wall clock and the time since the boot: another one means that the clock was set.
    pub clock_offset_ms: i128,
}

/// A snapshot that is taken and not published.
#[derive(Debug)]
pub enum Captured {
    /// The workspace itself became the topmost layer.
    Sealed { layers: PinnedLayers },
    /// A tree that is not on disk yet.
    Tree { tree: NewTree, lowers: PinnedLayers },
}
