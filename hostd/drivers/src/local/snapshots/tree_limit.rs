//! Errors of snapshots that reach the caller with a type: limits that a tree exceeds, and what is not there.

use super::super::{super::DriverError, workspace::Workspaces};
use protocol::api::SandboxId;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeLimit {
    #[error("directories are nested deeper than {0}")]
    Depth(usize),
    #[error("it has more than {0} entries")]
    Entries(u64),
    #[error("the list of its files has more than {} MiB", .0 >> 20)]
    ManifestBytes(u64),
    #[error("a path in it is longer than {0} bytes")]
    Path(usize),
    #[error("a file in it has too many separate parts: {0}")]
    SparseParts(String),
    #[error("it has too many files with several names: their paths have more than {} MiB", .0 >> 20)]
    LinkPaths(usize),
}

impl From<TreeLimit> for io::Error {
    fn from(limit: TreeLimit) -> Self {
        Self::other(limit)
    }
}

/// Gives an error of a tree that exceeds a limit its type; others stay as they are.
pub fn typed(error: DriverError) -> DriverError {
    let limit = match &error {
        DriverError::Io { source, .. } => {
            source.get_ref().and_then(|inner| inner.downcast_ref::<TreeLimit>())
        }
        DriverError::Refused { .. }
        | DriverError::Unavailable { .. }
        | DriverError::ImageMissing { .. }
        | DriverError::NameTaken { .. }
        | DriverError::Conflict { .. }
        | DriverError::DiskFull
        | DriverError::NoDiskRoom { .. }
        | DriverError::MemoryInUse { .. }
        | DriverError::Failed { .. }
        | DriverError::TimedOut { .. }
        | DriverError::Damaged { .. }
        | DriverError::OtherPidNamespace { .. } => None,
    };
    match limit {
        Some(limit) => {
            let message = format!("the files of the snapshot exceed a limit: {limit}");
            DriverError::Refused { field: "snapshot", message, supported: vec![] }
        }
        None => error,
    }
}

pub fn deleted() -> DriverError {
    DriverError::Conflict { message: "the snapshot was deleted meanwhile".to_owned() }
}

pub fn no_files() -> DriverError {
    let message = "the sandbox has no files on this host; start it, which makes them".to_owned();
    DriverError::Conflict { message }
}

impl Workspaces<'_> {
    /// Refuses a sandbox without a workspace: it was never launched, or its files are gone.
    pub fn check_has_files(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match self.is_mounted(sandbox) || self.layout.workspace(sandbox).exists() {
            true => Ok(()),
            false => Err(no_files()),
        }
    }
}
