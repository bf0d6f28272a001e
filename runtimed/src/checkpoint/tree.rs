//! The files of a checkpoint, read from objects that are verified one by one: nothing that git prints is trusted.

use super::git::{Git, GitError, is_object};
use super::skipped::SkippedPaths;
use super::verify;
use crate::limits::{CHECKPOINT_DEPTH_MAX, CHECKPOINT_FILES_MAX};
use std::collections::BTreeMap;

const OBJECT_BYTES: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeEntryKind {
    File { executable: bool },
    Link,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    pub kind: TreeEntryKind,
    pub object: String,
}

pub struct CheckpointTree {
    pub files: BTreeMap<Vec<u8>, TreeFile>,
    /// `None` for the checkpoint of an older runtimed.
    pub skipped: Option<SkippedPaths>,
}

impl CheckpointTree {
    /// Whether a path is below a file of the checkpoint, and so cannot have been there.
    pub fn is_below_file(&self, name: &[u8]) -> bool {
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.into_iter().any(|(at, _)| self.files.contains_key(&name[..at]))
    }

    /// Whether there are files of the checkpoint below a directory.
    pub fn has_files_below(&self, directory: &[u8]) -> bool {
        let within = [directory, b"/"].concat();
        self.files.range(within.clone()..).next().is_some_and(|(name, _)| name.starts_with(&within))
    }

    /// Whether the checkpoint skipped this path, or one above it. A directory ends with `/`.
    pub fn skips(&self, name: &[u8]) -> bool {
        self.skipped.as_ref().is_some_and(|skipped| skipped.contains(name))
    }

    /// Whether a directory was there: the checkpoint has, or skipped, something below it.
    pub fn had_directory(&self, directory: &[u8]) -> bool {
        let within = [directory, b"/"].concat();
        let skipped = self.skipped.iter().flat_map(|skipped| [&skipped.skipped, &skipped.ignored]);
        let mut first = skipped.filter_map(|names| names.range(within.clone()..).next());
        self.has_files_below(directory) || first.any(|name| name.starts_with(&within))
    }

    /// Whether the checkpoint does not tell what it skipped: any path may have been there.
    pub fn is_incomplete(&self) -> bool {
        self.skipped.as_ref().is_some_and(|skipped| skipped.truncated)
    }
}

pub fn read(git: &Git, commit: &str) -> Result<CheckpointTree, GitError> {
    let lost = || GitError::Lost { what: format!("commit {commit}") };
    if !is_object(commit) {
        return Err(GitError::Unexpected);
    }
    let content = verify::contents(git, &[commit])?.pop().ok_or_else(lost)?;
    let root = content.strip_prefix(b"tree ").and_then(|rest| rest.split(|byte| *byte == b'\n').next());
    let root = root.and_then(|name| std::str::from_utf8(name).ok()).filter(|name| is_object(name));
    let mut level = vec![(Vec::new(), root.ok_or_else(lost)?.to_owned())];
    let mut files = BTreeMap::new();
    for _ in 0..=CHECKPOINT_DEPTH_MAX {
        if level.is_empty() {
            return Ok(CheckpointTree { files, skipped: SkippedPaths::parse(&content) });
        }
        let names: Vec<&str> = level.iter().map(|(_, name)| name.as_str()).collect();
        let trees = verify::contents(git, &names)?;
        let mut below = Vec::new();
        for ((prefix, name), tree) in level.iter().zip(trees) {
            let known = entries(&tree, prefix, &mut files, &mut below);
            known.ok_or_else(|| GitError::Lost { what: format!("tree {name}") })?;
        }
        if files.len() > CHECKPOINT_FILES_MAX {
            return Err(GitError::TooMany { max: CHECKPOINT_FILES_MAX });
        }
        level = below;
    }
    Err(GitError::Unexpected)
}

/// Adds the entries of one tree: `mode SP name NUL object`.
fn entries(
    mut tree: &[u8],
    prefix: &[u8],
    files: &mut BTreeMap<Vec<u8>, TreeFile>,
    below: &mut Vec<(Vec<u8>, String)>,
) -> Option<()> {
    while !tree.is_empty() {
        let space = tree.iter().position(|byte| *byte == b' ')?;
        let end = tree.iter().position(|byte| *byte == 0)?;
        let (mode, name) = (&tree[..space], tree.get(space + 1..end)?);
        let object = tree.get(end + 1..end + 1 + OBJECT_BYTES)?;
        tree = &tree[end + 1 + OBJECT_BYTES..];
        if !is_safe(name) {
            return None;
        }
        let path = [prefix, name].concat();
        let object = object.iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = match mode {
            b"40000" => {
                below.push(([&path, &b"/"[..]].concat(), object));
                continue;
            }
            b"120000" => TreeEntryKind::Link,
            mode if mode.starts_with(b"100") => {
                TreeEntryKind::File { executable: mode.get(3) == Some(&b'7') }
            }
            _ => return None,
        };
        files.insert(path, TreeFile { kind, object });
    }
    Some(())
}

/// Git never records such a name; a tree that has one was made by hand.
fn is_safe(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b".." | b".git") && !name.contains(&b'/')
}
