//! The workspace of a sandbox: created, emptied and removed atomically.

use super::{
    super::DriverError,
    files::{self, errno, failed},
    layout::Layout,
    limits::SANDBOX_UID,
    remove_tree,
};
use nix::{fcntl::OFlag, sys::stat::Mode};
use protocol::api::SandboxId;
use std::os::{fd::OwnedFd, unix::fs::lchown};

/// Creates the workspace with its first directories, atomically. An existing one is left as it is.
pub fn make(layout: &Layout, sandbox: &SandboxId) -> Result<(), DriverError> {
    let workspace = layout.workspace(sandbox);
    if std::fs::symlink_metadata(&workspace).is_ok_and(|meta| meta.is_dir()) {
        return Ok(());
    }
    let temporary = layout.trash().join(format!("new-{}", ulid::Ulid::generate()));
    let mut path = temporary.clone();
    let make = || failed("make the workspace");
    for (part, mode) in [("", 0o750), ("workspace", 0o755), ("app", 0o755)] {
        if !part.is_empty() {
            path.push(part);
        }
        files::make_dir(&path, mode).map_err(make())?;
        lchown(&path, Some(SANDBOX_UID), Some(SANDBOX_UID)).map_err(make())?;
    }
    std::fs::rename(&temporary, &workspace).map_err(make())
}

/// Opens the top directory as a path descriptor. The descriptor keeps the workspace in reach however its path changes.
pub fn open(layout: &Layout, sandbox: &SandboxId) -> Result<OwnedFd, DriverError> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    nix::fcntl::open(&layout.workspace(sandbox), flags, Mode::empty())
        .map_err(|error| failed("open the workspace")(errno(error)))
}

/// Removes workspace and sandbox directory. The workspace goes first: while the badge exists, the rest can be
/// found again.
pub fn remove_files(layout: &Layout, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
    let workspace = layout.workspace(sandbox);
    let dir = layout.sandbox(sandbox);
    let workspace = (!keep_workspace).then_some(workspace.as_path());
    for path in workspace.into_iter().chain([dir.path()]) {
        let gone = remove_tree::move_to_trash(path, &layout.trash()).map_err(failed("remove the sandbox"))?;
        if let Some(gone) = gone {
            remove_tree::remove_tree(&gone).map_err(failed("remove the sandbox"))?;
        }
    }
    Ok(())
}

pub fn reset(layout: &Layout, sandbox: &SandboxId) -> Result<(), DriverError> {
    let gone = remove_tree::move_to_trash(&layout.workspace(sandbox), &layout.trash());
    let gone = gone.map_err(failed("empty the workspace"))?;
    make(layout, sandbox)?;
    gone.map_or(Ok(()), |gone| remove_tree::remove_tree(&gone)).map_err(failed("empty the workspace"))
}
