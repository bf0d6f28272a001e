//! Copies the content of a directory into another, beside what is there: dotfiles into a home directory. Nothing is
//! lost: what is in the way of a file, or a link in the way of a directory, is kept under another name. No link is
//! followed. Repeating it changes nothing more.

use crate::{
    Exchange, FilesError, Workspace,
    copy::{Copier, is_below, open_visited},
    deadline::Deadline,
    entry::stat,
    limits::{CHUNK_BYTES, COPY_MAX_ENTRIES, INSTALL_KEPT_MAX, INSTALL_NAME_TRIES},
    mkdir,
    walk::{Visited, Walk, WalkOptions},
    workspace::{child_path, reopen},
};
use nix::fcntl::OFlag;
use protocol::files::{FileEntry, FilePath, FileType, InstallReport, Selection};
use rustix::fs::{RenameFlags, renameat_with};
use std::{fs::File, io::Read, os::fd::OwnedFd};

/// The end of the name of a file that was in the way.
const KEPT_SUFFIX: &str = ".before-dotfiles";
/// The app directory is never renamed, nor a directory that holds it: it may be mounted, and processes work in it.
const APP_DIR: &[u8] = b"workspace/app";
/// The history of a repository is no dotfile.
const LEFT_OUT: &str = ".git";

pub fn install(
    workspace: &Workspace,
    exchange: &dyn Exchange,
    from: &FilePath,
    to: &FilePath,
) -> Result<InstallReport, FilesError> {
    if is_below(to, from) {
        return Err(FilesError::invalid("a directory cannot be installed into itself"));
    }
    mkdir::mkdir(workspace, to, None)?;
    let select = Selection { exclude: vec![LEFT_OUT.to_owned()], ..Selection::default() };
    let options = WalkOptions { depth: u32::MAX, select: &select, after: None, wanted: usize::MAX };
    let mut walk = Walk::new(workspace, from, &options)?;
    let prefix = child_path(from, b"").0.len();
    let copier = Copier { exchange, deadline: Deadline::of_tree() };
    let mut installer = Installer { workspace, copier, report: InstallReport::default() };
    let mut visits = 0;
    while let Some(visited) = walk.next(exchange)? {
        visits += 1;
        if visits > COPY_MAX_ENTRIES {
            let message = format!("the tree has more than {COPY_MAX_ENTRIES} entries");
            return Err(FilesError::TooMany { message });
        }
        let target = child_path(to, &visited.entry.path.0[prefix..]);
        // The files themselves are not replaced by what they hold.
        if is_below(&target, from) || is_below(from, &target) && visited.entry.kind != FileType::Directory {
            continue;
        }
        installer.install(&visited, &target)?;
    }
    Ok(installer.report)
}

struct Installer<'a> {
    workspace: &'a Workspace,
    copier: Copier<'a>,
    report: InstallReport,
}

impl Installer<'_> {
    fn install(&mut self, visited: &Visited<'_>, target: &FilePath) -> Result<(), FilesError> {
        let there = match stat(self.workspace, target, false) {
            Ok(entry) => Some(entry),
            Err(FilesError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        match visited.entry.kind {
            FileType::Directory => {
                match there.map(|entry| entry.kind) {
                    Some(FileType::Directory) => return Ok(()),
                    Some(_) => self.keep(target)?,
                    None => {}
                }
                mkdir::mkdir(self.workspace, target, Some(visited.entry.mode)).map(drop)
            }
            FileType::File | FileType::Symlink => {
                let Some(found) = open_visited(visited)? else { return Ok(()) };
                if let Some(there) = there {
                    if self.is_same(&found, &visited.entry, &there, target)? {
                        return Ok(());
                    }
                    self.keep(target)?;
                }
                self.copier.copy(&found, &visited.entry, &self.workspace.slot(target)?, false)?;
                self.report.files += 1;
                Ok(())
            }
            FileType::Fifo | FileType::Socket | FileType::Device => Ok(()),
        }
    }

    /// Whether two entries have the same content.
    fn is_same(
        &self,
        found: &OwnedFd,
        entry: &FileEntry,
        there: &FileEntry,
        target: &FilePath,
    ) -> Result<bool, FilesError> {
        if entry.kind != there.kind || entry.target != there.target || entry.size != there.size {
            return Ok(false);
        }
        if entry.kind == FileType::Symlink {
            return Ok(true);
        }
        let (new, _) = reopen(found, &entry.path, OFlag::O_RDONLY)?;
        let (old, _) = reopen(&self.workspace.open_path(target, false)?, target, OFlag::O_RDONLY)?;
        let same = have_same_bytes(new, old);
        same.map_err(FilesError::io_at("compare the files", target))
    }

    /// Renames what is in the way to the first free name.
    fn keep(&mut self, target: &FilePath) -> Result<(), FilesError> {
        if is_below(&FilePath(APP_DIR.to_vec()), target) {
            let name = String::from_utf8_lossy(&target.0);
            let message =
                format!("{name} would replace the app directory: rename it, or put a directory there");
            return Err(FilesError::Invalid { message });
        }
        let source = self.workspace.slot(target)?;
        for number in 1..=INSTALL_NAME_TRIES {
            let suffix = if number == 1 { KEPT_SUFFIX.to_owned() } else { format!("{KEPT_SUFFIX}.{number}") };
            let kept = FilePath([&target.0, suffix.as_bytes()].concat());
            let slot = self.workspace.slot(&kept)?;
            let (from, to) = (source.name.as_c_str(), slot.name.as_c_str());
            match renameat_with(&source.parent, from, &slot.parent, to, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.report.kept_count += 1;
                    if self.report.kept.len() < INSTALL_KEPT_MAX {
                        self.report.kept.push(kept);
                    }
                    return Ok(());
                }
                Err(rustix::io::Errno::EXIST) => {}
                Err(errno) => return Err(FilesError::io_at("keep the file", target)(errno.into())),
            }
        }
        Err(FilesError::Exists { path: target.clone() })
    }
}

fn have_same_bytes(mut one: File, mut other: File) -> std::io::Result<bool> {
    let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let count = one.read(&mut left)?;
        let mut read = 0;
        while read < count.max(1) {
            match other.read(&mut right[read..count.max(1)])? {
                0 => break,
                more => read += more,
            }
        }
        if read != count || left[..count] != right[..count] {
            return Ok(false);
        }
        if count == 0 {
            return Ok(true);
        }
    }
}
