//! Tells that something below a directory of this machine changed; not what: the next scan finds it.

use super::tree::{Node, Tree};
use crate::{files::os_name, limits};
use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};
use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{sync::Notify, time::sleep};

pub struct LocalWatch {
    root: PathBuf,
    source: Source,
}

enum Source {
    Inotify {
        inotify: Arc<Inotify>,
        events: Arc<Notify>,
        known: HashSet<WatchDescriptor>,
    },
    /// The kernel has no watch left: the tree is scanned from time to time.
    Polling,
}

impl LocalWatch {
    pub fn new(root: &Path) -> io::Result<Self> {
        let source = match Inotify::init(InitFlags::IN_CLOEXEC) {
            Ok(inotify) => {
                let (inotify, events) = (Arc::new(inotify), Arc::new(Notify::new()));
                let (reader, told) = (Arc::clone(&inotify), Arc::clone(&events));
                // Ends with the process: nothing interrupts its read.
                std::thread::spawn(move || {
                    while reader.read_events().is_ok() {
                        told.notify_one();
                    }
                });
                Source::Inotify { inotify, events, known: HashSet::new() }
            }
            Err(Errno::EMFILE) => Source::Polling,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { root: root.to_owned(), source })
    }

    pub fn is_polling(&self) -> bool {
        matches!(self.source, Source::Polling)
    }

    /// Watches every directory of a tree; returns whether one of them is new, whose content may have changed since the
    /// tree was read.
    pub fn cover(&mut self, tree: &Tree) -> io::Result<bool> {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        let Source::Inotify { inotify, known, .. } = &mut self.source else { return Ok(false) };
        let directories = tree.iter().filter(|(_, node)| **node == Node::Directory);
        let below = directories.map(|(name, _)| self.root.join(os_name(name)));
        let (mut is_new, mut is_full) = (false, false);
        for path in std::iter::once(self.root.clone()).chain(below) {
            match inotify.add_watch(&path, flags) {
                Ok(descriptor) => is_new |= known.insert(descriptor),
                Err(Errno::ENOSPC | Errno::ENOMEM) => is_full = true,
                // Deleted or replaced meanwhile, which its parent tells.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EACCES) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if is_full {
            self.source = Source::Polling;
        }
        Ok(is_new)
    }

    /// Returns when something changed since the last call. Safe to cancel: it is told again.
    pub async fn changed(&self) {
        match &self.source {
            Source::Inotify { events, .. } => events.notified().await,
            Source::Polling => sleep(limits::SYNC_POLL).await,
        }
    }
}
