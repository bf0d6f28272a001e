//! Reads directories by their descriptors.

use crate::{FilesError, workspace::child_path};
use nix::{
    dir::Dir,
    fcntl::{AtFlags, OFlag, openat, readlinkat},
    sys::stat::{FileStat, Mode, fstatat},
};
use protocol::files::{FileEntry, FilePath};
use std::{
    ffi::{CStr, CString},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

/// Opens a directory by its name below another, never through a link.
pub fn open_below(parent: &impl AsFd, name: &CStr, path: &FilePath) -> Result<OwnedFd, FilesError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_err(FilesError::at("open the directory", path))
}

/// The names in a directory, in the order of the file system, one at a time.
pub fn names(directory: &OwnedFd, path: &FilePath) -> Result<Names, FilesError> {
    // A description of its own: reading moves its offset.
    let own = open_below(directory, c".", path)?;
    let dir = Dir::from_fd(own).map_err(FilesError::at("read the directory", path))?;
    Ok(Names { entries: dir.into_iter(), path: path.clone() })
}

pub struct Names {
    entries: nix::dir::OwningIter,
    path: FilePath,
}

impl Iterator for Names {
    type Item = Result<CString, FilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.entries.next()? {
                Ok(entry) => {
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        return Some(Ok(name.to_owned()));
                    }
                }
                Err(errno) => return Some(Err(FilesError::at("read the directory", &self.path)(errno))),
            }
        }
    }
}

/// Inspects a name without following it; `None` where it is gone.
pub fn stat_below(parent: &impl AsFd, name: &CStr) -> Option<FileStat> {
    fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
}

/// The entry of a name; `None` where it is gone.
pub fn entry_below(parent: &impl AsFd, name: &CStr, directory: &FilePath) -> Option<FileEntry> {
    let stat = stat_below(parent, name)?;
    let target = crate::entry::target_of(&stat, || readlinkat(parent, name).map(OsStringExt::into_vec));
    Some(crate::entry::of_stat(child_path(directory, name.to_bytes()), &stat, target))
}
