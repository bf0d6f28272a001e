//! Watches the manifest and the files of services.

use super::manifest::MANIFEST;
use super::service::Service;
use super::services::Services;
use crate::config::Config;
use crate::core::service::Phase;
use crate::core::watch_targets::{Change, Purpose, Target, is_ignored};
use crate::limits::{WATCH_DEPTH_MAX, WATCH_DIRECTORIES_MAX, WATCH_QUIET_MS};
use crate::sys::fs_identity::FsIdentityGuard;
use crate::sys::inotify::Watcher;
use nix::errno::Errno;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// Changes are reported at most this often, however busy the files are.
const REPORT_INTERVAL_MIN: Duration = Duration::from_millis(1000);

pub struct FileWatch {
    watcher: Option<Watcher>,
    targets: Vec<Target>,
    /// Generation of the services when the targets were computed.
    generation: Option<u64>,
    /// Directories were added or removed since the watches were set.
    stale: bool,
    pending: Change,
    report_at: Option<Instant>,
    reported_at: Option<Instant>,
    /// Why some files are not watched, and when that was tried.
    failure: Option<(WatchError, Instant)>,
}

/// Why changes of files are not seen; shown to the user.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("files are not watched: no inotify instance is left; raise fs.inotify.max_user_instances")]
    Instances,
    #[error("not all files are watched: no inotify watch is left; raise fs.inotify.max_user_watches")]
    Watches,
    #[error("not all files are watched: there are more than {WATCH_DIRECTORIES_MAX} directories")]
    Directories,
    #[error("files are not watched: {0}")]
    Other(io::Error),
}

impl From<io::Error> for WatchError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMFILE) => Self::Instances,
            Some(Errno::ENOSPC) => Self::Watches,
            _ => Self::Other(error),
        }
    }
}

impl FileWatch {
    pub fn new() -> Self {
        Self {
            watcher: None,
            targets: Vec::new(),
            generation: None,
            stale: false,
            pending: Change::default(),
            report_at: None,
            reported_at: None,
            failure: None,
        }
    }

    /// The warning for the user, where files are not watched.
    pub fn warning(&self) -> Option<String> {
        self.failure.as_ref().map(|(why, _)| why.to_string())
    }

    /// Watches the current targets. Cheap when the services did not change.
    pub fn follow(&mut self, config: &Config, services: &Services) {
        let try_again = self.failure.as_ref().is_some_and(|(why, tried)| {
            !matches!(why, WatchError::Directories) && tried.elapsed() >= REPORT_INTERVAL_MIN
        });
        if self.generation == Some(services.generation()) && !try_again {
            return;
        }
        self.generation = Some(services.generation());
        let targets = targets(config, || services.iter());
        if targets == self.targets && !self.stale && !try_again && self.watcher.is_some() {
            return;
        }
        // Queued events belong to the old targets: a service that writes a file and dies must not be retried
        // at once because of that file.
        self.collect_queued();
        self.targets = targets;
        self.stale = false;
        let had_failed = self.failure.take().is_some();
        if let Err(why) = self.watch(config) {
            tracing::warn!(error = %why, "failed to watch files");
            self.failure = Some((why, Instant::now()));
        } else if had_failed {
            // The manifest may have changed while it was not watched.
            self.pending.manifest = true;
            self.schedule_report();
        }
    }

    fn watch(&mut self, config: &Config) -> Result<(), WatchError> {
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => none.insert(Watcher::new(config.identity())?),
        };
        watcher.begin();
        let added = self.targets.iter().try_for_each(|target| {
            // Parents too: moving a directory moves those below it without events of their own.
            let above = target.path.ancestors().skip(1).take_while(|path| path.starts_with(&config.home));
            above.into_iter().try_for_each(|path| add_tree(watcher, config, path, 0))?;
            let deep = matches!(target.purpose, Purpose::Service(_));
            let root = nearest_directory(config, &target.path);
            let depth = if deep && root == target.path { WATCH_DEPTH_MAX } else { 0 };
            add_tree(watcher, config, &root, depth)
        });
        watcher.finish();
        added
    }

    /// Waits until something changed and has been quiet for a moment.
    pub async fn changed(&mut self) {
        loop {
            if let Some(at) = self.report_at {
                let watcher = self.watcher.as_mut();
                tokio::select! {
                    () = tokio::time::sleep_until(at) => return,
                    // Cancelling the read loses nothing.
                    changes = next(watcher) => self.collect(changes),
                }
            } else {
                let changes = next(self.watcher.as_mut()).await;
                self.collect(changes);
            }
        }
    }

    fn collect(&mut self, changes: io::Result<Vec<crate::sys::inotify::FileEvent>>) {
        match changes {
            Ok(changes) => {
                for change in changes {
                    let matters = self.pending.add(&change.path, change.is_structural, &self.targets);
                    self.stale |= change.is_structural && matters;
                }
            }
            Err(error) => {
                self.watcher = None;
                self.stale = true;
                self.failure = Some((error.into(), Instant::now()));
            }
        }
        if !self.pending.is_empty() || self.stale {
            self.schedule_report();
        }
    }

    fn collect_queued(&mut self) {
        if let Some(queued) = self.watcher.as_mut().map(Watcher::queued) {
            self.collect(Ok(queued));
        }
    }

    fn schedule_report(&mut self) {
        let quiet = Instant::now() + Duration::from_millis(WATCH_QUIET_MS);
        let earliest = self.reported_at.map_or(quiet, |at| at + REPORT_INTERVAL_MIN);
        self.report_at.get_or_insert(quiet.max(earliest));
    }

    /// Takes the changes. The caller watches again before it reads files, so that later changes are seen.
    pub fn take_changes(&mut self) -> Change {
        // Changes up to now belong to this report, and not to another one a second later.
        self.collect_queued();
        self.report_at = None;
        self.reported_at = Some(Instant::now());
        if self.stale {
            self.generation = None;
        }
        std::mem::take(&mut self.pending)
    }
}

/// The next events; pends where nothing can be watched.
async fn next(watcher: Option<&mut Watcher>) -> io::Result<Vec<crate::sys::inotify::FileEvent>> {
    match watcher {
        Some(watcher) => watcher.next().await,
        None => std::future::pending().await,
    }
}

/// The manifest, files that services ask to watch, and the directory of each service in backoff; those come
/// last, because they are large and only save time.
fn targets<'a, I: Iterator<Item = &'a Service>>(config: &Config, services: impl Fn() -> I) -> Vec<Target> {
    let mut targets = vec![Target { path: config.app_dir.join(MANIFEST), purpose: Purpose::Manifest }];
    let mut add = |service: &Service, path: PathBuf| {
        targets.push(Target { path, purpose: Purpose::Service(service.spec.name.clone()) });
    };
    for service in services() {
        service
            .spec
            .watch
            .iter()
            .for_each(|path| add(service, config.app_dir.join(path).components().collect()));
    }
    for service in services() {
        if let Phase::Backoff { .. } = service.machine.phase {
            let cwd = service.spec.cwd.as_deref().unwrap_or(".");
            add(service, config.app_dir.join(cwd).components().collect());
        }
    }
    targets
}

/// The path itself if it is a directory, else its closest parent that is.
fn nearest_directory(config: &Config, path: &Path) -> PathBuf {
    let _user = FsIdentityGuard::enter(config.identity());
    let is_directory = |path: &&Path| std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    path.ancestors().find(is_directory).unwrap_or(Path::new("/")).to_owned()
}

/// Watches a directory and those below it, breadth first, within bounds.
fn add_tree(watcher: &mut Watcher, config: &Config, root: &Path, depth: usize) -> Result<(), WatchError> {
    let mut waiting = VecDeque::from([(root.to_owned(), depth)]);
    while let Some((directory, depth)) = waiting.pop_front() {
        if watcher.count() >= WATCH_DIRECTORIES_MAX {
            return Err(WatchError::Directories);
        }
        // Watched before it is read: a directory that is created in between has an event.
        match watcher.add(&directory).map_err(WatchError::from) {
            Ok(()) => {}
            Err(why @ (WatchError::Instances | WatchError::Watches | WatchError::Directories)) => {
                return Err(why);
            }
            // Removed, replaced or not accessible to the user: nothing to watch there.
            Err(WatchError::Other(_)) => continue,
        }
        if depth > 0 {
            waiting.extend(directories_in(config, &directory).into_iter().map(|found| (found, depth - 1)));
        }
    }
    Ok(())
}

fn directories_in(config: &Config, directory: &Path) -> Vec<PathBuf> {
    let _user = FsIdentityGuard::enter(config.identity());
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let wanted = |entry: &std::fs::DirEntry| {
        let ignored = entry.file_name().to_str().is_some_and(is_ignored);
        !ignored && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    entries.flatten().filter(wanted).take(WATCH_DIRECTORIES_MAX).map(|entry| entry.path()).collect()
}
