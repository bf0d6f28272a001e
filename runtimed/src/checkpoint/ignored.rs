//! Which paths the rules of a checkpoint ignore. A task may have changed `.gitignore`: what was ignored before it is left
//! alone, and what only the task's own rules ignore was added like any other file.
//!
//! Git itself applies the rules, in a directory beside the app that has nothing but the rules of the checkpoint, and those
//! rules on disk that are themselves ignored and so are in no checkpoint.

use super::app_dir::{AppDir, ends, split};
use super::git::{Git, GitError, path};
use super::revert_plan::Scope;
use super::tree::{CheckpointTree, TreeEntryKind};
use super::verify;
use crate::limits::CHECKPOINT_FILE_MAX_BYTES;
use nix::errno::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::PathBuf;

const RULES: &[u8] = b".gitignore";
const CHECK: [&str; 4] = ["check-ignore", "--no-index", "-z", "--stdin"];

/// Room for the app directory or that of the rules in an absolute path.
const PREFIX_ROOM_BYTES: usize = 128;

/// A path that the rules are applied to.
pub struct Candidate {
    pub name: Vec<u8>,
    pub is_directory: bool,
}

/// A directory with nothing but `.gitignore` files.
pub struct GitignoreDir<'a> {
    git: &'a Git,
    tree: &'a CheckpointTree,
    root: PathBuf,
}

pub fn is_rule(name: &[u8]) -> bool {
    split(name).1 == RULES
}

impl<'a> GitignoreDir<'a> {
    /// Makes the directory, with the rules of the checkpoint that matter for the scope.
    pub fn create(
        git: &'a Git,
        tree: &'a CheckpointTree,
        scope: Scope<'_>,
        root: PathBuf,
    ) -> Result<Self, GitError> {
        let rules = Self { git, tree, root };
        rules.clear();
        std::fs::create_dir(&rules.root).map_err(GitError::io("make a directory for rules"))?;
        let recorded = tree.files.iter().filter(|(name, file)| {
            is_rule(name) && file.kind != TreeEntryKind::Link && scope.reaches(split(name).0)
        });
        let (names, objects): (Vec<_>, Vec<_>) =
            recorded.map(|(name, file)| (name, file.object.as_str())).unzip();
        verify::read(git, &objects, |_| Ok(Vec::new()), |at, content| rules.write(names[at], &content))?;
        Ok(rules)
    }

    /// Adds the rules of a file on disk.
    pub fn add(&self, app: &mut AppDir, name: &[u8]) -> Result<(), GitError> {
        let unread = || GitError::io("read a .gitignore");
        let Some((file, _)) = app.open_file(name).map_err(|error| unread()(error.into()))? else {
            return Ok(());
        };
        let mut content = Vec::new();
        file.take(CHECKPOINT_FILE_MAX_BYTES).read_to_end(&mut content).map_err(unread())?;
        self.write(name, &content)
    }

    pub fn remove(&self, name: &[u8]) {
        let _ = std::fs::remove_file(self.root.join(path(name)));
    }

    /// Returns those of the candidates that are ignored, given that no directory above them is. The rules of a directory
    /// do not reach into a repository within it, as the checkpoint did not let them.
    pub fn ignored_paths(&self, candidates: &[Candidate]) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let mut lists: BTreeMap<&[u8], Vec<u8>> = BTreeMap::new();
        for candidate in candidates {
            let prefix = &candidate.name[..self.boundary(&candidate.name)];
            // A name that begins with `:` would mean something else.
            let list = lists.entry(prefix).or_default();
            list.extend([b"./", &candidate.name[prefix.len()..], b"\0"].concat());
        }
        // Some rules are for directories only, so git has to see that it is one.
        let directories = || candidates.iter().filter(|candidate| candidate.is_directory);
        for directory in directories() {
            self.make_directory(&directory.name)?;
        }
        let mut ignored = BTreeSet::new();
        for (prefix, list) in lists {
            self.make_directory(prefix)?;
            let root = self.root.join(path(prefix));
            let no_index = self.git.repository.join("no-index");
            let printed = self.git.run_or_none(&root, &no_index, &CHECK, Some(&list))?;
            let names = printed.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"./"));
            ignored.extend(names.map(|name| [prefix, name].concat()));
        }
        for directory in directories() {
            // One that has rules stays.
            let _ = std::fs::remove_dir(self.root.join(path(&directory.name)));
        }
        Ok(ignored)
    }

    /// What git puts before a path that it is asked about, at most.
    pub fn longest_prefix_bytes(&self) -> usize {
        PREFIX_ROOM_BYTES.max(self.root.as_os_str().len() + 1)
    }

    /// The length of the innermost repository that a path is in.
    fn boundary(&self, name: &[u8]) -> usize {
        let nested = self.tree.skipped.as_ref().map(|skipped| &skipped.nested);
        let directories = ends(name).filter(|end| *end < name.len()).map(|end| end + 1);
        let inside = directories.filter(|end| nested.is_some_and(|nested| nested.contains(&name[..*end])));
        inside.max().unwrap_or(0)
    }

    fn make_directory(&self, name: &[u8]) -> Result<(), GitError> {
        tolerant(std::fs::create_dir_all(self.root.join(path(name))))
            .map_err(GitError::io("make a directory for rules"))
    }

    fn write(&self, name: &[u8], content: &[u8]) -> Result<(), GitError> {
        let file = self.root.join(path(name));
        let write = || {
            file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(&file, content)
        };
        tolerant(write()).map_err(GitError::io("write rules"))
    }

    fn clear(&self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

impl Drop for GitignoreDir<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A path that is too long for git, or beside one of another kind, has no rules.
fn tolerant(written: io::Result<()>) -> io::Result<()> {
    let errno = written.as_ref().err().and_then(io::Error::raw_os_error).map(Errno::from_raw);
    match errno {
        Some(Errno::ENAMETOOLONG | Errno::ENOTDIR | Errno::EISDIR | Errno::EEXIST) => Ok(()),
        Some(_) | None => written,
    }
}
