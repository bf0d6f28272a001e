//! What a task changed: from the document of its sandbox to rows. Nothing in the document is trusted: every length, name
//! and number is checked, and a document that ends early gives what it has.

use super::{limits, task_revert::is_path_below};
use base64::{Engine, engine::general_purpose::STANDARD};
use protocol::{ChangeKind, ChangedFile, ChangesHead, ChangesTotals, Encoding, FileDiff, Payload};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The changes of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskChanges {
    pub record: ChangesRecord,
    pub files: Vec<FileChangeRecord>,
}

/// What is known of the changes as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ChangesRecord {
    Recorded(ChangesSummary),
    Unavailable {
        why: String,
        /// The checkpoint is gone or was changed.
        lost: bool,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesSummary {
    /// Commit ids of the states before and after.
    pub since: String,
    pub until: String,
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    /// More files changed than are listed.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChangeRecord {
    pub path: Vec<u8>,
    pub change: ChangeKind,
    pub added_lines: Option<u64>,
    pub deleted_lines: Option<u64>,
    pub binary: bool,
    /// The whole diff, or none.
    pub diff: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChanges {
    #[error("the sandbox sent no valid list of its changes")]
    Malformed,
    #[error("the sandbox sent the name of a file that cannot exist")]
    Name,
    #[error("the sandbox compared with another checkpoint than the one it took")]
    OtherCheckpoint,
}

impl TaskChanges {
    pub fn unavailable(why: impl Into<String>, lost: bool) -> Self {
        let why: String = why.into();
        let why = why.chars().take(limits::CHANGES_REASON_MAX_CHARS).collect();
        Self { record: ChangesRecord::Unavailable { why, lost }, files: Vec::new() }
    }

    /// Parses the document of a task whose checkpoint was recorded as `since`. Without an end it has what came.
    pub fn parse(document: &[u8], since: &str) -> Self {
        match parse(document, since) {
            Ok(changes) => changes,
            Err(bad) => Self::unavailable(bad.to_string(), bad == BadChanges::OtherCheckpoint),
        }
    }
}

/// Whether this is the name of a commit.
pub fn is_commit(name: &str) -> bool {
    (40..=64).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn parse(document: &[u8], since: &str) -> Result<TaskChanges, BadChanges> {
    let mut rest = document;
    let totals = match line(&mut rest).ok_or(BadChanges::Malformed)? {
        ChangesHead::Changed(totals) => totals,
        ChangesHead::Lost { why } => return Ok(TaskChanges::unavailable(why, true)),
        ChangesHead::Unavailable { why } => return Ok(TaskChanges::unavailable(why, false)),
    };
    if totals.since != since {
        return Err(BadChanges::OtherCheckpoint);
    }
    if !is_commit(&totals.until) || totals.files > limits::CHANGES_FILES_MAX {
        return Err(BadChanges::Malformed);
    }
    let mut files = Vec::new();
    while (files.len() as u64) < totals.files
        && let Some(listed) = line(&mut rest)
    {
        files.push(file(&listed)?);
    }
    while let Some(FileDiff { file, bytes }) = line(&mut rest) {
        let Some(diff) = usize::try_from(bytes).ok().and_then(|bytes| rest.get(..bytes)) else { break };
        let file = usize::try_from(file).ok().and_then(|file| files.get_mut(file));
        file.ok_or(BadChanges::Malformed)?.diff = Some(diff.to_vec());
        rest = rest.get(diff.len() + 1..).unwrap_or_default();
    }
    Ok(TaskChanges { record: ChangesRecord::Recorded(summary(totals, files.len())?), files })
}

/// Takes a line off; `None` where there is no whole one.
fn line<T: DeserializeOwned>(rest: &mut &[u8]) -> Option<T> {
    let end = memchr::memchr(b'\n', rest)?;
    let parsed = serde_json::from_slice(&rest[..end]).ok()?;
    *rest = &rest[end + 1..];
    Some(parsed)
}

fn file(listed: &ChangedFile) -> Result<FileChangeRecord, BadChanges> {
    let path = path(&listed.path)?;
    let number = |lines: Option<u64>| lines.map(count).transpose();
    Ok(FileChangeRecord {
        path,
        change: listed.change,
        added_lines: number(listed.added_lines)?,
        deleted_lines: number(listed.deleted_lines)?,
        binary: listed.binary,
        diff: None,
    })
}

/// A name that git could store: relative, and without a part that leads elsewhere.
pub(super) fn path(name: &Payload) -> Result<Vec<u8>, BadChanges> {
    let bytes = match name.encoding {
        Encoding::Utf8 => name.data.clone().into_bytes(),
        Encoding::Base64 => STANDARD.decode(&name.data).map_err(|_| BadChanges::Name)?,
    };
    if is_path_below(&bytes) { Ok(bytes) } else { Err(BadChanges::Name) }
}

/// A number that a database and a reader of JSON can hold.
fn count(number: u64) -> Result<u64, BadChanges> {
    if number <= limits::CHANGED_COUNT_MAX { Ok(number) } else { Err(BadChanges::Malformed) }
}

fn summary(totals: ChangesTotals, listed: usize) -> Result<ChangesSummary, BadChanges> {
    let (added, modified, deleted) = (count(totals.added)?, count(totals.modified)?, count(totals.deleted)?);
    Ok(ChangesSummary {
        since: totals.since,
        until: totals.until,
        added,
        modified,
        deleted,
        added_lines: count(totals.added_lines)?,
        deleted_lines: count(totals.deleted_lines)?,
        truncated: added + modified + deleted > listed as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: &str = "0123456789abcdef0123456789abcdef01234567";
    const UNTIL: &str = "76543210fedcba9876543210fedcba9876543210";

    fn head(files: u64, added: u64) -> String {
        let totals = ChangesTotals {
            since: SINCE.into(),
            until: UNTIL.into(),
            files,
            added,
            ..ChangesTotals::default()
        };
        serde_json::to_string(&ChangesHead::Changed(totals)).unwrap() + "\n"
    }

    fn listed(path: &str) -> String {
        format!("{{\"path\":{{\"data\":{}}},\"change\":\"added\"}}\n", serde_json::to_string(path).unwrap())
    }

    fn names(changes: &TaskChanges) -> Vec<(String, Option<usize>)> {
        let row = |file: &FileChangeRecord| {
            (String::from_utf8_lossy(&file.path).into_owned(), file.diff.as_ref().map(Vec::len))
        };
        changes.files.iter().map(row).collect()
    }

    #[test]
    fn a_document_gives_what_it_has_wherever_it_ends() {
        let whole =
            format!("{}{}{}{{\"file\":1,\"bytes\":3}}\na\nb\n", head(2, 2), listed("x"), listed("y\n/z"));
        let parsed = TaskChanges::parse(whole.as_bytes(), SINCE);
        assert_eq!(names(&parsed), [("x".to_owned(), None), ("y\n/z".to_owned(), Some(3))]);
        for end in 0..whole.len() {
            let cut = TaskChanges::parse(&whole.as_bytes()[..end], SINCE);
            match &cut.record {
                ChangesRecord::Recorded(summary) => assert_eq!(summary.truncated, cut.files.len() < 2),
                ChangesRecord::Unavailable { lost, .. } => assert!(!lost && end < head(2, 2).len()),
            }
            assert!(cut.files.iter().zip(&parsed.files).all(|(cut, whole)| cut.path == whole.path));
            assert!(cut.files.iter().filter_map(|file| file.diff.as_ref()).all(|diff| diff == b"a\nb"));
        }
    }

    #[test]
    fn a_document_that_lies_is_not_believed() {
        let long = "x".repeat(limits::CHANGED_PATH_MAX_BYTES + 1);
        let other = head(0, 0).replace(SINCE, UNTIL);
        let lost = "{\"lost\":{\"why\":\"gone\"}}\n";
        for (document, lost) in [
            (String::new(), false),
            ("{}\n".to_owned(), false),
            (other, true),
            (lost.to_owned(), true),
            (head(limits::CHANGES_FILES_MAX + 1, 0), false),
            (head(0, u64::MAX), false),
            (head(0, 0).replace(UNTIL, "--output=/etc/passwd"), false),
            (head(1, 1) + &listed("../up"), false),
            (head(1, 1) + &listed("/root"), false),
            (head(1, 1) + &listed(""), false),
            (head(1, 1) + &listed("a\0b"), false),
            (head(1, 1) + &listed(&long), false),
            (
                head(1, 1) + "{\"path\":{\"data\":\"!\",\"encoding\":\"base64\"},\"change\":\"added\"}\n",
                false,
            ),
            (head(1, 1) + &listed("x") + "{\"file\":7,\"bytes\":1}\nx\n", false),
        ] {
            let parsed = TaskChanges::parse(document.as_bytes(), SINCE);
            let ChangesRecord::Unavailable { lost: is_lost, .. } = parsed.record else {
                panic!("believed: {document}")
            };
            assert_eq!(is_lost, lost, "{document}");
            assert!(parsed.files.is_empty());
        }
        // A diff that claims to be longer than the document is none.
        let short = head(1, 1) + &listed("x") + "{\"file\":0,\"bytes\":18446744073709551615}\nx\n";
        assert_eq!(names(&TaskChanges::parse(short.as_bytes(), SINCE)), [("x".to_owned(), None)]);
    }
}
