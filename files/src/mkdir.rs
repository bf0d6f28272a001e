//! Makes directories.

use crate::{
    FilesError, Workspace,
    directory::open_below,
    entry::{of_path, type_of},
    workspace::Slot,
};
use nix::{
    errno::Errno,
    sys::stat::{Mode, fchmod, fstat, mkdirat},
};
use protocol::files::{FileEntry, FilePath, FileType};

/// Permissions of a new directory.
pub const NEW_DIRECTORY_MODE: u32 = 0o755;

/// Makes a directory and those above it; returns it, and whether it is new.
pub fn mkdir(
    workspace: &Workspace,
    path: &FilePath,
    mode: Option<u32>,
) -> Result<(FileEntry, bool), FilesError> {
    make_parents(workspace, path)?;
    let made = match workspace.slot(path) {
        Ok(slot) => make_one(&slot, mode.unwrap_or(NEW_DIRECTORY_MODE))?,
        // The top of the workspace is there.
        Err(FilesError::Invalid { .. }) if is_top(path) => false,
        Err(error) => return Err(error),
    };
    let found = workspace.open_path(path, true)?;
    let stat = fstat(&found).map_err(FilesError::at("inspect the directory", path))?;
    if type_of(&stat) != FileType::Directory {
        return Err(FilesError::Exists { path: path.clone() });
    }
    Ok((of_path(&found, path)?, made))
}

/// Makes a directory; returns whether it is new.
fn make_one(slot: &Slot, mode: u32) -> Result<bool, FilesError> {
    let mode = Mode::from_bits_truncate(mode & 0o777);
    match mkdirat(&slot.parent, slot.name.as_c_str(), mode) {
        Ok(()) => {
            // The mask of this process does not apply.
            let made = open_below(&slot.parent, &slot.name, &slot.path)?;
            fchmod(&made, mode).map_err(FilesError::at("set the mode", &slot.path))?;
            Ok(true)
        }
        Err(Errno::EEXIST) => Ok(false),
        Err(errno) => Err(FilesError::at("make the directory", &slot.path)(errno)),
    }
}

fn is_top(path: &FilePath) -> bool {
    path.0.split(|byte| *byte == b'/').all(|name| name.is_empty() || name == b".")
}

/// Makes the directories above the last name of a path. Only where they are missing: the common case costs one look.
pub fn make_parents(workspace: &Workspace, path: &FilePath) -> Result<(), FilesError> {
    let Some(parent) = parent_of(path) else { return Ok(()) };
    match workspace.open_path(&parent, true) {
        Err(FilesError::NotFound { .. }) => {}
        found => return found.map(drop),
    }
    // From the top: each is resolved beneath it by the kernel again.
    for end in ends_of_names(&parent.0) {
        let each = FilePath(parent.0[..end].to_vec());
        match workspace.open_path(&each, true) {
            Ok(_) => continue,
            Err(FilesError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        make_one(&workspace.slot(&each)?, NEW_DIRECTORY_MODE)?;
    }
    Ok(())
}

fn parent_of(path: &FilePath) -> Option<FilePath> {
    let end = path.0.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let begin = path.0[..end].iter().rposition(|byte| *byte == b'/')?;
    (begin > 0).then(|| FilePath(path.0[..begin].to_vec()))
}

/// Where each name of a path ends.
fn ends_of_names(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    (1..=path.len()).filter(|end| path[end - 1] != b'/' && (*end == path.len() || path[*end] == b'/'))
}
