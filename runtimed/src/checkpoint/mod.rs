//! Checkpoints: the state of the app directory before a task, and what changed since. Runs as a process of
//! its own, `runtimed checkpoint`, as the sandbox's user like any job; its reply is one line of JSON, which the document
//! of the changes follows where they were asked for.
//!
//! Drives git's plumbing on a private repository beside the app. The app's own repository, if it has one, is
//! treated as plain files and is neither read nor written: no hook, filter, include, attribute or monitor of
//! it can run, and its HEAD, index and branches stay as they are.

mod added_since;
mod app_dir;
mod changes;
#[cfg(test)]
mod diff_tests;
mod document;
mod git;
mod ignored;
mod index_mark;
mod main;
mod patch;
mod record_tree;
mod repository;
mod revert;
mod revert_outcome;
mod revert_plan;
#[cfg(test)]
mod revert_safety_tests;
#[cfg(test)]
mod revert_tests;
mod saved_files;
mod skipped;
mod staging;
#[cfg(test)]
mod tests;
mod tree;
mod unreadable;
mod verify;

pub use index_mark::IndexMark;
pub use main::main;

use protocol::{Changes, DiffRequest, RevertRequest, TaskId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The directory beside the repository that exists while a revert changes files.
pub const STAGING: &str = "restored";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The private repository; created if it is missing.
    pub repository: PathBuf,
    pub work_tree: PathBuf,
    pub task: TaskId,
    pub verb: Verb,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    Take,
    /// The difference from this checkpoint.
    Changes {
        since: String,
        /// The index as the checkpoint left it.
        #[serde(default)]
        index: Option<IndexMark>,
    },
    /// The difference of one file between two recorded states.
    Diff(DiffRequest),
    /// Restores the files of a checkpoint.
    Revert(RevertRequest),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Taken {
        id: String,
        skipped: u64,
        index: Option<IndexMark>,
    },
    Changed(Changes),
    Compared,
    Reverted {
        restored: u64,
        deleted: u64,
        complete: bool,
        /// Whether files may have been changed.
        started: bool,
        /// The commit of what the files were before.
        saved: Option<String>,
    },
    Unavailable {
        why: String,
    },
}
