//! What an event of the kernel means for the tree and the batch.

use super::{
    batch::Half,
    scan::Report,
    watcher::{Missed, NotOpened, Watched, Watcher},
};
use crate::{Exchange, FilesError, directory::stat_below, temporary::is_temporary, workspace::child_path};
use nix::sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor};
use protocol::files::{FileChangeKind, FilePath};
use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStringExt,
};

/// A change of a name in a watched directory.
struct Change {
    parent: WatchDescriptor,
    name: CString,
    path: FilePath,
    directory: bool,
    /// A temporary name of ours: not reported.
    temporary: bool,
}

impl Watcher<'_> {
    pub fn handle(&mut self, exchange: &mut dyn Exchange, event: InotifyEvent) -> Result<(), FilesError> {
        let mask = event.mask;
        if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.overflow = Some("changes came faster than they were read");
            return Ok(());
        }
        if event.wd == self.tree.top() {
            self.check_top(mask);
        }
        if mask.contains(AddWatchFlags::IN_IGNORED) {
            self.remove(event.wd);
            return Ok(());
        }
        let Some(name) = event.name.and_then(|name| CString::new(name.into_vec()).ok()) else {
            return Ok(());
        };
        let Some(path) = self.tree.path(event.wd) else {
            self.changed_in_move |= self.tree.contains(event.wd);
            return Ok(());
        };
        let change = Change {
            parent: event.wd,
            path: child_path(&child_path(&self.top, &path), name.to_bytes()),
            directory: mask.contains(AddWatchFlags::IN_ISDIR),
            temporary: is_temporary(name.to_bytes()),
            name,
        };
        if mask.contains(AddWatchFlags::IN_MOVED_FROM) {
            self.moved_from(event.cookie, change);
            return Ok(());
        }
        if mask.contains(AddWatchFlags::IN_MOVED_TO) {
            return self.moved_to(exchange, event.cookie, change);
        }
        if change.temporary {
            return Ok(());
        }
        if mask.contains(AddWatchFlags::IN_CREATE) {
            return self.created(exchange, change);
        }
        if mask.contains(AddWatchFlags::IN_DELETE) {
            self.deleted(change);
            return Ok(());
        }
        self.modified(exchange, change)
    }

    fn check_top(&mut self, mask: AddWatchFlags) {
        if mask
            .intersects(AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_UNMOUNT | AddWatchFlags::IN_IGNORED)
        {
            self.ended = Some("the watched directory was deleted");
        } else if mask.contains(AddWatchFlags::IN_MOVE_SELF) {
            self.ended = Some("the watched directory was moved");
        }
    }

    fn created(&mut self, exchange: &mut dyn Exchange, change: Change) -> Result<(), FilesError> {
        self.batch.push(FileChangeKind::Created, change.path, change.directory);
        if change.directory {
            return self.look_at(exchange, change.parent, &change.name);
        }
        Ok(())
    }

    fn deleted(&mut self, change: Change) {
        self.batch.push(FileChangeKind::Deleted, change.path, change.directory);
        if change.directory
            && let Some(key) = self.tree.child(change.parent, change.name.to_bytes())
        {
            self.remove(key);
        }
    }

    /// Content or attributes. A directory that is not watched may be readable now.
    fn modified(&mut self, exchange: &mut dyn Exchange, change: Change) -> Result<(), FilesError> {
        if is_like_unnamed(change.name.to_bytes()) && !self.is_there(&change) {
            return Ok(());
        }
        self.batch.push(FileChangeKind::Modified, change.path, change.directory);
        if change.directory && self.tree.child(change.parent, change.name.to_bytes()).is_none() {
            return self.look_at(exchange, change.parent, &change.name);
        }
        Ok(())
    }

    /// Whether the name exists; also where that cannot be found out.
    fn is_there(&mut self, change: &Change) -> bool {
        match self.open(change.parent) {
            Ok(directory) => stat_below(&directory, &change.name).is_some(),
            Err(NotOpened::Elsewhere | NotOpened::Unreadable) => true,
        }
    }

    fn moved_from(&mut self, cookie: u32, change: Change) {
        let node = if change.directory { self.tree.cut(change.parent, change.name.to_bytes()) } else { None };
        let Change { path, directory, temporary, .. } = change;
        self.batch.moved_from(cookie, Half { path, directory, temporary, node });
    }

    fn moved_to(
        &mut self,
        exchange: &mut dyn Exchange,
        cookie: u32,
        change: Change,
    ) -> Result<(), FilesError> {
        let half = self.batch.pair(cookie);
        if change.temporary {
            // Out of sight.
            if let Some(half) = half {
                half.node.into_iter().for_each(|key| self.remove(key));
                if !half.temporary {
                    self.batch.push(FileChangeKind::Deleted, half.path, half.directory);
                }
            }
            return Ok(());
        }
        match half {
            Some(Half { path, directory, temporary: false, node }) => {
                self.batch.moved(path, change.path, directory);
                match node {
                    Some(node) => self.place_moved(exchange, node, change.parent, &change.name),
                    None if directory => self.look_at(exchange, change.parent, &change.name),
                    None => Ok(()),
                }
            }
            // From outside, or one of our files that gets its name. It may replace another.
            Some(Half { temporary: true, .. }) | None => self.created(exchange, change),
        }
    }

    /// Places a directory at the end of its move. The kernel says what is there: the tree may be ahead of the events.
    fn place_moved(
        &mut self,
        exchange: &mut dyn Exchange,
        node: WatchDescriptor,
        parent: WatchDescriptor,
        name: &CStr,
    ) -> Result<(), FilesError> {
        if std::mem::take(&mut self.changed_in_move) {
            self.overflow = Some("there were changes in a directory while it was moved");
        }
        let watched = match self.open(parent) {
            Ok(directory) => self.watch_below(parent, &directory, name),
            Err(NotOpened::Elsewhere) => {
                self.missed.push(Missed::Child(parent, name.to_owned()));
                Watched::Absent
            }
            Err(NotOpened::Unreadable) => Watched::Absent,
        };
        match watched {
            Watched::New(key) => self.scan(exchange, key, Report::Created)?,
            Watched::Known => {}
            Watched::Absent => {
                // Moved on: the next move begins here.
                if let Some(id) = self.tree.id(node)
                    && let Ok(placed) = self.tree.place(parent, name.to_bytes(), node, id)
                {
                    self.forget(&placed.removed);
                }
            }
        }
        if self.tree.contains(node) && self.tree.path(node).is_none() {
            self.remove(node);
        }
        Ok(())
    }

    /// Watches a directory that appeared, and reports what is in it.
    pub fn look_at(
        &mut self,
        exchange: &mut dyn Exchange,
        parent: WatchDescriptor,
        name: &CStr,
    ) -> Result<(), FilesError> {
        if !self.recursive {
            return Ok(());
        }
        let watched = match self.open(parent) {
            Ok(directory) => self.watch_below(parent, &directory, name),
            Err(NotOpened::Elsewhere) => {
                self.missed.push(Missed::Child(parent, name.to_owned()));
                return Ok(());
            }
            Err(NotOpened::Unreadable) => return Ok(()),
        };
        match watched {
            Watched::New(key) => self.scan(exchange, key, Report::Created),
            Watched::Known | Watched::Absent => Ok(()),
        }
    }
}

/// Whether a name is one that the kernel uses for files without a name, as ours are until they are complete.
fn is_like_unnamed(name: &[u8]) -> bool {
    name.strip_prefix(b"#").is_some_and(|number| number.iter().all(u8::is_ascii_digit))
}
