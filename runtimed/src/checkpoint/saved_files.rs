//! What a revert replaces and deletes, stored beside the checkpoints before the first change: a tree of the files as they
//! are, below a ref of its own. A file that git does not take stays where it is.

use super::app_dir::{AppDir, has_content};
use super::git::{Git, GitError};
use super::record_tree::ADD;
use super::repository;
use super::revert_plan::{Plan, Target};
use super::tree::TreeEntryKind;
use super::verify;
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};

const SEED: [&str; 4] = ["update-index", "--add", "-z", "--index-info"];
const LIST: [&str; 4] = ["ls-files", "--cached", "--stage", "-z"];

pub struct SavedFiles<'a> {
    git: &'a Git,
    target: Target<'a>,
    since: &'a str,
    /// The ref of this revert.
    name: String,
    saved: BTreeSet<Vec<u8>>,
    commit: Option<String>,
}

impl<'a> SavedFiles<'a> {
    /// `git` works in the app directory.
    pub fn new(git: &'a Git, target: Target<'a>, since: &'a str) -> Self {
        let name = repository::saved_ref();
        Self { git, target, since, name, saved: BTreeSet::new(), commit: None }
    }

    /// The commit of what was saved so far.
    pub fn commit(&self) -> Option<&str> {
        self.commit.as_deref()
    }

    /// Saves the files that are about to be lost. One that was saved before changed while the revert ran, and what it was
    /// before that counts.
    pub fn save(&mut self, app: &mut AppDir, plan: &mut Plan) -> Result<(), GitError> {
        let unread = |error: Errno| GitError::io("read a file")(error.into());
        let names = plan.deleted.iter().chain(&plan.replaced).filter(|name| !self.saved.contains(*name));
        let mut wanted = Vec::new();
        for name in names {
            if app.stat(name).map_err(unread)?.as_ref().is_some_and(has_content) {
                app.make_readable(name).map_err(unread)?;
                wanted.push(name.clone());
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        if self.commit.is_none() {
            self.seed(plan)?;
        }
        self.git_run(
            &ADD,
            Some(&wanted.iter().flat_map(|name| [name, &b"\0"[..]].concat()).collect::<Vec<u8>>()),
        )?;
        let listed = self.git_run(&LIST, None)?;
        let stored: BTreeMap<&[u8], &str> = listed.split(|byte| *byte == 0).filter_map(entry).collect();
        let mut objects = Vec::new();
        for name in wanted {
            match stored.get(name.as_slice()) {
                Some(object) => {
                    objects.push(*object);
                    self.saved.insert(name);
                }
                None if app.stat(&name).map_err(unread)?.is_none() => {}
                None => plan.keep(&name),
            }
        }
        // Git does not write an object whose name is taken already.
        verify::objects(self.git, objects)?;
        let tree = self.git_run(&["write-tree", "--missing-ok"], None)?;
        let tree = super::git::object_name(tree)?;
        self.commit = Some(repository::keep_saved(self.git, &self.name, &tree, self.since)?);
        Ok(())
    }

    /// Files that are as in the checkpoint are part of the state before the revert, too.
    fn seed(&self, plan: &Plan) -> Result<(), GitError> {
        let mut list = Vec::new();
        let recorded = self.target.tree.files.iter().filter(|(name, _)| self.target.scope.contains(name));
        for (name, file) in recorded.filter(|(name, _)| plan.is_same(name)) {
            let mode = match file.kind {
                TreeEntryKind::Link => "120000",
                TreeEntryKind::File { executable: true } => "100755",
                TreeEntryKind::File { executable: false } => "100644",
            };
            list.extend(format!("{mode} {}\t", file.object).into_bytes());
            list.extend(name.iter().chain(b"\0"));
        }
        self.git_run(&SEED, Some(&list)).map(drop)
    }

    fn git_run(&self, arguments: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, GitError> {
        self.git.run_in(&self.git.work_tree, &repository::saved_index(self.git), arguments, input)
    }
}

impl Drop for SavedFiles<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(repository::saved_index(self.git));
    }
}

/// Parses `mode object stage TAB name`.
fn entry(line: &[u8]) -> Option<(&[u8], &str)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let object = std::str::from_utf8(&line[..tab]).ok()?.split(' ').nth(1)?;
    Some((&line[tab + 1..], object))
}
