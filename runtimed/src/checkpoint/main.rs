//! The checkpoint process: one request as its argument; on stdout a reply of one line and, where changes are asked
//! for, their document.

use super::document::{self, Comparison};
use super::git::{Git, GitError};
use super::patch::Bounds;
use super::skipped::SkippedPaths;
use super::{Reply, Request, Verb, changes, index_mark, record_tree, repository, revert, verify};
use crate::limits::{
    CHANGED_FILE_MAX_BYTES, CHANGES_DIFF_MAX_BYTES, DIFFS_MAX_S, FILE_DIFF_MAX_BYTES, ONE_DIFF_MAX_BYTES,
    ONE_FILE_MAX_BYTES,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::{ChangesHead, DiffRequest, Encoding};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// The bounds of what is recorded at the end of a task, and of one file that is asked for.
const RECORDED: Bounds = Bounds {
    file_bytes: CHANGED_FILE_MAX_BYTES,
    diff_bytes: FILE_DIFF_MAX_BYTES,
    all_bytes: CHANGES_DIFF_MAX_BYTES,
};
const ASKED_FOR: Bounds =
    Bounds { file_bytes: ONE_FILE_MAX_BYTES, diff_bytes: ONE_DIFF_MAX_BYTES, all_bytes: ONE_DIFF_MAX_BYTES };

pub fn main(request: Option<&str>) -> ExitCode {
    let Some(request) = request.and_then(|text| serde_json::from_str::<Request>(text).ok()) else {
        eprintln!("runtimed: checkpoint takes a request as JSON");
        return ExitCode::from(64);
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    let reply = match answer(&request, &mut out) {
        Ok(reply) => reply,
        Err(error) => {
            eprintln!("runtimed: {error}");
            return ExitCode::from(70);
        }
    };
    // After the reply: a caller that stops waiting for this has it already.
    let git = Git::new(&request);
    match reply {
        Reply::Taken { .. } => repository::forget_old(&git, &request.task),
        Reply::Changed(_) => repository::pack(&git),
        Reply::Reverted { saved: Some(saved), .. } => repository::forget_old_reverts(&git, &saved),
        Reply::Compared | Reply::Reverted { saved: None, .. } | Reply::Unavailable { .. } => {}
    }
    ExitCode::SUCCESS
}

/// Writes the answer. An error means that it could not be written as a whole.
pub(super) fn answer(request: &Request, out: &mut impl Write) -> Result<Reply, GitError> {
    let git = Git::new(request);
    if let Verb::Revert(wanted) = &request.verb {
        return revert::answer(&git, wanted, out);
    }
    let answered = match &request.verb {
        Verb::Revert(_) => return Err(GitError::Unexpected),
        Verb::Take => take(&git, request).map(|reply| (reply, None)),
        Verb::Changes { since, index } => {
            if !index.as_ref().is_some_and(|mark| index_mark::restore(&git.index(), mark)) {
                repository::forget_index(&git);
            }
            changed(&git, request, since).map(|of| (Reply::Changed(changes::totals(&of.entries)), Some(of)))
        }
        Verb::Diff(wanted) => {
            let scratch = git.repository.with_file_name("diff.git");
            let git = git.beside(scratch.clone());
            let compared = compared(&git, wanted).and_then(|of| diff(&git, &of, out));
            let _ = std::fs::remove_dir_all(scratch);
            compared.map(|()| (Reply::Compared, None))
        }
    };
    let (reply, of) = match answered {
        Ok((Reply::Compared, _)) => return Ok(Reply::Compared),
        Ok(answered) => answered,
        Err(error) => {
            let reply = Reply::Unavailable { why: error.to_string() };
            document::line(out, &reply)?;
            if request.verb != Verb::Take {
                document::line(out, &head_of(&error))?;
            }
            out.flush().map_err(GitError::io("write the reply"))?;
            return Ok(reply);
        }
    };
    document::line(out, &reply)?;
    out.flush().map_err(GitError::io("write the reply"))?;
    if let (Reply::Changed(totals), Some(of)) = (&reply, of) {
        // What was written until then counts.
        nix::unistd::alarm::set(DIFFS_MAX_S);
        document::write(&git, &of, totals, RECORDED, out)?;
        nix::unistd::alarm::cancel();
    }
    Ok(reply)
}

fn take(git: &Git, request: &Request) -> Result<Reply, GitError> {
    let (tree, paths) = record(git)?;
    let id = repository::keep(git, &request.task, &tree, &paths)?;
    let skipped = paths.skipped.iter().filter(|name| !name.ends_with(b"/")).count() as u64;
    Ok(Reply::Taken { id, skipped, index: index_mark::of(&git.index()).ok() })
}

fn record(git: &Git) -> Result<(String, SkippedPaths), GitError> {
    repository::prepare(git)?;
    record_tree::record(git).or_else(|_| {
        // A damaged index, or files that changed meanwhile: tried once more from an empty index.
        repository::forget_index(git);
        record_tree::record(git)
    })
}

/// What changed since a checkpoint.
fn changed(git: &Git, request: &Request, since: &str) -> Result<Comparison, GitError> {
    let (tree, _) = record(git)?;
    let before = verify::tree_of(git, since)?;
    let entries = changes::between(git, (&before, &tree), None)?;
    let until = repository::keep_end(git, &request.task, &tree)?;
    Ok(Comparison { commits: (since.to_owned(), until), trees: (before, tree), entries })
}

/// What changed in one file between two recorded states.
fn compared(git: &Git, wanted: &DiffRequest) -> Result<Comparison, GitError> {
    let _ = std::fs::remove_dir_all(&git.repository);
    repository::prepare(git)?;
    let name = match wanted.path.encoding {
        Encoding::Utf8 => wanted.path.data.clone().into_bytes(),
        Encoding::Base64 => STANDARD.decode(&wanted.path.data).map_err(|_| GitError::Unexpected)?,
    };
    let trees = (verify::tree_of(git, &wanted.since)?, verify::tree_of(git, &wanted.until)?);
    let entries = changes::between(git, (&trees.0, &trees.1), Some(&name))?;
    Ok(Comparison { commits: (wanted.since.clone(), wanted.until.clone()), trees, entries })
}

fn diff(git: &Git, of: &Comparison, out: &mut impl Write) -> Result<(), GitError> {
    document::line(out, &Reply::Compared)?;
    document::write(git, of, &changes::totals(&of.entries), ASKED_FOR, out)
}

fn head_of(error: &GitError) -> ChangesHead {
    let why = error.to_string();
    match error {
        GitError::Lost { .. } => ChangesHead::Lost { why },
        GitError::Missing
        | GitError::Failed { .. }
        | GitError::Io { .. }
        | GitError::TooMany { .. }
        | GitError::Unexpected => ChangesHead::Unavailable { why },
    }
}
