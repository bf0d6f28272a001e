//! File events from inotify. Watches directories only, as the user, never through a link.

use super::async_fd::{self, PolledFd};
use super::fs_identity::{FsIdentityGuard, Identity};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use tokio::io::unix::AsyncFd;

/// Reads at once, each of a few dozen events.
const READS_MAX: usize = 256;

pub struct Watcher {
    inotify: AsyncFd<PolledFd<Inotify>>,
    directories: HashMap<WatchDescriptor, PathBuf>,
    /// Directories watched before `begin`.
    before: HashMap<WatchDescriptor, PathBuf>,
    identity: Identity,
}

/// A change of `path`. With `is_structural`, directories were added or removed, so the watches are out of
/// date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvent {
    pub path: PathBuf,
    pub is_structural: bool,
}

impl Watcher {
    pub fn new(identity: Identity) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let inotify = async_fd::watch(inotify)?;
        Ok(Self { inotify, directories: HashMap::new(), before: HashMap::new(), identity })
    }

    /// Begins a new set of watches; each directory to watch is added before `finish`, also those already
    /// watched. The kernel's queue stays the same, so that no event is lost in between.
    pub fn begin(&mut self) {
        self.before = std::mem::take(&mut self.directories);
    }

    /// Removes the watches that were not added again.
    pub fn finish(&mut self) {
        for descriptor in std::mem::take(&mut self.before).into_keys() {
            if !self.directories.contains_key(&descriptor) {
                // The kernel removes the watch of a deleted directory itself.
                let _ = self.inotify.get_ref().0.rm_watch(descriptor);
            }
        }
    }

    pub fn count(&self) -> usize {
        self.directories.len()
    }

    pub fn add(&mut self, directory: &Path) -> io::Result<()> {
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        let _user = FsIdentityGuard::enter(self.identity).map_err(io::Error::other)?;
        let descriptor = self.inotify.get_ref().0.add_watch(directory, flags)?;
        self.directories.insert(descriptor, directory.to_owned());
        Ok(())
    }

    /// The next events. Cancelling loses nothing: unread events stay in the kernel.
    pub async fn next(&mut self) -> io::Result<Vec<FileEvent>> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let Ok(events) = ready.try_io(|fd| fd.get_ref().0.read_events().map_err(io::Error::from)) else {
                continue;
            };
            return Ok(self.file_events(events?));
        }
    }

    /// The events queued until now. Bounded, because they may arrive faster than they are read.
    pub fn queued(&mut self) -> Vec<FileEvent> {
        let read = || self.inotify.get_ref().0.read_events().ok();
        let events: Vec<InotifyEvent> = std::iter::from_fn(read).take(READS_MAX).flatten().collect();
        self.file_events(events)
    }

    fn file_events(&self, events: Vec<InotifyEvent>) -> Vec<FileEvent> {
        let structural =
            AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ISDIR;
        let changed = events.into_iter().filter(|event| !event.mask.contains(AddWatchFlags::IN_IGNORED));
        let known = changed.filter_map(|event| {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                // After an overflow anything may have changed.
                return Some(FileEvent { path: PathBuf::from("/"), is_structural: true });
            }
            let is_structural = event.mask.intersects(structural);
            let directory = self.directories.get(&event.wd)?;
            let path = event.name.map_or_else(|| directory.clone(), |name| directory.join(name));
            Some(FileEvent { path, is_structural })
        });
        known.collect()
    }
}
