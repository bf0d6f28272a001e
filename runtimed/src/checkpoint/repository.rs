//! The private repository: created by hand, without templates and so without hooks, and with a configuration
//! that is rewritten each time, in case it was changed.

use super::git::{Git, GitError};
use crate::limits::CHECKPOINTS_KEPT_MAX;
use protocol::TaskId;
use std::path::Path;
use std::time::Duration;

/// How long packing may take, and when it is retried after it took longer.
const PACK_MAX_S: u32 = 10;
const PACK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// The state before a task, and the one at its end.
const REFS: &str = "refs/checkpoints/";
const ENDS: &str = "refs/ends/";

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
        write(&repository.join(name), text).map_err(GitError::io(format!("write {name}")))?;
    }
    // Left by a killed run: there is only one at a time.
    for lock in ["index.lock", "packed-refs.lock", "HEAD.lock", "config.worktree", "commondir"] {
        let _ = std::fs::remove_file(repository.join(lock));
    }
    Ok(())
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
pub fn keep(git: &Git, task: &TaskId, tree: &str) -> Result<String, GitError> {
    commit(git, &name(REFS, task), tree, &format!("before task {task}"))
}

/// Stores a tree as the end of a task.
pub fn keep_end(git: &Git, task: &TaskId, tree: &str) -> Result<String, GitError> {
    commit(git, &name(ENDS, task), tree, &format!("after task {task}"))
}

fn commit(git: &Git, name: &str, tree: &str, message: &str) -> Result<String, GitError> {
    let commit = git.object(&["commit-tree", tree, "-m", message])?;
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
