//! The outcome of a revert, from the document of its sandbox. Nothing in it is trusted: lists, names and numbers are
//! checked.

use super::limits;
use super::task_changes::path;
use protocol::{Payload, RevertOutcome};

/// What became of a revert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskRevertOutcome {
    Reverted(RevertedFiles),
    /// The checkpoint is gone or was changed; no file was touched.
    Lost(String),
    UnknownPath(String),
    /// Some files could not be restored.
    Failed(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RevertedFiles {
    pub restored: Vec<Vec<u8>>,
    pub deleted: Vec<Vec<u8>>,
    pub kept: Vec<Vec<u8>>,
    pub restored_files: u64,
    pub deleted_files: u64,
    pub kept_files: u64,
    pub not_restored: u64,
    pub incomplete_checkpoint: bool,
    pub saved: Option<String>,
    pub truncated: bool,
}

impl TaskRevertOutcome {
    /// Parses the document; `None` where it is not one.
    pub fn parse(document: &[u8]) -> Option<Self> {
        let why = |why: String| why.chars().take(limits::CHANGES_REASON_MAX_CHARS).collect();
        let reverted = match serde_json::from_slice(document).ok()? {
            RevertOutcome::Reverted(reverted) => reverted,
            RevertOutcome::Lost { why: text } => return Some(Self::Lost(why(text))),
            RevertOutcome::UnknownPath { why: text } => return Some(Self::UnknownPath(why(text))),
            RevertOutcome::Failed { why: text } => return Some(Self::Failed(why(text))),
        };
        let [restored, deleted, kept] =
            [paths(&reverted.restored)?, paths(&reverted.deleted)?, paths(&reverted.kept)?];
        let count = |all: u64, listed: &[Vec<u8>]| {
            (all >= listed.len() as u64 && all <= limits::CHANGED_COUNT_MAX).then_some(all)
        };
        let restored_files = count(reverted.restored_files, &restored)?;
        let deleted_files = count(reverted.deleted_files, &deleted)?;
        let kept_files = count(reverted.kept_files, &kept)?;
        let listed = (restored.len() + deleted.len() + kept.len()) as u64;
        let is_commit =
            |id: &String| (40..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Self::Reverted(RevertedFiles {
            restored,
            deleted,
            kept,
            restored_files,
            deleted_files,
            kept_files,
            not_restored: count(reverted.not_restored, &[])?,
            incomplete_checkpoint: reverted.incomplete_checkpoint,
            saved: reverted.saved.filter(is_commit),
            truncated: listed != restored_files + deleted_files + kept_files,
        }))
    }
}

fn paths(listed: &[Payload]) -> Option<Vec<Vec<u8>>> {
    if listed.len() > limits::REVERT_LISTED_MAX {
        return None;
    }
    // A name that is too long is counted and not listed.
    let is_long = |name: &&Payload| name.data.len() > 2 * limits::CHANGED_PATH_MAX_BYTES;
    listed.iter().filter(|name| !is_long(name)).map(|name| path(name).ok()).collect()
}

/// Whether a path can be that of a file below the app directory.
pub fn is_path_below(path: &[u8]) -> bool {
    let is_part = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    path.len() <= limits::CHANGED_PATH_MAX_BYTES
        && !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Encoding, Reverted};
    use serde_json::json;

    fn name(data: &str, encoding: Encoding) -> Payload {
        Payload { data: data.to_owned(), encoding }
    }

    fn parse(outcome: &RevertOutcome) -> Option<TaskRevertOutcome> {
        TaskRevertOutcome::parse(&serde_json::to_vec(outcome).expect("JSON"))
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written() {
        let reverted = Reverted {
            restored: vec![name("a\nb", Encoding::Utf8)],
            deleted: vec![name("/w==", Encoding::Base64)],
            kept: vec![name("large", Encoding::Utf8), name(&"x/".repeat(8 << 10), Encoding::Utf8)],
            restored_files: 1,
            deleted_files: 7,
            kept_files: 2,
            not_restored: 3,
            incomplete_checkpoint: true,
            saved: Some("a".repeat(40)),
            truncated: false,
        };
        let expected = RevertedFiles {
            restored: vec![b"a\nb".to_vec()],
            deleted: vec![vec![0xff]],
            kept: vec![b"large".to_vec()],
            restored_files: 1,
            deleted_files: 7,
            kept_files: 2,
            not_restored: 3,
            incomplete_checkpoint: true,
            saved: Some("a".repeat(40)),
            truncated: true,
        };
        let parsed = parse(&RevertOutcome::Reverted(reverted));
        assert_eq!(parsed, Some(TaskRevertOutcome::Reverted(expected)));
        let lost = parse(&RevertOutcome::Lost { why: "x".repeat(100_000) });
        let most = limits::CHANGES_REASON_MAX_CHARS;
        assert_eq!(lost, Some(TaskRevertOutcome::Lost("x".repeat(most))));
    }

    #[test]
    fn what_no_runtimed_sends_is_refused() {
        let of = |restored: Vec<Payload>, restored_files| {
            parse(&RevertOutcome::Reverted(Reverted { restored, restored_files, ..Reverted::default() }))
        };
        let plain = || name("a", Encoding::Utf8);
        assert_eq!(of(vec![plain()], 0), None, "fewer than are listed");
        assert_eq!(of(vec![], u64::MAX), None, "too many to be true");
        assert_eq!(of(vec![plain(); limits::REVERT_LISTED_MAX + 1], 100_000), None, "a long list");
        assert_eq!(of(vec![name("no base64", Encoding::Base64)], 1), None);
        for document in ["", "{", "null", &json!({"other": {}}).to_string()] {
            assert_eq!(TaskRevertOutcome::parse(document.as_bytes()), None, "{document}");
        }
    }

    #[test]
    fn a_path_stays_below_the_app_directory() {
        for (path, below) in [
            ("a", true),
            ("a/b c\n", true),
            ("..a/.b", true),
            ("", false),
            ("/a", false),
            ("a/", false),
            ("a//b", false),
            ("./a", false),
            ("a/../b", false),
            ("a\0", false),
        ] {
            assert_eq!(is_path_below(path.as_bytes()), below, "{path:?}");
        }
    }
}
