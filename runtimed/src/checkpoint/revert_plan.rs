//! The difference between the app directory and a checkpoint: which files are restored, which were added since and are
//! deleted, and which are kept because they could not be brought back. The content of every file is compared, and no index
//! is asked: one that the agent wrote could hide a change.

use super::added_since::{self, AddedSince};
use super::app_dir::{AppDir, Parent, has_content, is_own, kind};
use super::git::{Git, GitError};
use super::tree::{CheckpointTree, TreeEntryKind, TreeFile};
use super::verify::ObjectHash;
use crate::limits::CHECKPOINT_FILE_MAX_BYTES;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;

const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// With the permissions of the file in its place, if there is one.
    pub restored: BTreeMap<Vec<u8>, Option<u32>>,
    pub deleted: BTreeSet<Vec<u8>>,
    /// Files that are not as in the checkpoint and stay.
    pub kept: BTreeSet<Vec<u8>>,
    /// Those of the restored ones whose present content is lost unless it is saved.
    pub replaced: BTreeSet<Vec<u8>>,
    /// Files of the checkpoint that a kept one is in the place of.
    pub blocked: BTreeSet<Vec<u8>>,
    /// Files that the checkpoint skipped and that are missing now.
    pub missing: u64,
}

impl Plan {
    pub fn is_empty(&self) -> bool {
        self.restored.is_empty() && self.deleted.is_empty()
    }

    /// Files from before the task that are not there and cannot be restored.
    pub fn not_restored(&self) -> u64 {
        self.blocked.len() as u64 + self.missing
    }

    /// Whether a file of the checkpoint is as it was then.
    pub fn is_same(&self, name: &[u8]) -> bool {
        !self.restored.contains_key(name) && !self.kept.contains(name) && !self.blocked.contains(name)
    }

    /// Leaves a file as it is.
    pub fn keep(&mut self, name: &[u8]) {
        self.restored.remove(name);
        self.replaced.remove(name);
        self.deleted.remove(name);
        self.kept.insert(name.to_vec());
    }
}

/// A path that is asked for, or all.
#[derive(Clone, Copy)]
pub struct Scope<'a>(pub Option<&'a [u8]>);

impl Scope<'_> {
    pub fn contains(self, name: &[u8]) -> bool {
        self.0.is_none_or(|path| {
            name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        })
    }

    /// Whether a directory is in the scope, or above it.
    pub fn reaches(self, directory: &[u8]) -> bool {
        let is_above = |path: &[u8]| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"));
        directory.is_empty() || self.contains(directory) || self.0.is_some_and(is_above)
    }
}

/// The checkpoint, and how it is restored.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub tree: &'a CheckpointTree,
    pub scope: Scope<'a>,
    /// Whether files are replaced and deleted that were not saved.
    pub discard: bool,
}

/// Compares; `None` where the scope names nothing that is recorded or was added since.
pub fn compare(git: &Git, app: &mut AppDir, target: Target<'_>) -> Result<Option<Plan>, GitError> {
    let Target { tree, scope, .. } = target;
    let added = added_since::find(git, app, tree, scope)?;
    let mut compared = Comparison { app, target, plan: Plan::default() };
    let failed = |name: &[u8]| {
        let name = String::from_utf8_lossy(name).into_owned();
        move |error: Errno| GitError::io(format!("compare {name:?}"))(error.into())
    };
    compared.added(added).map_err(failed(b"."))?;
    let mut known = scope.0.is_none() || !compared.plan.deleted.is_empty() || !compared.plan.kept.is_empty();
    for (name, file) in tree.files.iter().filter(|(name, _)| scope.contains(name)) {
        known = true;
        compared.recorded(name, file).map_err(failed(name))?;
    }
    compared.count_missing().map_err(failed(b"."))?;
    Ok(known.then_some(compared.plan))
}

/// The plan where there is no app directory at all.
pub fn restore_all(target: Target<'_>) -> Option<Plan> {
    let Target { tree, scope, .. } = target;
    let names = tree.files.keys().filter(|name| scope.contains(name));
    let restored: BTreeMap<_, _> = names.map(|name| (name.clone(), None)).collect();
    let missing = skipped_files(target).count() as u64;
    let known = scope.0.is_none() || !restored.is_empty();
    known.then_some(Plan { restored, missing, ..Plan::default() })
}

fn skipped_files(target: Target<'_>) -> impl Iterator<Item = &Vec<u8>> {
    let skipped = target.tree.skipped.iter().flat_map(|skipped| &skipped.skipped);
    skipped.filter(move |name| target.scope.contains(name))
}

struct Comparison<'a> {
    app: &'a mut AppDir,
    target: Target<'a>,
    plan: Plan,
}

impl Comparison<'_> {
    fn added(&mut self, added: AddedSince) -> Result<(), Errno> {
        let Target { tree, discard, .. } = self.target;
        for name in added.files {
            let is_below_file = tree.is_below_file(&name);
            let Some(stat) = self.app.stat(&name)? else { continue };
            // The checkpoint of an older runtimed does not tell what it skipped, but this one would be among it.
            let may_be_older = tree.skipped.is_none() && !self.could_be_recorded(&name, &stat)?;
            let stays = tree.is_incomplete() || may_be_older;
            if stays && !is_below_file || !discard && !self.can_be_saved(&name, &stat)? {
                self.plan.kept.insert(name);
            } else {
                self.plan.deleted.insert(name);
            }
        }
        let is_known = |name: &Vec<u8>| tree.had_directory(name) || discard && tree.is_below_file(name);
        self.plan.kept.extend(added.out_of_reach.into_iter().filter(|name| !is_known(name)));
        // What is in a closed directory is known once it is open.
        self.plan.deleted.extend(added.closed.into_iter().filter(|name| !tree.has_files_below(name)));
        Ok(())
    }

    fn recorded(&mut self, name: &[u8], file: &TreeFile) -> Result<(), Errno> {
        let discard = self.target.discard;
        if let Parent::NotADirectory(at) = self.app.parent(name)? {
            let is_lost = match self.app.stat(&at)? {
                Some(stat) => !discard && !self.can_be_saved(&at, &stat)?,
                None => false,
            };
            if is_lost {
                self.plan.keep(&at);
                self.plan.blocked.insert(name.to_vec());
                return Ok(());
            }
            self.plan.kept.remove(&at);
            self.plan.deleted.insert(at);
        }
        let within = [name, b"/"].concat();
        let mut kept_below = self.plan.kept.range(within.clone()..);
        if kept_below.next().is_some_and(|kept| kept.starts_with(&within)) {
            self.plan.blocked.insert(name.to_vec());
            return Ok(());
        }
        if is_same(self.app, name, file)? {
            return Ok(());
        }
        let stat = self.app.stat(name)?;
        if let Some(stat) = stat.filter(has_content) {
            if !discard && !self.can_be_saved(name, &stat)? {
                self.plan.kept.insert(name.to_vec());
                return Ok(());
            }
            self.plan.replaced.insert(name.to_vec());
        }
        // A file that its owner cannot read was recorded with other permissions.
        let readable = stat.filter(|stat| kind(stat) == SFlag::S_IFREG && stat.st_mode & 0o400 != 0);
        self.plan.restored.insert(name.to_vec(), readable.map(|stat| stat.st_mode & 0o777));
        Ok(())
    }

    fn count_missing(&mut self) -> Result<(), Errno> {
        for name in skipped_files(self.target) {
            let name = name.strip_suffix(b"/").unwrap_or(name);
            self.plan.missing += u64::from(self.app.stat(name)?.is_none());
        }
        Ok(())
    }

    fn could_be_recorded(&mut self, name: &[u8], stat: &FileStat) -> Result<bool, Errno> {
        Ok(kind(stat) == SFlag::S_IFLNK || !is_too_large(stat.st_size) && self.app.open_file(name)?.is_some())
    }

    /// Whether the content of a file can be stored before it is replaced or deleted.
    fn can_be_saved(&mut self, name: &[u8], stat: &FileStat) -> Result<bool, Errno> {
        if !has_content(stat) {
            return Ok(true);
        }
        let is_link = kind(stat) == SFlag::S_IFLNK;
        if is_refused_by_git(name, is_link) {
            return Ok(false);
        }
        let is_readable = is_link || is_own(stat) || self.app.open_file(name)?.is_some();
        Ok(is_readable && (is_link || !is_too_large(stat.st_size)))
    }
}

/// Git stores nothing with such a name.
fn is_refused_by_git(name: &[u8], is_link: bool) -> bool {
    name.split(|byte| *byte == b'/').any(|part| {
        part.eq_ignore_ascii_case(b".git") || is_link && part.eq_ignore_ascii_case(b".gitmodules")
    })
}

fn is_too_large(bytes: i64) -> bool {
    u64::try_from(bytes).is_ok_and(|bytes| bytes > CHECKPOINT_FILE_MAX_BYTES)
}

fn is_same(app: &mut AppDir, name: &[u8], file: &TreeFile) -> Result<bool, Errno> {
    match file.kind {
        TreeEntryKind::Link => Ok(app.read_link(name).is_some_and(|target| {
            let mut hash = ObjectHash::new("blob", target.len() as u64);
            hash.update(&target);
            hash.name() == file.object
        })),
        TreeEntryKind::File { executable } => Ok(app.open_file(name)?.is_some_and(|(opened, stat)| {
            let same_mode = (stat.st_mode & 0o100 != 0) == executable;
            same_mode
                && !is_too_large(stat.st_size)
                && hash_of(opened, stat.st_size).as_ref() == Some(&file.object)
        })),
    }
}

/// The object name of a file; none where it changes meanwhile.
fn hash_of(file: File, bytes: i64) -> Option<String> {
    let bytes = u64::try_from(bytes).ok()?;
    let mut hash = ObjectHash::new("blob", bytes);
    let mut piece = vec![0; PIECE_BYTES.min(bytes as usize + 1)];
    let mut file = file.take(bytes + 1);
    let mut total = 0;
    loop {
        match file.read(&mut piece).ok()? {
            0 => return (total == bytes).then(|| hash.name()),
            read => {
                hash.update(&piece[..read]);
                total += read as u64;
            }
        }
    }
}
