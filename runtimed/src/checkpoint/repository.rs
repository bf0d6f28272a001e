//! The private repository: created by hand, without templates and so without hooks, and with a configuration
//! that is rewritten where it was changed. Where nothing was, nothing is written: a full disk does not prevent a revert.

use super::git::{Git, GitError, object_name};
use super::skipped::SkippedPaths;
use crate::limits::{CHECKPOINTS_KEPT_MAX, REVERTS_KEPT_MAX};
use protocol::TaskId;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long packing may take, and when it is retried after it took longer.
const PACK_MAX_S: u32 = 10;
const PACK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The state before a task, the one at its end, and the one before a revert.
const REFS: &str = "refs/checkpoints/";
const ENDS: &str = "refs/ends/";
const REVERTS: &str = "refs/reverts/";

const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
\thooksPath = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tautocrlf = false
\tsafecrlf = false
\tsymlinks = true
\tignoreCase = false
\tprecomposeUnicode = false
\tprotectHFS = false
\tprotectNTFS = false
\tbigFileThreshold = 8m
\tquotePath = false
[diff]
\trenames = false
\tignoreSubmodules = none
[gc]
\tauto = 4000
\tautoDetach = false
\tpruneExpire = now
[maintenance]
\tauto = false
";

/// Overrides every attribute of the app: bytes are stored as they are, and no driver runs.
const ATTRIBUTES: &str = "* -text -eol -ident -filter -working-tree-encoding !diff !merge\n";
const EXCLUDE: &str = "/.slipway/\n";
const HEAD: &str = "ref: refs/heads/none\n";

pub fn prepare(git: &Git) -> Result<(), GitError> {
    let repository = &git.repository;
    for directory in ["objects", "refs", "info"] {
        std::fs::create_dir_all(repository.join(directory))
            .map_err(GitError::io("make the repository of checkpoints"))?;
    }
    for (name, text) in
        [("config", CONFIG), ("info/attributes", ATTRIBUTES), ("info/exclude", EXCLUDE), ("HEAD", HEAD)]
    {
        let file = repository.join(name);
        if has_content(&file, text) {
            continue;
        }
        write(&file, text).map_err(GitError::io(format!("write {name}")))?;
    }
    // Left by a killed run: there is only one at a time.
    for lock in ["index.lock", "packed-refs.lock", "HEAD.lock", "config.worktree", "commondir"] {
        let _ = std::fs::remove_file(repository.join(lock));
    }
    // The diff of one file has a repository of its own, and may run beside a revert.
    if git.objects.is_none() {
        for directory in [staging(git), rules(git)] {
            let _ = std::fs::remove_dir_all(directory);
        }
        let _ = std::fs::remove_file(saved_index(git));
        let _ = std::fs::remove_file(saved_index(git).with_extension("lock"));
    }
    Ok(())
}

/// Where files are staged that are about to be restored. It exists while a revert changes files.
pub fn staging(git: &Git) -> PathBuf {
    git.repository.with_file_name(super::STAGING)
}

/// Where the ignore rules of a checkpoint are applied.
pub fn rules(git: &Git) -> PathBuf {
    git.repository.with_file_name("rules")
}

/// The index of what a revert saves.
pub fn saved_index(git: &Git) -> PathBuf {
    git.repository.join("saved-index")
}

fn has_content(file: &Path, text: &str) -> bool {
    let is_file = std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file());
    is_file && std::fs::read(file).is_ok_and(|found| found == text.as_bytes())
}

/// Replaces the path, also where it is a link.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, path)
}

pub fn forget_index(git: &Git) {
    let _ = std::fs::remove_file(git.index());
    let _ = std::fs::remove_file(git.index().with_extension("lock"));
}

/// Stores a tree as the checkpoint of a task.
pub fn keep(git: &Git, task: &TaskId, tree: &str, skipped: &SkippedPaths) -> Result<String, GitError> {
    let list = skipped.lines();
    commit(git, &name(REFS, task), tree, &format!("before task {task}\n\n{list}"))
}

/// Stores a tree as the end of a task.
pub fn keep_end(git: &Git, task: &TaskId, tree: &str) -> Result<String, GitError> {
    commit(git, &name(ENDS, task), tree, &format!("after task {task}"))
}

/// The ref of what one revert saves: names sort by time.
pub fn saved_ref() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{REVERTS}{:020}", now.as_millis())
}

/// Stores a tree as the state before a revert.
pub fn keep_saved(git: &Git, name: &str, tree: &str, since: &str) -> Result<String, GitError> {
    commit(git, name, tree, &format!("before the revert to {since}"))
}

fn commit(git: &Git, name: &str, tree: &str, message: &str) -> Result<String, GitError> {
    let commit = object_name(git.run(&["commit-tree", tree], Some(message.as_bytes()))?)?;
    git.run(&["update-ref", name, &commit], None)?;
    Ok(commit)
}

/// The ref of a task. A task id may be invalid for git (`a..b`, `x.lock`, `a.`); it is then hex-encoded.
fn name(refs: &str, task: &TaskId) -> String {
    let text = task.as_str();
    if !text.contains("..") && !text.ends_with('.') && !text.ends_with(".lock") {
        return format!("{refs}{text}");
    }
    let digits: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{refs}x/{digits}")
}

/// Drops old checkpoints. Best effort.
pub fn forget_old(git: &Git, task: &TaskId) {
    for refs in [REFS, ENDS] {
        let listed = git
            .run(&["for-each-ref", "--sort=-committerdate", "--format=%(refname)", refs], None)
            .unwrap_or_default();
        let listed = String::from_utf8_lossy(&listed);
        let own = name(refs, task);
        for old in listed.lines().filter(|name| *name != own).skip(CHECKPOINTS_KEPT_MAX - 1) {
            let _ = git.run(&["update-ref", "-d", old], None);
        }
    }
}

/// Drops what earlier reverts saved. Best effort.
pub fn forget_old_reverts(git: &Git, saved: &str) {
    let arguments = ["for-each-ref", "--sort=-refname", "--format=%(objectname) %(refname)", REVERTS];
    let listed = git.run(&arguments, None).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let others =
        listed.lines().filter_map(|line| line.split_once(' ')).filter(|(commit, _)| *commit != saved);
    for (_, old) in others.skip(REVERTS_KEPT_MAX - 1) {
        let _ = git.run(&["update-ref", "-d", old], None);
    }
}

/// Packs the repository where that pays off. Best effort and bounded: a try that takes too long is ended with
/// this process, and its leftovers are killed like those of any job; the next try is a day later.
pub fn pack(git: &Git) {
    let tried = git.repository.join("pack.tried");
    let recent = std::fs::metadata(&tried)
        .and_then(|meta| meta.modified())
        .is_ok_and(|at| at.elapsed().is_ok_and(|ago| ago < PACK_AGAIN));
    if recent || std::fs::write(&tried, "").is_err() {
        return;
    }
    nix::unistd::alarm::set(PACK_MAX_S);
    let _ = git.run(&["gc", "--auto", "--quiet"], None);
    nix::unistd::alarm::cancel();
    let _ = std::fs::remove_file(tried);
}
