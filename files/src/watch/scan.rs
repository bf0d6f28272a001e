//! Watches the directories of a tree, and reports what is in new ones.
//!
//! A directory is watched before it is read: what is created meanwhile is seen by one or by both.

use super::watcher::{Missed, NotOpened, Watched, Watcher};
use crate::{
    Exchange, FilesError,
    deadline::Deadline,
    directory::{open_below, stat_below},
    entry::type_of,
    temporary::is_temporary,
    workspace::child_path,
};
use nix::{
    dir::{Dir, Entry, Type},
    sys::inotify::WatchDescriptor,
};
use protocol::files::{FileChangeKind, FilePath, FileType};
use std::os::fd::OwnedFd;

/// Whether a scan reports what it finds as created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    Created,
    Nothing,
}

impl Watcher<'_> {
    /// Watches everything below a watched directory.
    pub fn scan(
        &mut self,
        exchange: &mut dyn Exchange,
        first: WatchDescriptor,
        report: Report,
    ) -> Result<(), FilesError> {
        if !self.recursive && report == Report::Nothing {
            return Ok(());
        }
        let mut deadline = Deadline::of_tree();
        let mut pending = vec![first];
        while let Some(key) = pending.pop() {
            match self.open(key) {
                Ok(directory) => {
                    let path = self.tree.path(key).unwrap_or_default();
                    let path = child_path(&self.top, &path);
                    let read = open_below(&directory, c".", &path)
                        .and_then(|own| Dir::from_fd(own).map_err(FilesError::at("read", &path)));
                    let Ok(entries) = read else { continue };
                    for entry in entries.into_iter().flatten() {
                        deadline.check(exchange)?;
                        pending.extend(self.found(key, &directory, &entry, (&path, report)));
                        self.send_if_full(exchange)?;
                    }
                }
                Err(NotOpened::Elsewhere) => self.missed.push(Missed::Content(key)),
                Err(NotOpened::Unreadable) => {}
            }
        }
        Ok(())
    }

    /// An entry of a scanned directory; returns a directory to scan.
    fn found(
        &mut self,
        key: WatchDescriptor,
        directory: &OwnedFd,
        entry: &Entry,
        (path, report): (&FilePath, Report),
    ) -> Option<WatchDescriptor> {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") || is_temporary(name.to_bytes()) {
            return None;
        }
        let is_directory = match entry.file_type() {
            Some(kind) => kind == Type::Directory,
            // Not every file system says.
            None => type_of(&stat_below(directory, name)?) == FileType::Directory,
        };
        if report == Report::Created {
            let path = child_path(path, name.to_bytes());
            self.batch.push(FileChangeKind::Created, path, is_directory);
        }
        if !is_directory || !self.recursive {
            return None;
        }
        match self.watch_below(key, directory, name) {
            Watched::New(child) => Some(child),
            Watched::Known | Watched::Absent => None,
        }
    }

    /// Tries again to open directories that were not where they had been; those that still are not stay in the list.
    pub fn retry_missed(&mut self, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
        for missed in std::mem::take(&mut self.missed) {
            match missed {
                Missed::Content(key) if self.tree.contains(key) => {
                    self.scan(exchange, key, Report::Created)?;
                }
                Missed::Child(parent, name) if self.tree.contains(parent) => {
                    self.look_at(exchange, parent, &name)?;
                }
                // Gone meanwhile.
                Missed::Content(_) | Missed::Child(..) => {}
            }
        }
        Ok(())
    }
}
