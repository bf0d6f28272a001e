//! Processes that perform verbs on files, one each. They start no others and are reaped like shims.

use super::execs::Refusal;
use super::main_loop::Supervisor;
use crate::core::job::RawExit;
use crate::files_process::{ProcessRequest, VerbPlace, VerbSort};
use crate::limits::{FILES_VERBS_MAX, FILES_WATCHES_MAX};
use crate::sys::spawn;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ErrorBody, ErrorCode};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A connection that was upgraded, for a new process.
pub struct FilesStart {
    pub caller: OwnedFd,
    pub place: VerbPlace,
    pub permit: OwnedSemaphorePermit,
}

/// Limits of these processes. Watches last long, and leave room for the others.
pub struct FilePermits {
    verbs: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

impl FilePermits {
    pub fn new() -> Self {
        let permits = |max| Arc::new(Semaphore::new(max));
        Self { verbs: permits(FILES_VERBS_MAX), watches: permits(FILES_WATCHES_MAX) }
    }

    pub fn take(&self, sort: VerbSort) -> Result<OwnedSemaphorePermit, Refusal> {
        let (permits, message) = match sort {
            VerbSort::Other => (&self.verbs, format!("{FILES_VERBS_MAX} verbs on files run already")),
            VerbSort::Watch => (&self.watches, format!("{FILES_WATCHES_MAX} watches of files run already")),
        };
        let full = |_| Box::new(ErrorBody::new(ErrorCode::TooMany, message));
        Arc::clone(permits).try_acquire_owned().map_err(full)
    }
}

#[derive(Default)]
pub struct FileVerbs {
    live: HashMap<Pid, LiveVerb>,
}

struct LiveVerb {
    sort: VerbSort,
    _permit: OwnedSemaphorePermit,
}

impl FileVerbs {
    pub fn on_reaped(&mut self, ended: &[(Pid, RawExit)]) {
        for (pid, _) in ended {
            self.live.remove(pid);
        }
    }

    pub fn contains(&self, pid: Pid) -> bool {
        self.live.contains_key(&pid)
    }

    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Processes that keep the sandbox awake.
    pub fn busy_count(&self) -> u32 {
        let busy = self.live.values().filter(|verb| verb.sort == VerbSort::Other).count();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }

    /// Ends all of them: a file has its old content or the new one.
    pub fn kill_all(&self) {
        for pid in self.live.keys() {
            let _ = kill(*pid, Signal::SIGKILL);
        }
    }
}

impl Supervisor {
    /// Starts the process. A caller whose connection ends without a frame knows that nothing was done.
    pub(super) fn start_files(&mut self, start: FilesStart) {
        if self.is_shutting_down() {
            return;
        }
        let FilesStart { caller, place, permit } = start;
        match self.spawn_files(caller, place) {
            Ok(pid) => drop(self.file_verbs.live.insert(pid, LiveVerb { sort: place.sort, _permit: permit })),
            Err(error) => tracing::warn!(%error, "failed to start a verb on files"),
        }
    }

    fn spawn_files(&self, caller: OwnedFd, place: VerbPlace) -> io::Result<Pid> {
        let config = &self.context.config;
        let request = ProcessRequest { place, uid: config.uid, gid: config.gid, home: config.home.clone() };
        spawn::files(&serde_json::to_string(&request)?, caller)
    }
}
