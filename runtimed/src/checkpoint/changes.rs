//! The difference between two trees: counts, and the first of the changed files.

use super::git::{Git, GitError, is_object, path};
use crate::limits::{CHANGES_SHOWN_MAX, CHANGES_SHOWN_MAX_BYTES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{ChangeKind, Changes, Encoding, FileChange, Payload};
use std::collections::HashMap;

const DIFF: [&str; 6] = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"];

type LineCounts = Option<(u64, u64)>;

pub fn between(git: &Git, since: &str, tree: &str) -> Result<Changes, GitError> {
    if !is_object(since) {
        return Err(GitError::Unexpected);
    }
    let diff = |how| git.run(&[&DIFF[..], &[how, since, tree]].concat(), None);
    let numstat = diff("--numstat")?;
    let counted = numbers(&numstat);
    let kinds = diff("--name-status")?;
    let mut changes = Changes::default();
    let mut shown_bytes = 0;
    let mut parts = kinds.split(|byte| *byte == 0);
    while let (Some([status, ..]), Some(name)) = (parts.next(), parts.next()) {
        // A file that became too large to store is not deleted.
        let change = match status {
            b'A' => ChangeKind::Added,
            b'D' if std::fs::symlink_metadata(git.work_tree.join(path(name))).is_err() => ChangeKind::Deleted,
            _ => ChangeKind::Modified,
        };
        let known = *status != b'D' || change == ChangeKind::Deleted;
        let lines = counted.get(name).copied().flatten().filter(|_| known);
        count(&mut changes, change, lines);
        let file = FileChange {
            path: payload(name),
            change,
            added_lines: lines.map(|(added, _)| added),
            deleted_lines: lines.map(|(_, deleted)| deleted),
        };
        shown_bytes += serde_json::to_string(&file).map_or(0, |json| json.len());
        if changes.files.len() < CHANGES_SHOWN_MAX && shown_bytes <= CHANGES_SHOWN_MAX_BYTES {
            changes.files.push(file);
        } else {
            changes.truncated = true;
        }
    }
    Ok(changes)
}

fn count(changes: &mut Changes, change: ChangeKind, lines: LineCounts) {
    match change {
        ChangeKind::Added => changes.added += 1,
        ChangeKind::Modified => changes.modified += 1,
        ChangeKind::Deleted => changes.deleted += 1,
    }
    let (added, deleted) = lines.unwrap_or_default();
    changes.added_lines += added;
    changes.deleted_lines += deleted;
}

/// Parses `added TAB deleted TAB name NUL`; a binary file has `-` for both.
fn numbers(bytes: &[u8]) -> HashMap<&[u8], LineCounts> {
    let line = |line: &'_ [u8]| -> Option<(usize, LineCounts)> {
        let first = line.iter().position(|byte| *byte == b'\t')?;
        let second = first + 1 + line[first + 1..].iter().position(|byte| *byte == b'\t')?;
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.parse().ok();
        let lines = number(&line[..first]).zip(number(&line[first + 1..second]));
        Some((second + 1, lines))
    };
    let lines = bytes.split(|byte| *byte == 0);
    lines.filter_map(|text| line(text).map(|(name, lines)| (&text[name..], lines))).collect()
}

fn payload(name: &[u8]) -> Payload {
    match std::str::from_utf8(name) {
        Ok(text) => Payload { data: text.to_owned(), encoding: Encoding::Utf8 },
        Err(_) => Payload { data: STANDARD.encode(name), encoding: Encoding::Base64 },
    }
}
