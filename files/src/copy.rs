//! Copies files and trees within a workspace. Links are copied as links; FIFOs, sockets and devices are left out.

use crate::{
    Exchange, FilesError, Workspace,
    deadline::Deadline,
    entry::of_path,
    limits::COPY_MAX_ENTRIES,
    mkdir::{self, make_parents},
    temporary::Temporary,
    walk::{Visited, Walk, WalkOptions},
    workspace::{Slot, child_path, reopen},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, copy_file_range, openat},
    sys::stat::Mode,
    unistd::symlinkat,
};
use protocol::files::{FileEntry, FilePath, FileType, Selection};
use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

/// Bytes that the kernel copies at a time.
const COPY_BYTES: usize = 8 << 20;

pub fn copy(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    from: &FilePath,
    to: &FilePath,
    overwrite: bool,
) -> Result<FileEntry, FilesError> {
    let source = crate::entry::stat(workspace, from, false)?;
    make_parents(workspace, to)?;
    let slot = workspace.slot(to)?;
    if !overwrite && workspace.open_path(to, false).is_ok() {
        return Err(FilesError::Exists { path: to.clone() });
    }
    match source.kind {
        FileType::Directory => copy_tree(workspace, exchange, from, to)?,
        FileType::File | FileType::Symlink => {
            let found = workspace.open_path(from, false)?;
            Copier { exchange, deadline: Deadline::of_tree() }.copy(&found, &source, &slot, overwrite)?;
        }
        FileType::Fifo | FileType::Socket | FileType::Device => {
            return Err(FilesError::NotAFile { path: from.clone() });
        }
    }
    of_path(&workspace.open_path(to, false)?, to)
}

fn copy_tree(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    from: &FilePath,
    to: &FilePath,
) -> Result<(), FilesError> {
    if is_below(to, from) {
        return Err(FilesError::invalid("a directory cannot be copied into itself"));
    }
    mkdir::mkdir(workspace, to, None)?;
    let select = Selection::default();
    let options = WalkOptions { depth: u32::MAX, select: &select, after: None, wanted: usize::MAX };
    let mut walk = Walk::new(workspace, from, &options)?;
    let prefix = child_path(from, b"").0.len();
    let mut copied = 0;
    let copier = Copier { exchange, deadline: Deadline::of_tree() };
    while let Some(visited) = walk.next(exchange)? {
        copied += 1;
        if copied > COPY_MAX_ENTRIES {
            let message = format!("the tree has more than {COPY_MAX_ENTRIES} entries");
            return Err(FilesError::TooMany { message });
        }
        let target = child_path(to, &visited.entry.path.0[prefix..]);
        match visited.entry.kind {
            FileType::Directory => drop(mkdir::mkdir(workspace, &target, Some(visited.entry.mode))?),
            FileType::File | FileType::Symlink => {
                if let Some(found) = open_visited(&visited)? {
                    copier.copy(&found, &visited.entry, &workspace.slot(&target)?, true)?;
                }
            }
            FileType::Fifo | FileType::Socket | FileType::Device => {}
        }
    }
    Ok(())
}

/// Opens an entry where it was found; `None` where it is gone.
pub fn open_visited(visited: &Visited<'_>) -> Result<Option<OwnedFd>, FilesError> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(visited.directory, visited.name.as_c_str(), flags, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(FilesError::at("open the path", &visited.entry.path)(errno)),
    }
}

/// Copies single entries, until the deadline.
pub(crate) struct Copier<'a> {
    pub(crate) exchange: &'a dyn Exchange,
    pub(crate) deadline: Deadline,
}

impl Copier<'_> {
    pub(crate) fn copy(
        &self,
        found: &OwnedFd,
        entry: &FileEntry,
        slot: &Slot,
        overwrite: bool,
    ) -> Result<(), FilesError> {
        if let Some(target) = &entry.target {
            return copy_link(target, slot, overwrite);
        }
        let (file, stat) = reopen(found, &entry.path, OFlag::O_RDONLY)?;
        let temporary = Temporary::new(slot)?;
        while copy_some(&file, &temporary.file).map_err(FilesError::io_at("copy the file", &slot.path))? {
            self.deadline.check_now(self.exchange)?;
        }
        temporary.finish(stat.st_mode)?;
        if overwrite { temporary.replace() } else { temporary.create() }.map(drop)
    }
}

fn copy_link(target: &FilePath, slot: &Slot, overwrite: bool) -> Result<(), FilesError> {
    let target = std::ffi::OsStr::from_bytes(&target.0);
    let made = || symlinkat(target, &slot.parent, slot.name.as_c_str());
    match made() {
        Err(Errno::EEXIST) if overwrite => {
            let flags = nix::unistd::UnlinkatFlags::NoRemoveDir;
            nix::unistd::unlinkat(&slot.parent, slot.name.as_c_str(), flags).and_then(|()| made())
        }
        other => other,
    }
    .map_err(FilesError::at("copy the link", &slot.path))
}

/// Copies the next bytes, by the kernel where it can, which shares blocks where the file system can. Returns whether
/// there may be more.
fn copy_some(mut from: &File, mut to: &File) -> std::io::Result<bool> {
    match copy_file_range(from, None, to, None, COPY_BYTES) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EXDEV | Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) => {
            let mut buffer = vec![0; crate::limits::CHUNK_BYTES];
            let count = from.read(&mut buffer)?;
            to.write_all(&buffer[..count])?;
            Ok(count > 0)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Whether a path is another or lies below it, by their text. A link can hide that; the limit on entries ends such a
/// copy.
pub(crate) fn is_below(path: &FilePath, top: &FilePath) -> bool {
    let names = |path: &FilePath| -> Vec<Vec<u8>> {
        let parts = path.0.split(|byte| *byte == b'/');
        parts.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
    };
    names(path).starts_with(&names(top))
}
