//! What a revert answers.

use super::changes::payload;
use super::git::GitError;
use super::revert::RevertProgress;
use super::revert_plan::{Plan, Target};
use crate::limits::{REVERT_LIST_MAX_BYTES, REVERT_LISTED_MAX, REVERT_PATH_MAX_BYTES};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{Encoding, Payload, RevertOutcome, Reverted};

/// The files that were restored and deleted, and what the last comparison left as it is.
pub fn result<'a>(
    restored: impl ExactSizeIterator<Item = &'a Vec<u8>>,
    deleted: impl ExactSizeIterator<Item = &'a Vec<u8>>,
    plan: &Plan,
    target: Target<'_>,
    saved: Option<String>,
) -> RevertOutcome {
    let counts = [restored.len(), deleted.len(), plan.kept.len()];
    let lists = [listed_paths(restored), listed_paths(deleted), listed_paths(plan.kept.iter())];
    let truncated = lists.iter().zip(counts).any(|(list, count)| list.len() != count);
    let [restored, deleted, kept] = lists;
    let [restored_files, deleted_files, kept_files] = counts.map(|count| count as u64);
    RevertOutcome::Reverted(Reverted {
        restored,
        deleted,
        kept,
        restored_files,
        deleted_files,
        kept_files,
        not_restored: plan.not_restored(),
        incomplete_checkpoint: target.tree.is_incomplete(),
        saved,
        truncated,
    })
}

fn listed_paths<'a>(names: impl Iterator<Item = &'a Vec<u8>>) -> Vec<Payload> {
    let mut room = REVERT_LIST_MAX_BYTES;
    let fits = |name: &Payload| {
        // Escapes make it longer.
        let bytes = serde_json::to_string(name).map_or(usize::MAX, |json| json.len());
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let short = names.filter(|name| name.len() <= REVERT_PATH_MAX_BYTES);
    short.take(REVERT_LISTED_MAX).map(|name| payload(name)).take_while(fits).collect()
}

pub fn bytes(path: &Payload) -> Result<Vec<u8>, GitError> {
    match path.encoding {
        Encoding::Utf8 => Ok(path.data.clone().into_bytes()),
        Encoding::Base64 => STANDARD.decode(&path.data).map_err(|_| GitError::Unexpected),
    }
}

pub fn unknown(path: &[u8]) -> RevertOutcome {
    let path = String::from_utf8_lossy(path);
    let why =
        format!("{path:?} is neither in the checkpoint nor a file added since; ignored files are in none");
    RevertOutcome::UnknownPath { why }
}

pub fn incomplete(left: &Plan, problem: Option<String>, progress: &RevertProgress) -> RevertOutcome {
    let count = left.restored.len() + left.deleted.len();
    let cause = problem.unwrap_or_else(|| {
        let name = left.restored.keys().chain(&left.deleted).next().map(|name| String::from_utf8_lossy(name));
        format!("{:?} keeps changing", name.unwrap_or_default())
    });
    let why = format!(
        "{count} files are not as in the checkpoint: {cause}; stop what changes them and repeat{}",
        saved_as(progress)
    );
    RevertOutcome::Failed { why }
}

/// The files could not be saved, so they are not changed.
pub fn unsaved(error: &GitError, progress: &RevertProgress) -> RevertOutcome {
    let advice = if error.is_no_space() { "free some space" } else { "repeat it" };
    let changed = if progress.started { "some files were restored" } else { "no file was changed" };
    let why = format!(
        "could not save the files as they are now, {changed}: {error}; {advice}, or set `discard` to revert without saving{}",
        saved_as(progress)
    );
    RevertOutcome::Failed { why }
}

/// A checkpoint that is lost before anything was changed is told apart.
pub fn failed(error: &GitError, progress: &RevertProgress) -> RevertOutcome {
    let why = format!("{error}{}", saved_as(progress));
    match error {
        GitError::Lost { .. } if !progress.started => RevertOutcome::Lost { why },
        GitError::Lost { .. }
        | GitError::Missing
        | GitError::Failed { .. }
        | GitError::Io { .. }
        | GitError::TooMany { .. }
        | GitError::Unexpected => RevertOutcome::Failed { why },
    }
}

fn saved_as(progress: &RevertProgress) -> String {
    match &progress.saved {
        Some(commit) => format!("; the files as they were are saved as {commit}"),
        None => String::new(),
    }
}
