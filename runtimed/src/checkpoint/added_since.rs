//! Every file and link below the app directory that was added since the checkpoint. The directories are walked level by
//! level: git is asked once for each level what is ignored, and ignored directories are not entered.
//!
//! Whatever is named `.git` is no file for git.

use super::app_dir::{AppDir, split};
use super::git::{Git, GitError};
use super::ignored::{Candidate, GitignoreDir, is_rule};
use super::repository;
use super::revert_plan::Scope;
use super::tree::CheckpointTree;
use crate::limits::{CHECKPOINT_DEPTH_MAX, REVERT_PATH_MAX_BYTES, REVERT_WALK_MAX_ENTRIES};
use nix::errno::Errno;
use nix::sys::stat::SFlag;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, Default)]
pub struct AddedSince {
    pub files: BTreeSet<Vec<u8>>,
    /// Files and directories of which nothing more can be known: closed, nested too deeply, or with too long a name.
    pub out_of_reach: BTreeSet<Vec<u8>>,
    /// Closed directories that a revert that is no dry run opens.
    pub closed: BTreeSet<Vec<u8>>,
}

/// Finds them. Where there is no space for the rules beside the app, they are applied in memory.
pub fn find(
    git: &Git,
    app: &mut AppDir,
    tree: &CheckpointTree,
    scope: Scope<'_>,
) -> Result<AddedSince, GitError> {
    let in_memory = PathBuf::from(format!("/dev/shm/slipway-rules-{}", std::process::id()));
    let found = find_with(git, app, tree, scope, repository::rules(git));
    match found {
        Err(error) if error.is_no_space() => find_with(git, app, tree, scope, in_memory),
        found => found,
    }
}

fn find_with(
    git: &Git,
    app: &mut AppDir,
    tree: &CheckpointTree,
    scope: Scope<'_>,
    rules: PathBuf,
) -> Result<AddedSince, GitError> {
    let rules = GitignoreDir::create(git, tree, scope, rules)?;
    let mut walk = Walk { app, tree, scope, rules, found: AddedSince::default(), looked: 0 };
    let mut level = vec![Vec::new()];
    for _ in 0..=CHECKPOINT_DEPTH_MAX {
        if level.is_empty() {
            return Ok(walk.found);
        }
        level = walk.level(&level)?;
    }
    // Their content is not looked at.
    walk.found.out_of_reach.extend(level.into_iter().filter(|name| scope.contains(name)));
    Ok(walk.found)
}

struct Walk<'a> {
    app: &'a mut AppDir,
    tree: &'a CheckpointTree,
    scope: Scope<'a>,
    rules: GitignoreDir<'a>,
    found: AddedSince,
    looked: usize,
}

impl Walk<'_> {
    /// Looks at the entries of directories; returns the directories among them.
    fn level(&mut self, directories: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, GitError> {
        let mut candidates = Vec::new();
        let mut next = Vec::new();
        // Rules on disk that the checkpoint has not recorded.
        let mut unrecorded_rules = BTreeSet::new();
        for directory in directories {
            let is_below_file = self.tree.is_below_file(&[directory, &b"/x"[..]].concat());
            for (name, sort) in self.entries(directory)? {
                let is_directory = sort == SFlag::S_IFDIR;
                let is_file = matches!(sort, SFlag::S_IFREG | SFlag::S_IFLNK);
                let is_recorded = is_file && self.tree.files.contains_key(&name);
                if is_recorded || !is_file && !is_directory {
                    continue;
                }
                if is_below_file {
                    self.below_file(name, is_directory, &mut next);
                    continue;
                }
                if sort == SFlag::S_IFREG && is_rule(&name) {
                    self.rules.add(self.app, &name)?;
                    unrecorded_rules.insert(name.clone());
                }
                let own = [&name[..], if is_directory { b"/" } else { b"" }].concat();
                let is_wanted = self.scope.reaches(&name) || is_file && is_rule(&name);
                if is_wanted && split(&name).1 != b".git" && !self.tree.skips(&own) && self.is_in_reach(&name)
                {
                    candidates.push(Candidate { name, is_directory });
                }
            }
        }
        let ignored = self.ignored(&candidates, unrecorded_rules)?;
        for Candidate { name, is_directory } in candidates {
            if ignored.contains(&name) {
                continue;
            }
            if is_directory {
                next.push(name);
            } else if self.scope.contains(&name) {
                self.found.files.insert(name);
            }
        }
        Ok(next)
    }

    /// What is below a file of the checkpoint was added, whatever the rules say, also a repository.
    fn below_file(&mut self, name: Vec<u8>, is_directory: bool, next: &mut Vec<Vec<u8>>) {
        if split(&name).1 == b".git" {
            self.found.out_of_reach.insert(name);
        } else if !self.is_in_reach(&name) || !self.scope.reaches(&name) {
        } else if is_directory {
            next.push(name);
        } else {
            self.found.files.insert(name);
        }
    }

    /// Rules that are not ignored themselves are deleted by the revert, and so ignore nothing.
    fn ignored(
        &self,
        candidates: &[Candidate],
        mut unrecorded_rules: BTreeSet<Vec<u8>>,
    ) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let ignored = self.rules.ignored_paths(candidates)?;
        unrecorded_rules.retain(|name| !ignored.contains(name) && !self.tree.skips(name));
        if unrecorded_rules.is_empty() {
            return Ok(ignored);
        }
        unrecorded_rules.iter().for_each(|name| self.rules.remove(name));
        self.rules.ignored_paths(candidates)
    }

    /// A path that git could not be asked about is neither deleted nor entered.
    fn is_in_reach(&mut self, name: &[u8]) -> bool {
        let in_reach = name.len() < REVERT_PATH_MAX_BYTES - self.rules.longest_prefix_bytes();
        if !in_reach && self.scope.contains(name) {
            self.found.out_of_reach.insert(name.to_vec());
        }
        in_reach
    }

    fn entries(&mut self, directory: &[u8]) -> Result<Vec<(Vec<u8>, SFlag)>, GitError> {
        let entries = match self.app.entries(directory) {
            Ok(entries) => entries,
            Err(Errno::EACCES) if !directory.is_empty() => {
                if self.app.could_open(directory) {
                    self.found.closed.insert(directory.to_vec());
                } else {
                    self.found.out_of_reach.insert(directory.to_vec());
                }
                return Ok(Vec::new());
            }
            Err(error) => {
                let name = String::from_utf8_lossy(directory).into_owned();
                return Err(GitError::io(format!("read the directory {name:?}"))(error.into()));
            }
        };
        self.looked += entries.len();
        if self.looked > REVERT_WALK_MAX_ENTRIES {
            return Err(GitError::TooMany { max: REVERT_WALK_MAX_ENTRIES });
        }
        let prefix = if directory.is_empty() { Vec::new() } else { [directory, b"/"].concat() };
        Ok(entries.into_iter().map(|(own, sort)| ([&prefix[..], &own].concat(), sort)).collect())
    }
}
