//! Opens directories of the workspace without ever leaving it.
//!
//! Must not: open a path of several components at once. A directory in the middle may be swapped for a
//! symbolic link at any time, and `O_NOFOLLOW` only checks the last component.

use crate::sys::fs_identity::{FsIdentityGuard, Identity};
use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

pub struct RootDir {
    root: OwnedFd,
    device: u64,
    /// The directory whose children are being opened: siblings need no walk from the root.
    parent: Parent,
}

struct Parent {
    path: PathBuf,
    fd: OwnedFd,
}

/// A directory being read.
pub struct OpenDir {
    pub path: PathBuf,
    fd: OwnedFd,
    /// The same directory again: `nix` exposes no descriptor of the one it reads entries from.
    pub entries: OwningIter,
}

impl AsFd for OpenDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for RootDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

impl RootDir {
    pub fn open(root: &Path, identity: Identity) -> Result<Self, Errno> {
        let _user = FsIdentityGuard::enter(identity).map_err(|_| Errno::EPERM)?;
        let root = open(root, flags(), Mode::empty())?;
        let device = fstat(&root)?.st_dev;
        let parent = Parent { path: PathBuf::new(), fd: step(&root, OsStr::new("."))? };
        Ok(Self { root, device, parent })
    }

    /// Whether a device is the file system of the root.
    pub fn is_on(&self, device: u64) -> bool {
        self.device == device
    }

    /// How many components are opened for a directory; each is a system call or two.
    pub fn steps_to(&self, path: &Path) -> usize {
        if self.parent.path == parent_of(path) { 1 } else { 1 + path.components().count() }
    }

    /// Opens a directory below the root; the empty path is the root itself.
    pub fn descend(&mut self, path: PathBuf) -> Result<OpenDir, Errno> {
        if self.parent.path != parent_of(&path) {
            self.parent = self.find(parent_of(&path))?;
        }
        let fd = step(&self.parent.fd, path.file_name().unwrap_or(OsStr::new(".")))?;
        if !self.is_on(fstat(&fd)?.st_dev) {
            return Err(Errno::EXDEV);
        }
        let copy = fd.try_clone().map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
        Ok(OpenDir { path, fd, entries: Dir::from_fd(copy)?.into_iter() })
    }

    /// Keeps a directory open, because one of its children is opened next.
    pub fn set_parent(&mut self, read: OpenDir) {
        self.parent = Parent { path: read.path, fd: read.fd };
    }

    fn find(&self, path: &Path) -> Result<Parent, Errno> {
        let mut fd = step(&self.root, OsStr::new("."))?;
        for name in path {
            fd = step(&fd, name)?;
        }
        Ok(Parent { path: path.to_owned(), fd })
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn step(from: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat(from, name, flags(), Mode::empty())
}

fn flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC
}
