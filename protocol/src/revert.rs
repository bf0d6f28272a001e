//! Restoring the files of a task's checkpoint, as hostd asks runtimed for it.

use crate::Payload;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevertRequest {
    /// Commit id of the checkpoint in the sandbox's private repository.
    pub since: String,
    /// A file or a directory relative to the app directory; absent: all files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Payload>,
    /// Only say what would be done.
    #[serde(default)]
    pub dry_run: bool,
    /// Do not save what is replaced and deleted.
    #[serde(default)]
    pub discard: bool,
}

/// The response: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertOutcome {
    Reverted(Reverted),
    /// The checkpoint is gone, or its objects are not what was recorded. No file was changed.
    Lost {
        why: String,
    },
    /// The path is neither in the checkpoint nor among the files added since.
    UnknownPath {
        why: String,
    },
    /// The files are not as in the checkpoint; the same request continues where this one ended.
    Failed {
        why: String,
    },
}

/// The files that were restored and deleted, relative to the app directory; lists are sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reverted {
    pub restored: Vec<Payload>,
    pub deleted: Vec<Payload>,
    /// Files that differ from the checkpoint and stay, because they could not be saved.
    #[serde(default)]
    pub kept: Vec<Payload>,
    /// All of them, listed or not.
    pub restored_files: u64,
    pub deleted_files: u64,
    #[serde(default)]
    pub kept_files: u64,
    /// Files from before the task that are missing and that the checkpoint does not have.
    #[serde(default)]
    pub not_restored: u64,
    /// The checkpoint does not name all that it skipped, so no file is deleted for being added since.
    #[serde(default)]
    pub incomplete_checkpoint: bool,
    /// Commit id, in the sandbox's private repository, of the files as they were before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    #[serde(default)]
    pub truncated: bool,
}
