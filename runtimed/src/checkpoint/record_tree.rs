//! Records the app directory as a git tree. Git decides which files count (`.gitignore` applies); this module
//! decides which of them are stored: files that are too large or unreadable are skipped, and repositories
//! within the app are plain files. Whatever is there and not in the tree is among the skipped paths.

use super::git::{Git, GitError, path};
use super::skipped::SkippedPaths;
use super::unreadable;
use crate::limits::{
    CHECKPOINT_DEPTH_MAX, CHECKPOINT_FILE_MAX_BYTES, CHECKPOINT_FILES_MAX, CHECKPOINT_NESTED_MAX,
};
use std::collections::{BTreeSet, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const LIST: [&str; 6] = ["ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard"];
const LIST_NESTED: [&str; 4] = ["ls-files", "-z", "--others", "--exclude-standard"];
const LIST_IGNORED: [&str; 6] =
    ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
const LIST_RECORDED: [&str; 3] = ["ls-files", "-z", "--cached"];
const REMOVE: [&str; 4] = ["update-index", "--force-remove", "-z", "--stdin"];
pub const ADD: [&str; 6] = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];

/// Records the directory as it is now; returns the tree, and what it skips.
pub fn record(git: &Git) -> Result<(String, SkippedPaths), GitError> {
    let mut sorted = PathLists::default();
    for name in candidates(git, &mut sorted.skipped)? {
        sorted.sort(&git.work_tree, name);
    }
    update(git, &REMOVE, &sorted.gone)?;
    update(git, &ADD, &sorted.present)?;
    if index_entries(git) > CHECKPOINT_FILES_MAX {
        return Err(GitError::TooMany { max: CHECKPOINT_FILES_MAX });
    }
    skip_unrecorded(git, &sorted.present, &mut sorted.skipped)?;
    Ok((git.object(&["write-tree"])?, sorted.skipped))
}

/// Every path that differs from the index.
fn candidates(git: &Git, skipped: &mut SkippedPaths) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let mut found = BTreeSet::new();
    let mut nested = Vec::new();
    let mut any_unreadable = false;
    let no_index = git.repository.join("no-index");
    let mut list = |directory: &Path, prefix: &[u8], nested: &mut Vec<Vec<u8>>| {
        let (how, index) =
            if prefix.is_empty() { (&LIST[..], git.index()) } else { (&LIST_NESTED[..], no_index.clone()) };
        let (names, warned) = git.run_with_warnings(directory, &index, how)?;
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = [prefix, name].concat();
            if name.ends_with(b"/") {
                nested.push(name);
            } else {
                found.insert(name);
            }
        }
        let (ignored, warned_again) = git.run_with_warnings(directory, &index, &LIST_IGNORED)?;
        skipped.add_ignored(prefix, &ignored);
        any_unreadable |= warned || warned_again;
        if !prefix.is_empty() {
            skipped.nested.insert(prefix.to_vec());
        }
        if found.len() > CHECKPOINT_FILES_MAX {
            return Err(GitError::TooMany { max: CHECKPOINT_FILES_MAX });
        }
        Ok(())
    };
    let mut skipped_directories = Vec::new();
    list(&git.work_tree, b"", &mut nested)?;
    for looked in 0.. {
        let Some(prefix) = nested.pop() else { break };
        if looked >= CHECKPOINT_NESTED_MAX {
            skipped_directories.push(prefix);
            continue;
        }
        match list(&git.work_tree.join(path(&prefix)), &prefix, &mut nested) {
            Ok(()) => {}
            Err(error @ GitError::TooMany { .. }) => return Err(error),
            // An unreadable directory is skipped like an unreadable file.
            Err(
                GitError::Missing
                | GitError::Failed { .. }
                | GitError::Io { .. }
                | GitError::Unexpected
                | GitError::Lost { .. },
            ) => skipped_directories.push(prefix),
        }
    }
    skipped.skipped.extend(skipped_directories);
    // Git names such a directory for people only.
    if any_unreadable {
        unreadable::add_to(skipped, &git.work_tree);
    }
    Ok(found)
}

/// Paths as git reads them, each followed by NUL.
#[derive(Default)]
struct PathLists {
    present: Vec<u8>,
    gone: Vec<u8>,
    skipped: SkippedPaths,
}

impl PathLists {
    fn sort(&mut self, work_tree: &Path, mut name: Vec<u8>) {
        let file = work_tree.join(path(&name));
        let list = match std::fs::symlink_metadata(&file) {
            Ok(meta) if can_be_stored(&file, &meta) && is_depth_allowed(&name) => &mut self.present,
            Ok(meta) if meta.is_dir() => &mut self.gone,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                &mut self.gone
            }
            // A file in a directory that cannot be searched is there all the same.
            Ok(_) | Err(_) => {
                self.skipped.skipped.insert(name.clone());
                &mut self.gone
            }
        };
        name.push(0);
        list.extend(name);
    }
}

fn is_depth_allowed(name: &[u8]) -> bool {
    name.iter().filter(|byte| **byte == b'/').count() < CHECKPOINT_DEPTH_MAX
}

fn can_be_stored(file: &Path, meta: &Metadata) -> bool {
    if meta.is_symlink() {
        return true;
    }
    // Without blocking: it may have become a FIFO since.
    let readable = || {
        OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW).open(file)
    };
    meta.is_file() && meta.len() <= CHECKPOINT_FILE_MAX_BYTES && readable().is_ok()
}

fn update(git: &Git, arguments: &[&str], names: &[u8]) -> Result<(), GitError> {
    if names.is_empty() { Ok(()) } else { git.run(arguments, Some(names)).map(drop) }
}

/// The number of files in the index: its first bytes are `DIRC`, a version and that number.
fn index_entries(git: &Git) -> usize {
    let mut head = [0; 12];
    let read = File::open(git.index()).and_then(|mut index| index.read_exact(&mut head));
    let count = head[8..].try_into().map_or(0, u32::from_be_bytes);
    read.map_or(0, |()| usize::try_from(count).unwrap_or(usize::MAX))
}

/// Git ignores some paths that it is given, such as `.GIT/x`, and succeeds.
fn skip_unrecorded(git: &Git, present: &[u8], skipped: &mut SkippedPaths) -> Result<(), GitError> {
    if present.is_empty() {
        return Ok(());
    }
    let recorded = git.run(&LIST_RECORDED, None)?;
    let recorded: HashSet<&[u8]> = recorded.split(|byte| *byte == 0).collect();
    let names = present.split(|byte| *byte == 0).filter(|name| !recorded.contains(name));
    skipped.skipped.extend(names.map(<[u8]>::to_vec));
    Ok(())
}
