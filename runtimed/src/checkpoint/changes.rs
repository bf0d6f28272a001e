//! The difference between two trees: which files, how many lines, and the totals.

use super::git::{Git, GitError, path};
use super::verify;
use crate::limits::{CHANGES_LISTED_MAX, CHANGES_SHOWN_MAX, CHANGES_SHOWN_MAX_BYTES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{ChangeKind, Changes, Encoding, FileChange, Payload};
use std::collections::HashMap;
use std::ffi::OsStr;

const RAW: [&str; 9] =
    ["diff-tree", "-r", "-t", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"];
const NUMBERS: [&str; 7] =
    ["diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv"];
const TREE: &[u8] = b"040000";
const ABSENT: &[u8] = b"000000";

type LineCounts = Option<(u64, u64)>;

/// A changed file, in the order in which git prints its diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Vec<u8>,
    pub change: ChangeKind,
    pub lines: LineCounts,
    pub binary: bool,
    /// Whether both states of the file are stored. A file that became too large is not.
    pub known: bool,
    /// How many diffs git prints: a file that became a link is deleted and added.
    pub sections: usize,
    /// The objects before and after.
    pub objects: [Option<String>; 2],
}

/// The changed files between two trees, verified as far as they are shown; of one path only, if one is given. Both
/// sides: git does not write an object whose name is taken already.
pub fn between(git: &Git, (since, until): (&str, &str), of: Option<&[u8]>) -> Result<Vec<Entry>, GitError> {
    let literal = of.map(|name| [b":(top,literal)", name].concat());
    let diff = |how: &[&str]| {
        let trees = [since, until, "--"];
        let mut arguments: Vec<&OsStr> = how.iter().chain(&trees).map(OsStr::new).collect();
        arguments.extend(literal.as_deref().map(|name| path(name).as_os_str()));
        // Git can name neither tree nor object that it misses; both were there.
        git.run_os(&arguments).map_err(GitError::or_lost)
    };
    let raw = diff(&RAW)?;
    let mut trees = Vec::new();
    let mut entries = Vec::new();
    let mut parts = raw.split(|byte| *byte == 0);
    while let (Some(head), Some(name)) = (parts.next(), parts.next()) {
        let change = RawChange::parse(head).ok_or(GitError::Unexpected)?;
        if change.modes.contains(&TREE) {
            trees.extend([0, 1].into_iter().filter_map(|side| change.object(side)));
        } else if of.is_none_or(|wanted| wanted == name) {
            // What is asked for later has been recorded: the files of today say nothing about it.
            let is_there = || of.is_none() && exists(git, name);
            entries.push(entry(&change, name, is_there));
        }
    }
    let shown = entries.iter().take(CHANGES_LISTED_MAX).flat_map(|entry| entry.objects.iter().flatten());
    verify::objects(git, [since, until].into_iter().chain(trees.iter().chain(shown).map(String::as_str)))?;
    let printed = diff(&NUMBERS)?;
    let numbers = numbers(&printed);
    for entry in &mut entries {
        let lines = numbers.get(entry.name.as_slice()).copied();
        entry.lines = lines.flatten().filter(|_| entry.known);
        entry.binary = lines == Some(None) && entry.known;
    }
    Ok(entries)
}

/// `:mode mode object object status`.
struct RawChange<'a> {
    modes: [&'a [u8]; 2],
    objects: [&'a str; 2],
    status: u8,
}

impl<'a> RawChange<'a> {
    fn parse(head: &'a [u8]) -> Option<Self> {
        let mut words = head.strip_prefix(b":")?.split(|byte| *byte == b' ');
        let modes = [words.next()?, words.next()?];
        let mut object = || words.next().and_then(|word| std::str::from_utf8(word).ok());
        let objects = [object()?, object()?];
        Some(Self { modes, objects, status: *words.next()?.first()? })
    }

    fn object(&self, side: usize) -> Option<String> {
        (self.modes[side] != ABSENT).then(|| self.objects[side].to_owned())
    }
}

fn exists(git: &Git, name: &[u8]) -> bool {
    std::fs::symlink_metadata(git.work_tree.join(path(name))).is_ok()
}

fn entry(change: &RawChange<'_>, name: &[u8], is_there: impl FnOnce() -> bool) -> Entry {
    // A file that became too large to store is not deleted.
    let kind = match change.status {
        b'A' => ChangeKind::Added,
        b'D' if !is_there() => ChangeKind::Deleted,
        _ => ChangeKind::Modified,
    };
    Entry {
        name: name.to_owned(),
        change: kind,
        lines: None,
        binary: false,
        known: change.status != b'D' || kind == ChangeKind::Deleted,
        sections: if change.status == b'T' { 2 } else { 1 },
        objects: [change.object(0), change.object(1)],
    }
}

/// Counts, and the first of the files.
pub fn totals(entries: &[Entry]) -> Changes {
    let mut changes = Changes::default();
    let mut shown_bytes = 0;
    for entry in entries {
        count(&mut changes, entry.change, entry.lines);
        let file = FileChange {
            path: payload(&entry.name),
            change: entry.change,
            added_lines: entry.lines.map(|(added, _)| added),
            deleted_lines: entry.lines.map(|(_, deleted)| deleted),
        };
        shown_bytes += serde_json::to_string(&file).map_or(0, |json| json.len());
        if changes.files.len() < CHANGES_SHOWN_MAX && shown_bytes <= CHANGES_SHOWN_MAX_BYTES {
            changes.files.push(file);
        } else {
            changes.truncated = true;
        }
    }
    changes
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

pub fn payload(name: &[u8]) -> Payload {
    match std::str::from_utf8(name) {
        Ok(text) => Payload { data: text.to_owned(), encoding: Encoding::Utf8 },
        Err(_) => Payload { data: STANDARD.encode(name), encoding: Encoding::Base64 },
    }
}
