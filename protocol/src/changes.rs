//! What a task changed, as runtimed hands it to hostd. The document is a stream of lines:
//!
//! ```text
//! ChangesHead                        one line of JSON
//! ChangedFile                        one line of JSON for each of `files`
//! FileDiff, then its bytes and LF    for each diff that is kept, in the order of the files
//! ```
//!
//! The list comes first: a document that ends early, because the disk was full or time was up, still names the
//! files. Diffs are counted bytes and not JSON, since the content of a file may be any bytes.

use crate::{ChangeKind, Payload};
use serde::{Deserialize, Serialize};

/// The file of the document in the directory of its task, for a reader without runtimed.
pub const DOCUMENT_OF_CHANGES: &str = "changes/0000000000000000.data";

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangesHead {
    Changed(ChangesTotals),
    /// The checkpoint is gone, or its objects are not what was recorded.
    Lost {
        why: String,
    },
    Unavailable {
        why: String,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesTotals {
    /// Commit ids in the sandbox's private repository: the checkpoint, and the end of the task.
    pub since: String,
    pub until: String,
    /// Changed files that are listed; fewer than there are where the list is too long.
    pub files: u64,
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the app directory.
    pub path: Payload,
    pub change: ChangeKind,
    /// Absent for binary files, and for files too large to be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_lines: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}

/// The line before the bytes of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// The position in the list, from 0.
    pub file: u64,
    pub bytes: u64,
}

/// A request for the diff of one file between two recorded states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRequest {
    pub since: String,
    pub until: String,
    pub path: Payload,
}
