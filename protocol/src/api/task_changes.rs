//! What a task changed, as clients see it.

use crate::{ChangeKind, Payload};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangesState {
    Recorded,
    /// There is nothing to compare with: `reason` has the cause.
    Unavailable,
}

/// What a task changed, from its checkpoint to its end. Recorded once, when the task ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskChangesView {
    pub state: ChangesState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Commit id of the checkpoint in the sandbox's private repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Number of added files; this and the other totals count all files, listed or not.
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    /// More files changed than all pages list.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    pub files: Vec<FileDiffView>,
    /// Where the next page begins; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A file that a task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileDiffView {
    /// Path relative to the app directory. Where it is not UTF-8, `path_base64` has its bytes and this only shows it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<String>,
    pub kind: ChangeKind,
    /// Number of added lines; absent for binary files and for files that are too large to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_lines: Option<u64>,
    pub binary: bool,
    /// Whether `diff` is here: a diff is whole or absent.
    pub whole: bool,
    /// The unified diff of this file, as `git apply` reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Payload>,
}
