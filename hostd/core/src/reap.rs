//! What may be removed of that which sandboxes left. Only what a record proves to be of no use: the sandbox is
//! destroyed, and its workspace was not to be kept. What has no record is left alone: it may be a sandbox to adopt, or
//! files that were kept before their record expired.

use protocol::api::LeftoverKind;

/// A removal under way keeps its entry of the trash for less, by a clock that was not set meanwhile. Entries that hostd
/// fills are not listed at all.
pub const TRASH_AGE_MIN_MS: u64 = 3_600_000;

/// The record of the sandbox that something belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOf {
    Missing,
    Live,
    Destroyed { keep_workspace: bool },
}

/// Why something may be removed; `None`: it stays.
pub fn reap_reason(kind: LeftoverKind, record: RecordOf, trash_age_ms: Option<u64>) -> Option<&'static str> {
    match (kind, record) {
        (LeftoverKind::Trash, _) => trash_age_ms
            .is_some_and(|age_ms| age_ms >= TRASH_AGE_MIN_MS)
            .then_some("its removal was begun more than an hour ago"),
        (_, RecordOf::Missing | RecordOf::Live) => None,
        (LeftoverKind::Workspace, RecordOf::Destroyed { keep_workspace: true }) => None,
        (
            LeftoverKind::Workspace
            | LeftoverKind::SandboxDirectory
            | LeftoverKind::RuntimeState
            | LeftoverKind::ControlGroup,
            RecordOf::Destroyed { .. },
        ) => Some("its sandbox is destroyed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LeftoverKind::{ControlGroup, RuntimeState, SandboxDirectory, Trash, Workspace};

    #[test]
    fn only_what_a_destroyed_sandbox_left_is_removed() {
        let gone = |keep_workspace| RecordOf::Destroyed { keep_workspace };
        for kind in [SandboxDirectory, Workspace, RuntimeState, ControlGroup] {
            for record in [RecordOf::Missing, RecordOf::Live] {
                assert_eq!(reap_reason(kind, record, None), None, "{kind:?} {record:?}");
            }
            assert!(reap_reason(kind, gone(false), None).is_some(), "{kind:?}");
            assert_eq!(reap_reason(kind, gone(true), None).is_some(), kind != Workspace, "{kind:?}");
        }
    }

    #[test]
    fn only_old_trash_is_removed() {
        for (age_ms, removed) in [(None, false), (Some(0), false), (Some(TRASH_AGE_MIN_MS), true)] {
            assert_eq!(reap_reason(Trash, RecordOf::Missing, age_ms).is_some(), removed, "{age_ms:?}");
        }
    }
}
