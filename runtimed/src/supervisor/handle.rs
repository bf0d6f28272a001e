//! Handles to the supervisor, for the API.

use super::command::{Command, Reply};
use super::execs::Refusal;
use super::file_verbs::FilePermits;
use super::output_log::{LogHead, LogKey};
use crate::files_process::VerbSort;
use crate::limits::FOLLOWERS_MAX;
use protocol::{Cursor, ErrorBody, ErrorCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

/// Cheap to clone. Every command gets a reply, unless the supervisor is gone.
#[derive(Clone)]
pub struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) shared: Arc<SharedState>,
}

/// State that is read without a command.
pub struct SharedState {
    pub events_dir: PathBuf,
    pub events: watch::Receiver<Cursor>,
    pub viewers: AtomicU32,
    pub tunnels: AtomicU32,
    pub followers: Arc<Semaphore>,
    pub file_permits: FilePermits,
    pub faults: bool,
}

/// A log and its published head.
pub struct LogHandle {
    pub key: LogKey,
    pub dir: PathBuf,
    pub oldest: u64,
    pub head: watch::Receiver<LogHead>,
}

impl Handle {
    /// Sends a command and waits for its reply.
    pub async fn ask<T, C: Into<Command>>(&self, command: impl FnOnce(Reply<T>) -> C) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let gone = || Box::new(ErrorBody::new(ErrorCode::ShuttingDown, "runtimed is shutting down"));
        self.commands.send(command(reply).into()).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Sends a command without a reply.
    pub async fn send(&self, command: impl Into<Command>) {
        let _ = self.commands.send(command.into()).await;
    }

    pub fn shared(&self) -> &SharedState {
        &self.shared
    }

    /// A permit to follow a log, held while connected.
    pub fn follower_permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let full = |_| {
            let message = format!("{FOLLOWERS_MAX} followers are connected already");
            Box::new(ErrorBody::new(ErrorCode::TooMany, message))
        };
        Arc::clone(&self.shared.followers).try_acquire_owned().map_err(full)
    }

    /// A permit for a process on files, held while it runs.
    pub fn file_permit(&self, sort: VerbSort) -> Result<OwnedSemaphorePermit, Refusal> {
        self.shared.file_permits.take(sort)
    }

    /// Counts a viewer for as long as the guard lives.
    pub fn viewer(&self) -> CountGuard {
        CountGuard::new(Arc::clone(&self.shared), |shared| &shared.viewers)
    }

    pub fn tunnel(&self) -> CountGuard {
        CountGuard::new(Arc::clone(&self.shared), |shared| &shared.tunnels)
    }
}

/// Increments a counter while it lives.
pub struct CountGuard {
    shared: Arc<SharedState>,
    which: fn(&SharedState) -> &AtomicU32,
}

impl CountGuard {
    fn new(shared: Arc<SharedState>, which: fn(&SharedState) -> &AtomicU32) -> Self {
        which(&shared).fetch_add(1, Ordering::Relaxed);
        Self { shared, which }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.which)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}
