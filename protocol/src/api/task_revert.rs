//! Restoring the files of a task's checkpoint, as clients ask for it.

use crate::TaskId;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TaskRevert {
    /// A file or a directory relative to the app directory; absent: all files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The same for a path that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    /// Only report what would be restored and deleted.
    pub dry_run: bool,
    /// Do not save the files that are replaced and deleted, and delete also those that could not be saved.
    pub discard: bool,
}

/// The files that were restored to the checkpoint of a task, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskRevertView {
    pub task: TaskId,
    /// Commit id of the checkpoint in the sandbox's private repository.
    pub checkpoint: String,
    pub dry_run: bool,
    /// Commit id, in the same repository, of the files as they were before the revert. Absent where none was replaced or
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// Files that were changed or deleted since the checkpoint, sorted by path.
    pub restored: Vec<RevertedFile>,
    /// Files that were added since the checkpoint and are not ignored.
    pub deleted: Vec<RevertedFile>,
    /// Files that differ from the checkpoint and stay as they are, since they could not be saved.
    pub kept: Vec<RevertedFile>,
    pub counts: RevertCounts,
    /// The checkpoint does not name everything it skipped, so files added since are kept.
    pub incomplete_checkpoint: bool,
    /// There are more files than are listed.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevertedFile {
    /// Path relative to the app directory. Where it is not UTF-8, `path_base64` has its bytes and this only shows it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
}

/// Numbers of all files, listed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevertCounts {
    pub restored: u64,
    pub deleted: u64,
    pub kept: u64,
    /// Files from before the task that are missing, and that the checkpoint does not have or something kept is in the place of.
    pub not_restored: u64,
}
