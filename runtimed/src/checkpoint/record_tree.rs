//! Records the app directory as a git tree. Git decides which files count (`.gitignore` applies); this module
//! decides which of them are stored: files that are too large or unreadable are skipped, and repositories
//! within the app are plain files.

use super::git::{Git, GitError, path};
use crate::limits::{CHECKPOINT_FILE_MAX_BYTES, CHECKPOINT_FILES_MAX, CHECKPOINT_NESTED_MAX};
use std::collections::BTreeSet;
use std::fs::{Metadata, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const LIST: [&str; 6] = ["ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard"];
const LIST_NESTED: [&str; 4] = ["ls-files", "-z", "--others", "--exclude-standard"];
const REMOVE: [&str; 4] = ["update-index", "--force-remove", "-z", "--stdin"];
const ADD: [&str; 6] = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];

/// Records the directory as it is now; returns the tree, and how many files were skipped.
pub fn record(git: &Git) -> Result<(String, u64), GitError> {
    let mut sorted = PathLists::default();
    for name in candidates(git)? {
        sorted.sort(&git.work_tree, name);
    }
    update(git, &REMOVE, "remove", &sorted.gone)?;
    update(git, &ADD, "add", &sorted.present)?;
    Ok((git.object(&["write-tree"])?, sorted.skipped))
}

/// Every path that differs from the index.
fn candidates(git: &Git) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let mut found = BTreeSet::new();
    let mut nested = Vec::new();
    let sort = |names: &[u8], prefix: &[u8], found: &mut BTreeSet<Vec<u8>>, nested: &mut Vec<Vec<u8>>| {
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = [prefix, name].concat();
            if name.ends_with(b"/") {
                nested.push(name);
            } else {
                found.insert(name);
            }
        }
    };
    sort(&git.run(&LIST, None)?, b"", &mut found, &mut nested);
    let no_index = git.repository.join("no-index");
    for looked in 0.. {
        let Some(prefix) = nested.pop().filter(|_| looked < CHECKPOINT_NESTED_MAX) else { break };
        let directory = git.work_tree.join(path(&prefix));
        // An unreadable directory is skipped like an unreadable file.
        if let Ok(names) = git.run_in(&directory, &no_index, &LIST_NESTED, None) {
            sort(&names, &prefix, &mut found, &mut nested);
        }
        if found.len() > CHECKPOINT_FILES_MAX {
            break;
        }
    }
    if found.len() > CHECKPOINT_FILES_MAX {
        return Err(GitError::TooMany { max: CHECKPOINT_FILES_MAX });
    }
    Ok(found)
}

/// Paths as git reads them, each followed by NUL.
#[derive(Default)]
struct PathLists {
    present: Vec<u8>,
    gone: Vec<u8>,
    skipped: u64,
}

impl PathLists {
    fn sort(&mut self, work_tree: &Path, mut name: Vec<u8>) {
        let file = work_tree.join(path(&name));
        name.push(0);
        match std::fs::symlink_metadata(&file) {
            Ok(meta) if can_be_stored(&file, &meta) => self.present.extend(name),
            Ok(meta) => {
                self.skipped += u64::from(!meta.is_dir());
                self.gone.extend(name);
            }
            Err(_) => self.gone.extend(name),
        }
    }
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

fn update(git: &Git, arguments: &[&str], list: &str, names: &[u8]) -> Result<(), GitError> {
    if names.is_empty() {
        return Ok(());
    }
    let file = git.write_list(list, names)?;
    let updated = git.run(arguments, Some(&file)).map(drop);
    let _ = std::fs::remove_file(file);
    updated
}
