//! Writes what changed between two recorded states, in the format of `protocol::changes`.

use super::changes::{Entry, payload};
use super::git::{Git, GitError};
use super::patch::{self, Bounds};
use crate::limits::{CHANGES_LIST_MAX_BYTES, CHANGES_LISTED_MAX};
use protocol::{ChangedFile, Changes, ChangesHead, ChangesTotals, FileDiff};
use serde::Serialize;
use std::io::Write;

/// What is compared: commits for the reader, trees for git.
pub struct Comparison {
    pub commits: (String, String),
    pub trees: (String, String),
    pub entries: Vec<Entry>,
}

pub fn write(
    git: &Git,
    of: &Comparison,
    totals: &Changes,
    bounds: Bounds,
    out: &mut impl Write,
) -> Result<(), GitError> {
    let mut list = Vec::new();
    let mut listed = 0;
    for entry in of.entries.iter().take(CHANGES_LISTED_MAX) {
        let before = list.len();
        line(&mut list, &file(entry))?;
        if list.len() > CHANGES_LIST_MAX_BYTES {
            list.truncate(before);
            break;
        }
        listed += 1;
    }
    let head = ChangesTotals {
        since: of.commits.0.clone(),
        until: of.commits.1.clone(),
        files: listed as u64,
        added: totals.added,
        modified: totals.modified,
        deleted: totals.deleted,
        added_lines: totals.added_lines,
        deleted_lines: totals.deleted_lines,
    };
    line(out, &ChangesHead::Changed(head))?;
    put(out, &list)?;
    patch::each(git, (&of.trees.0, &of.trees.1), &of.entries[..listed], bounds, |at, diff| {
        line(out, &FileDiff { file: at as u64, bytes: diff.len() as u64 })?;
        put(out, diff)?;
        put(out, b"\n")
    })?;
    out.flush().map_err(GitError::io("write the changes"))
}

pub fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), GitError> {
    let json = serde_json::to_vec(value).map_err(|_| GitError::Unexpected)?;
    put(out, &json)?;
    put(out, b"\n")
}

fn put(out: &mut impl Write, bytes: &[u8]) -> Result<(), GitError> {
    out.write_all(bytes).map_err(GitError::io("write the changes"))
}

fn file(entry: &Entry) -> ChangedFile {
    ChangedFile {
        path: payload(&entry.name),
        change: entry.change,
        added_lines: entry.lines.map(|(added, _)| added),
        deleted_lines: entry.lines.map(|(_, deleted)| deleted),
        binary: entry.binary,
    }
}
