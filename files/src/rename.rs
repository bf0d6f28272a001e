//! Moves a path to another, in one step of the kernel.

use crate::{FilesError, Workspace, entry::of_path, mkdir::make_parents};
use protocol::files::{FileEntry, FilePath};
use rustix::fs::{RenameFlags, renameat_with};

pub fn rename(
    workspace: &Workspace,
    from: &FilePath,
    to: &FilePath,
    overwrite: bool,
) -> Result<FileEntry, FilesError> {
    let source = workspace.slot(from)?;
    // Before directories are made for it.
    workspace.open_path(from, false)?;
    make_parents(workspace, to)?;
    let target = workspace.slot(to)?;
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    // nix has this call for glibc only.
    renameat_with(&source.parent, source.name.as_c_str(), &target.parent, target.name.as_c_str(), flags)
        .map_err(|errno| FilesError::io_at("move the path", to)(errno.into()))?;
    of_path(&workspace.open_path(to, false)?, to)
}
