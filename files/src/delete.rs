//! Deletes files and trees. A link is deleted, never what it points to.

use crate::{
    Exchange, FilesError, Workspace,
    deadline::Deadline,
    directory::{names, open_below, stat_below},
    entry::{etag, matches},
    limits::DEPTH_MAX,
    workspace::{child_path, file_kind},
};
use nix::{
    errno::Errno,
    sys::stat::SFlag,
    unistd::{UnlinkatFlags, unlinkat},
};
use protocol::files::FilePath;
use std::{ffi::CStr, os::fd::OwnedFd};

pub fn delete(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    path: &FilePath,
    recursive: bool,
    if_match: Option<&[String]>,
) -> Result<(), FilesError> {
    let slot = workspace.slot(path)?;
    let name = slot.name.as_c_str();
    let stat = stat_below(&slot.parent, name).ok_or_else(|| FilesError::NotFound { path: path.clone() })?;
    if if_match.is_some_and(|tags| !matches(tags, &etag(&stat))) {
        return Err(FilesError::Precondition { path: path.clone() });
    }
    if file_kind(&stat) != SFlag::S_IFDIR {
        return unlink(&slot.parent, name, path, UnlinkatFlags::NoRemoveDir);
    }
    if recursive {
        empty(&slot.parent, name, path, &mut Walk { exchange, deadline: Deadline::of_tree(), depth: 0 })?;
    }
    unlink(&slot.parent, name, path, UnlinkatFlags::RemoveDir)
}

struct Walk<'a> {
    exchange: &'a dyn Exchange,
    deadline: Deadline,
    depth: usize,
}

/// Deletes what is in a directory.
fn empty(parent: &OwnedFd, name: &CStr, path: &FilePath, walk: &mut Walk<'_>) -> Result<(), FilesError> {
    if walk.depth >= DEPTH_MAX {
        let message = format!("directories are nested more than {DEPTH_MAX} deep: delete an inner one first");
        return Err(FilesError::TooMany { message });
    }
    walk.depth += 1;
    let directory = open_below(parent, name, path)?;
    for found in names(&directory, path)? {
        let found = found?;
        walk.deadline.check(walk.exchange)?;
        let inner = child_path(path, found.to_bytes());
        match unlinkat(&directory, found.as_c_str(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(Errno::EISDIR) => {
                empty(&directory, &found, &inner, walk)?;
                unlink(&directory, &found, &inner, UnlinkatFlags::RemoveDir)?;
            }
            Err(errno) => return Err(FilesError::at("delete the file", &inner)(errno)),
        }
    }
    walk.depth -= 1;
    Ok(())
}

fn unlink(parent: &OwnedFd, name: &CStr, path: &FilePath, flags: UnlinkatFlags) -> Result<(), FilesError> {
    match unlinkat(parent, name, flags) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(FilesError::at("delete the path", path)(errno)),
    }
}
