//! The store's handle, which other modules hold.

use super::{
    connection::open_writer,
    error::{OpenError, Result, StoreError},
    event_feed::Feed,
    limits,
    metrics::StoreMetrics,
    nocow::NoCowGuard,
    quotas,
    reader::Readers,
    share_index::ShareIndex,
    task_events::newest_seq,
    wal::{WalFile, allocate_database, wal_path},
    writer::{Job, WriteJob, Writer, WriterMessage},
};
use crate::disk_space::DiskSpace;
use protocol::api::DiskLevel;
use rusqlite::Connection;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use tokio::runtime::Handle;
use tokio::sync::{
    Notify,
    mpsc::{
        self,
        error::{SendTimeoutError, TrySendError},
    },
    oneshot, watch,
};
use tracing::{error, warn};

/// The database. Clones are handles to the same one.
///
/// A write has happened when its future returns, and may happen when the future is dropped: it is never
/// partial.
#[derive(Clone)]
pub struct Store {
    inner: Arc<StoreInner>,
}

/// A write with a position in the queue. It happens whether or not its result is awaited.
pub struct QueuedWrite<T> {
    store: Store,
    unsent: Option<WriterMessage>,
    reply: oneshot::Receiver<Result<T>>,
}

impl<T> QueuedWrite<T> {
    pub async fn written(mut self) -> Result<T> {
        if let Some(message) = self.unsent.take() {
            self.store.send(message).await?;
        }
        receive_reply(&mut self.reply).await
    }
}

impl<T> Drop for QueuedWrite<T> {
    fn drop(&mut self) {
        let Some(message) = self.unsent.take() else { return };
        let lost = || warn!("write dropped: the queue of the database stayed full");
        let Ok(runtime) = Handle::try_current() else { return lost() };
        let store = self.store.clone();
        // The task ends by itself: it waits for the queue no longer than any write.
        runtime.spawn(async move {
            if store.send(message).await.is_err() {
                lost();
            }
        });
    }
}

/// Awaits the writer's reply to a job.
pub(super) async fn receive_reply<T>(
    reply: impl Future<Output = std::result::Result<Result<T>, oneshot::error::RecvError>>,
) -> Result<T> {
    reply.await.unwrap_or(Err(StoreError::Broken))
}

struct StoreInner {
    queue: mpsc::Sender<WriterMessage>,
    readers: Readers,
    head: watch::Receiver<u64>,
    feed: Feed,
    shares: ShareIndex,
    /// Counts revocations of tokens.
    token_revocations: Arc<watch::Sender<u64>>,
    metrics: StoreMetrics,
    /// The paths of the database and its WAL.
    database: PathBuf,
    wal: PathBuf,
    /// Notified when the WAL may hold secrets that were overwritten.
    secrets_overwritten: Notify,
    /// Bulk bytes written since the last background checkpoint.
    wal_bytes: AtomicUsize,
    wal_grown: Notify,
    /// Whether any quota is set: without one, nothing is checked.
    has_quotas: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens or creates the database, and starts its writer. Blocks.
    pub fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, None)
    }

    /// Opens the database with disk space reserved for it, so that it works on a full disk.
    pub fn open_on(path: &Path, disk: DiskSpace) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, Some(disk))
    }

    fn open_with(path: &Path, disk: Option<DiskSpace>) -> std::result::Result<Self, OpenError> {
        let conn = {
            let _nocow = path.parent().and_then(NoCowGuard::set);
            open_writer(path)?
        };
        let wal_path = wal_path(path);
        if disk.as_ref().is_none_or(|disk| disk.level() != DiskLevel::Full) {
            allocate_database(&conn, path);
        }
        let wal = WalFile::new(wal_path.clone(), disk);
        let newest = newest_seq(&conn).map_err(OpenError::Store)?;
        let shares = ShareIndex::load(&conn).map_err(OpenError::Store)?;
        let has_quotas = Arc::new(AtomicBool::new(quotas::exists(&conn).map_err(OpenError::Store)?));
        let (head_in, head) = watch::channel(newest);
        let (queue, jobs) = mpsc::channel(limits::WRITE_QUEUE_MAX);
        let metrics = StoreMetrics::default();
        let feed = Feed::new(newest, metrics.clone());
        let writer = Writer {
            conn,
            wal,
            queue: jobs,
            head: head_in,
            feed: feed.clone(),
            metrics: metrics.clone(),
            failing: false,
        };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io { what: "start the writer of the database", source })?;
        let readers = Readers::new(path.to_owned());
        let secrets_overwritten = Notify::new();
        // An earlier process may have left overwritten secrets.
        secrets_overwritten.notify_one();
        let (wal_bytes, wal_grown) = (AtomicUsize::new(0), Notify::new());
        let thread = Mutex::new(Some(thread));
        let inner = StoreInner {
            queue,
            readers,
            head,
            feed,
            shares,
            token_revocations: Arc::default(),
            metrics,
            database: path.to_owned(),
            wal: wal_path,
            secrets_overwritten,
            wal_bytes,
            wal_grown,
            has_quotas,
            thread,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Writes what is queued, checkpoints the WAL and closes the database. Other handles get
    /// [`StoreError::Closed`] from then on.
    pub async fn close(self) {
        self.inner.readers.close().await;
        // The send fails when the writer has closed already.
        let _ = self.inner.queue.send(WriterMessage::Close).await;
        let thread = self.inner.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => error!("database writer panicked"),
        }
    }

    /// Watches the sequence number of the newest committed event: when it grows, there is more to read.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.inner.head.clone()
    }

    /// Returns the newest sequence number, or any known one that is not less than `enough`. A reader of the
    /// log may have seen events that the head does not name yet.
    pub async fn newest(&self, enough: u64) -> Result<u64> {
        let known = *self.inner.head.borrow();
        if known >= enough { Ok(known) } else { self.read(newest_seq).await }
    }

    pub(super) fn secrets_overwritten(&self) -> &Notify {
        &self.inner.secrets_overwritten
    }

    pub(super) fn wal_grown(&self) -> &Notify {
        &self.inner.wal_grown
    }

    /// Counts bulk bytes and requests a background checkpoint when there are many.
    pub(super) fn count_wal_bytes(&self, bytes: usize) {
        if self.inner.wal_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > limits::CHECKPOINT_AFTER_BYTES {
            self.inner.wal_bytes.store(0, Ordering::Relaxed);
            self.inner.wal_grown.notify_one();
        }
    }

    pub(super) fn has_quotas(&self) -> bool {
        self.inner.has_quotas.load(Ordering::Relaxed)
    }

    /// Writes quotas, and notes whether any is set. The note is made in the order of commits, so that an older one does
    /// not overtake a newer one.
    pub(super) async fn write_quotas<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let has_quotas = self.inner.has_quotas.clone();
        let write = move |conn: &Connection| {
            let written = work(conn)?;
            Ok((written, quotas::exists(conn)?))
        };
        let written =
            self.write_then(name, write, move |(_, any)| has_quotas.store(*any, Ordering::Relaxed)).await;
        written.map(|(written, _)| written)
    }

    pub fn metrics(&self) -> &StoreMetrics {
        &self.inner.metrics
    }

    /// Sets the gauges that are read when they are asked for.
    pub fn refresh_gauges(&self) {
        let StoreInner { queue, metrics, feed, database, wal, .. } = &*self.inner;
        hostd_metrics::set(&metrics.queued_jobs, (queue.max_capacity() - queue.capacity()) as u64);
        // A database without a WAL was just checkpointed.
        let wal_bytes = fs::metadata(wal).map_or(0, |meta| meta.len());
        hostd_metrics::set(&metrics.wal_bytes, wal_bytes);
        let database_bytes = fs::metadata(database).map_or(0, |meta| meta.len());
        hostd_metrics::set(&metrics.database_bytes, database_bytes);
        hostd_metrics::set(&metrics.feed_lag_events, feed.lag());
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.inner.feed
    }

    /// Shares of all sandboxes, in memory.
    pub fn shares(&self) -> &ShareIndex {
        &self.inner.shares
    }

    /// Watches for revoked tokens: when the number grows, a token may have been revoked.
    pub fn token_revocations(&self) -> watch::Receiver<u64> {
        self.inner.token_revocations.subscribe()
    }

    pub(super) fn token_revocations_sender(&self) -> Arc<watch::Sender<u64>> {
        self.inner.token_revocations.clone()
    }

    pub(super) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (job, reply) = WriteJob::boxed(name, work);
        self.run(job, reply).await
    }

    /// Like `write`; `committed` runs with the result of a write that is on the disk, before its events are published.
    pub(super) async fn write_then<T, F, C>(&self, name: &'static str, work: F, committed: C) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        C: FnOnce(&T) + Send + 'static,
    {
        let (job, reply) = WriteJob::boxed_then(name, work, Some(Box::new(committed)));
        self.run(job, reply).await
    }

    async fn run<T>(&self, job: Box<dyn Job>, reply: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.send(WriterMessage::Job(job)).await?;
        let written = receive_reply(reply).await;
        self.count_refusal(&written);
        written
    }

    /// Queues a job in the order of calls: its position is fixed when this returns.
    pub(super) fn post<T, F>(&self, name: &'static str, work: F) -> QueuedWrite<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (job, reply) = WriteJob::boxed(name, work);
        let unsent = match self.inner.queue.try_send(WriterMessage::Job(job)) {
            Ok(()) => None,
            Err(TrySendError::Full(message) | TrySendError::Closed(message)) => Some(message),
        };
        QueuedWrite { store: self.clone(), unsent, reply }
    }

    pub(super) async fn send(&self, message: WriterMessage) -> Result<()> {
        let wait = Duration::from_millis(limits::WRITE_WAIT_MAX_MS);
        self.inner.queue.send_timeout(message, wait).await.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => StoreError::Busy,
            SendTimeoutError::Closed(_) => StoreError::Closed,
        })
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.inner.readers.read(work).await
    }
}
