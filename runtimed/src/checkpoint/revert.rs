//! Restores the files of a checkpoint. The app's own repository is no part of that: nothing named `.git` is read or written.
//!
//! ```text
//! compare ─▶ verify what is restored ─▶ save what is lost ─▶ delete ─▶ stage and install, file by file ─┐
//!    ▲                                                                                               │
//!    └───────────────────────────── until nothing differs, at most ROUNDS_MAX times ─────────────────┘
//! ```
//!
//! Nothing is changed before all that is restored proved to be there and all that is lost is saved. A run that dies
//! half-way is repeated with the same end.

use super::app_dir::{AppDir, InTheWay, split};
use super::document::line;
use super::git::{Git, GitError};
use super::revert_outcome::{bytes, failed, incomplete, result, unknown, unsaved};
use super::revert_plan::{Plan, Scope, Target, compare, restore_all};
use super::saved_files::SavedFiles;
use super::staging::{Staging, Wanted};
use super::tree::{self, CheckpointTree};
use super::{Reply, repository, verify};
use nix::errno::Errno;
use protocol::{RevertOutcome, RevertRequest};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};

/// How often the files are compared again and what is left is restored.
const ROUNDS_MAX: usize = 3;

/// The files that were changed so far.
#[derive(Default)]
pub struct RevertProgress {
    pub restored: BTreeSet<Vec<u8>>,
    pub deleted: BTreeSet<Vec<u8>>,
    /// Whether any change was tried.
    pub started: bool,
    /// The commit of what the files were before.
    pub saved: Option<String>,
}

/// Writes the reply and the outcome.
pub fn answer(git: &Git, wanted: &RevertRequest, out: &mut impl Write) -> Result<Reply, GitError> {
    let mut progress = RevertProgress::default();
    let outcome = match perform(git, wanted, &mut progress) {
        Ok(outcome) => outcome,
        Err(error) => failed(&error, &progress),
    };
    let complete = match &outcome {
        RevertOutcome::Reverted(reverted) => reverted.kept_files + reverted.not_restored == 0,
        RevertOutcome::Lost { .. } | RevertOutcome::UnknownPath { .. } | RevertOutcome::Failed { .. } => {
            false
        }
    };
    let RevertProgress { restored, deleted, started, saved } = progress;
    let (restored, deleted) = (restored.len() as u64, deleted.len() as u64);
    let reply = Reply::Reverted { restored, deleted, complete, started, saved };
    line(out, &reply)?;
    line(out, &outcome)?;
    out.flush().map_err(GitError::io("write the reply"))?;
    Ok(reply)
}

fn perform(
    git: &Git,
    wanted: &RevertRequest,
    progress: &mut RevertProgress,
) -> Result<RevertOutcome, GitError> {
    repository::prepare(git)?;
    // Git reads objects beside the app, which may be gone.
    let beside = git.repository.parent().unwrap_or(&git.repository).to_owned();
    let private = Git { repository: git.repository.clone(), work_tree: beside, objects: None };
    let tree = tree::read(&private, &wanted.since)?;
    let path = wanted.path.as_ref().map(bytes).transpose()?;
    let target = Target { tree: &tree, scope: Scope(path.as_deref()), discard: wanted.discard };
    let none = || unknown(path.as_deref().unwrap_or_default());
    if wanted.dry_run {
        let plan = match std::fs::symlink_metadata(&git.work_tree) {
            Err(error) if error.kind() == ErrorKind::NotFound => restore_all(target),
            Ok(_) | Err(_) => compare(&private, &mut AppDir::open(&git.work_tree, false)?, target)?,
        };
        let Some(plan) = plan else { return Ok(none()) };
        verify_restored(&private, &tree, &plan)?;
        return Ok(result(plan.restored.keys(), plan.deleted.iter(), &plan, target, None));
    }
    std::fs::create_dir_all(&git.work_tree).map_err(GitError::io("make the app directory"))?;
    let mut app = AppDir::open(&git.work_tree, true)?;
    let mut saved = SavedFiles::new(git, target, &wanted.since);
    let mut problem = None;
    for round in 0..=ROUNDS_MAX {
        app.forget();
        let mut plan = match compare(&private, &mut app, target)? {
            Some(plan) => plan,
            // A path of which nothing is left was added since and is deleted now.
            None if round > 0 => Plan::default(),
            None => return Ok(none()),
        };
        verify_restored(&private, &tree, &plan)?;
        if round < ROUNDS_MAX && !wanted.discard {
            if let Err(error) = saved.save(&mut app, &mut plan) {
                return Ok(unsaved(&error, progress));
            }
            progress.saved = saved.commit().map(str::to_owned);
        }
        if plan.is_empty() {
            let saved = progress.saved.clone();
            return Ok(result(progress.restored.iter(), progress.deleted.iter(), &plan, target, saved));
        }
        if round == ROUNDS_MAX {
            return Ok(incomplete(&plan, problem, progress));
        }
        problem = apply_plan(&private, &mut app, target, &plan, progress)?;
    }
    Err(GitError::Unexpected)
}

fn verify_restored(git: &Git, tree: &CheckpointTree, plan: &Plan) -> Result<(), GitError> {
    let files = plan.restored.keys().filter_map(|name| tree.files.get(name));
    verify::objects(git, files.map(|file| file.object.as_str()))
}

/// Deletes and restores; one file that cannot be changed does not stop the others. Returns the first problem.
fn apply_plan(
    git: &Git,
    app: &mut AppDir,
    target: Target<'_>,
    plan: &Plan,
    progress: &mut RevertProgress,
) -> Result<Option<String>, GitError> {
    progress.started = true;
    let staging = Staging::new(git);
    let mut problem = None;
    let mut note = |verb: &str, name: &[u8], error: Errno| {
        problem.get_or_insert_with(|| format!("{verb} {:?}: {error}", String::from_utf8_lossy(name)));
    };
    for name in &plan.deleted {
        match app.delete(name) {
            Ok(()) => drop(progress.deleted.insert(name.clone())),
            Err(error) => note("delete", name, error),
        }
    }
    delete_empty(app, target.tree, &plan.deleted);
    let files = plan.restored.iter().filter_map(|(name, mode)| {
        target.tree.files.get(name).map(|file| Wanted { name, file, mode: *mode })
    });
    let wanted: Vec<Wanted<'_>> = files.collect();
    let in_the_way = if target.discard { InTheWay::Anything } else { InTheWay::Empty };
    staging.each(git, &wanted, |directory, staged, name| {
        match app.install_staged(directory, staged, name, in_the_way) {
            Ok(()) => drop(progress.restored.insert(name.to_vec())),
            Err(error) => note("restore", name, error),
        }
    })?;
    Ok(problem)
}

/// Removes directories that lost their last file, unless the checkpoint has files there.
fn delete_empty(app: &mut AppDir, tree: &CheckpointTree, deleted: &BTreeSet<Vec<u8>>) {
    let above = |name: &[u8]| split(name).0.to_vec();
    let mut directories: BTreeSet<Vec<u8>> = deleted.iter().map(|name| above(name)).collect();
    // A directory sorts before what is in it.
    while let Some(directory) = directories.pop_last() {
        if !directory.is_empty() && !tree.has_files_below(&directory) && app.delete_empty(&directory) {
            directories.insert(above(&directory));
        }
    }
}
