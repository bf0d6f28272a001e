//! What is in a tree, on one side or when both sides were last the same. Pure.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A path relative to the synchronised directory, as its bytes.
pub type Name = Vec<u8>;

/// Everything on one side, by path; a directory stands before its content.
pub type Tree = BTreeMap<Name, Node>;

/// What one side has at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    Directory,
    /// Where the link points to.
    Link {
        target: Vec<u8>,
    },
    File {
        size: u64,
        mode: u32,
        version: Version,
    },
}

/// Changes when the content of a file may have changed. Comparable on one side only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// The tag that hostd gives.
    Remote(String),
    /// Time in nanoseconds, and number of the file.
    Local { modified_ns: i128, changed_ns: i128, inode: u64 },
}

/// What both sides had at a path when they were last the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Synced {
    pub local: Node,
    pub remote: Node,
}

/// All that was the same on both sides, by path.
pub type Base = BTreeMap<Name, Synced>;

impl Node {
    pub fn is_directory(&self) -> bool {
        *self == Self::Directory
    }
}
