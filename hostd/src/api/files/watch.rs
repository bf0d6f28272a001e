//! Watches of trees, shared by their subscribers. A watch outlives its last subscriber for a while, and keeps its newest
//! changes, so that a client that reconnects misses none.
//!
//! ```text
//! verb ─▶ Watch: changes with numbers ─▶ subscriber (SSE)
//!              └ kept for those that reconnect; older ones are an overflow
//! ```

use super::{
    super::{
        Api,
        call::Call,
        error::{CallError, CallResult},
        limits,
        param::{Param, ParamKind},
    },
    backend::{self, FilesAnswer},
    params::{self, unexpected},
    views,
    watch_stream::WatchSubscriber,
};
use axum::body::Body;
use bytes::Bytes;
use hostd_store::SandboxRecord;
use protocol::{
    api::{ApiErrorCode, SandboxId},
    files::{FileChangeKind, FilePath, FilesReply, FilesRequest, FilesTop, WatchLine},
};
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};
use tokio::{sync::watch, time::sleep};

/// A line of a watch that is longer is not one of ours.
const LINE_MAX_BYTES: usize = 64 << 10;

pub const LAST_EVENT_ID: &[Param] = &[Param {
    name: "Last-Event-ID",
    about: "Continue after this event; `overflow` comes first where changes since then are not kept",
    kind: ParamKind::Text { most_chars: 64 },
}];

pub async fn watch(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let key = WatchKey {
        sandbox: sandbox.id,
        top: params::top(&call)?,
        path: params::path(&call, "path"),
        recursive: call.query.flag("recursive", true)?,
    };
    let permit = call.stream_permit()?;
    let watch = find_or_start(&call.api, &sandbox, key).await?;
    let last = call.headers.get("last-event-id").and_then(|value| value.to_str().ok());
    Ok(WatchSubscriber::new(watch, last, call.api.closing.clone(), permit).response())
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WatchKey {
    sandbox: SandboxId,
    top: FilesTop,
    path: FilePath,
    recursive: bool,
}

/// The watches that run.
#[derive(Default)]
pub struct FileWatches(Arc<Mutex<HashMap<WatchKey, Arc<Watch>>>>);

/// A running watch.
pub struct Watch {
    /// Tells this watch from earlier ones of the same tree.
    pub epoch: String,
    kept: Mutex<Kept>,
    /// What its subscribers wait for.
    pub progress: watch::Sender<WatchProgress>,
    /// Closed when the last subscriber is gone.
    users: watch::Sender<()>,
}

/// How far a watch is.
#[derive(Debug, Clone, Copy, Default)]
pub struct WatchProgress {
    /// The number of the newest change.
    pub newest: u64,
    /// Whether every directory is watched: a change before that may not be reported.
    pub is_ready: bool,
    pub has_ended: bool,
}

/// The newest changes.
#[derive(Default)]
struct Kept {
    changes: VecDeque<Bytes>,
    /// The number of the newest one.
    newest: u64,
}

/// Changes after a number, or the fact that some are not kept.
pub enum Since {
    Changes(Vec<Bytes>),
    Gone { newest: u64 },
}

impl Watch {
    fn new(epoch: String) -> Self {
        let (progress, users) = (watch::Sender::default(), watch::Sender::new(()));
        Self { epoch, kept: Mutex::default(), progress, users }
    }

    /// A subscriber; the watch runs on while there is one.
    pub fn user(&self) -> watch::Receiver<()> {
        self.users.subscribe()
    }

    /// At most `max` changes after this number, each as its SSE frame.
    pub fn since(&self, after: u64, max: usize) -> Since {
        let kept = self.kept();
        let oldest = kept.newest - kept.changes.len() as u64;
        if after < oldest || after > kept.newest {
            return Since::Gone { newest: kept.newest };
        }
        let skip = usize::try_from(after - oldest).unwrap_or(usize::MAX);
        Since::Changes(kept.changes.iter().skip(skip).take(max).cloned().collect())
    }

    fn push(&self, event: &str, data: &serde_json::Value) {
        let mut kept = self.kept();
        kept.newest += 1;
        let frame = format!("id: {}-{}\nevent: {event}\ndata: {data}\n\n", self.epoch, kept.newest);
        kept.changes.push_back(frame.into());
        if kept.changes.len() > limits::FILE_CHANGES_KEPT {
            kept.changes.pop_front();
        }
        let newest = kept.newest;
        drop(kept);
        self.progress.send_modify(|progress| progress.newest = newest);
    }

    fn push_line(&self, line: &WatchLine) {
        match line {
            WatchLine::Change(change) => {
                let event = match change.change {
                    FileChangeKind::Created => "created",
                    FileChangeKind::Modified => "modified",
                    FileChangeKind::Deleted => "deleted",
                    FileChangeKind::Moved => "moved",
                };
                self.push(event, &json!(views::change(change)));
            }
            WatchLine::Overflow { reason } => self.push("overflow", &json!({ "reason": reason })),
            WatchLine::Ready => self.progress.send_modify(|progress| progress.is_ready = true),
            WatchLine::Idle => {}
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FileWatches {
    fn running(&self) -> MutexGuard<'_, HashMap<WatchKey, Arc<Watch>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watch of this tree, with a first subscriber that keeps it from ending.
    fn find(&self, key: &WatchKey) -> Result<Option<Arc<Watch>>, CallError> {
        let running = self.running();
        if let Some(watch) = running.get(key) {
            return Ok(Some(watch.clone()));
        }
        let mine = running.keys().filter(|other| other.sandbox == key.sandbox).count();
        let most = limits::FILE_WATCHES_OF_SANDBOX_MAX;
        if mine >= most || running.len() >= limits::FILE_WATCHES_MAX {
            let message =
                format!("too many trees are watched (at most {most} of a sandbox); watch one above them");
            return Err(CallError::new(ApiErrorCode::TooMany, message));
        }
        Ok(None)
    }
}

async fn find_or_start(
    api: &Arc<Api>,
    sandbox: &SandboxRecord,
    key: WatchKey,
) -> Result<Arc<Watch>, CallError> {
    // One start for all who ask at once.
    let _starting = api.key_locks.lock(format!("watch {key:?}")).await;
    if let Some(watch) = api.file_watches.find(&key)? {
        return Ok(watch);
    }
    let request = FilesRequest::Watch { path: key.path.clone(), recursive: key.recursive };
    let answer = backend::perform_on(api, sandbox, key.top, request, Body::empty()).await?;
    let FilesReply::Watching = answer.reply else { return Err(unexpected()) };
    let watch = Arc::new(Watch::new(super::super::dispatch::new_id()));
    api.file_watches.running().insert(key.clone(), watch.clone());
    let ended = WatchEntry { watches: Arc::downgrade(&api.file_watches.0), key, watch: watch.clone() };
    let closing = api.closing.clone();
    // It ends with its verb, its subscribers or hostd.
    api.work.spawn(async move {
        tokio::select! {
            // Both sides may be dropped: changes are pushed whole.
            () = run(answer, &ended.watch) => {}
            () = closing.cancelled() => {}
        }
    });
    Ok(watch)
}

/// Removes a watch that has ended from the table, however it ended.
struct WatchEntry {
    watches: Weak<Mutex<HashMap<WatchKey, Arc<Watch>>>>,
    key: WatchKey,
    watch: Arc<Watch>,
}

impl Drop for WatchEntry {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
        self.watch.progress.send_modify(|progress| progress.has_ended = true);
    }
}

/// Reads changes until the verb ends, or there was no subscriber for a while.
async fn run(mut answer: FilesAnswer, watch: &Watch) {
    let mut rest = Vec::new();
    // One wait for all lines: a quiet tree sends some, too.
    let mut abandoned = pin!(abandoned(watch));
    loop {
        tokio::select! {
            // Both branches only wait; what was read of a line is in `rest`.
            () = abandoned.as_mut() => return,
            read = answer.data.next() => {
                let Ok(Some(bytes)) = read else { return };
                rest.extend_from_slice(&bytes);
            }
        }
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(line) => watch.push_line(&line),
                Err(_) => return,
            }
        }
        if rest.len() > LINE_MAX_BYTES {
            return;
        }
    }
}

/// Returns when the watch had no subscriber for a while.
async fn abandoned(watch: &Watch) {
    let linger = Duration::from_millis(limits::FILE_WATCH_LINGER_MS);
    loop {
        watch.users.closed().await;
        // A subscriber that comes meanwhile is looked for at the end.
        sleep(linger).await;
        if watch.users.receiver_count() == 0 {
            return;
        }
    }
}
