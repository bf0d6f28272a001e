//! The handle that everybody has.

use super::{
    error::{OpenError, Result, StoreError},
    feed::Feed,
    in_place::InPlace,
    journal::JournalRoom,
    limits,
    open::open_writer,
    reader::Readers,
    task_events::newest_seq,
    writer::{Message, Write, Writer},
};
use crate::disk_room::DiskRoom;
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
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
/// A write is done when its future returns, and may be done when the future is dropped before: it is never
/// half done.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// A write that has its place. It is done whether or not anybody waits for it.
pub struct Posted<T> {
    store: Store,
    unsent: Option<Message>,
    answer: oneshot::Receiver<Result<T>>,
}

impl<T> Posted<T> {
    pub async fn written(mut self) -> Result<T> {
        if let Some(message) = self.unsent.take() {
            self.store.send(message).await?;
        }
        answered(&mut self.answer).await
    }
}

impl<T> Drop for Posted<T> {
    fn drop(&mut self) {
        let Some(message) = self.unsent.take() else { return };
        let lost = || warn!("too many writes are waiting: something that happened is not written down");
        let Ok(runtime) = Handle::try_current() else { return lost() };
        let store = self.store.clone();
        // It ends by itself: it waits for its place no longer than any write.
        runtime.spawn(async move {
            if store.send(message).await.is_err() {
                lost();
            }
        });
    }
}

/// What the writer says.
pub(super) async fn answered<T>(
    answer: impl Future<Output = std::result::Result<Result<T>, oneshot::error::RecvError>>,
) -> Result<T> {
    answer.await.unwrap_or(Err(StoreError::Broken))
}

struct Shared {
    queue: mpsc::Sender<Message>,
    readers: Readers,
    head: watch::Receiver<u64>,
    feed: Feed,
    /// Told when the write-ahead log may hold what should be gone.
    stale: Notify,
    /// Bytes that were written to the log in bulk and not folded since.
    unfolded: AtomicUsize,
    much: Notify,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens or makes the database, and starts its writer. Blocks.
    pub fn open(path: &Path) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, None)
    }

    /// The same with room set aside on its disk, so that it goes on when that is full.
    pub fn open_on(path: &Path, disk: DiskRoom) -> std::result::Result<Self, OpenError> {
        Self::open_with(path, Some(disk))
    }

    fn open_with(path: &Path, disk: Option<DiskRoom>) -> std::result::Result<Self, OpenError> {
        let conn = {
            let _in_place = path.parent().and_then(InPlace::below);
            open_writer(path)?
        };
        let journal = JournalRoom::new(path, disk);
        let newest = newest_seq(&conn).map_err(OpenError::Store)?;
        let (head_in, head) = watch::channel(newest);
        let (queue, jobs) = mpsc::channel(limits::WRITE_QUEUE_MAX);
        let feed = Feed::new(newest);
        let writer = Writer { conn, journal, queue: jobs, head: head_in, feed: feed.clone(), failing: false };
        let thread = thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| OpenError::Io { what: "start the writer of the database", source })?;
        let readers = Readers::new(path.to_owned());
        let stale = Notify::new();
        // Whatever was open here before may have left something.
        stale.notify_one();
        let (unfolded, much) = (AtomicUsize::new(0), Notify::new());
        let thread = Mutex::new(Some(thread));
        let shared = Shared { queue, readers, head, feed, stale, unfolded, much, thread };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Writes what is queued, folds the log into the file and closes it. Other handles get
    /// [`StoreError::Closed`] from then on.
    pub async fn close(self) {
        self.shared.readers.close().await;
        // Closed already when this fails.
        let _ = self.shared.queue.send(Message::Close).await;
        let thread = self.shared.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => error!("the writer of the database panicked"),
        }
    }

    /// The newest committed event: when it grows, there is more to read.
    pub fn head(&self) -> watch::Receiver<u64> {
        self.shared.head.clone()
    }

    /// The newest number of the log, or any that is known and not less than `enough`. A reader of the log may
    /// have seen what the head does not say yet.
    pub async fn newest(&self, enough: u64) -> Result<u64> {
        let known = *self.shared.head.borrow();
        if known >= enough { Ok(known) } else { self.read(newest_seq).await }
    }

    pub(super) fn stale(&self) -> &Notify {
        &self.shared.stale
    }

    pub(super) fn much(&self) -> &Notify {
        &self.shared.much
    }

    /// Much was written: from time to time it is folded.
    pub(super) fn wrote(&self, bytes: usize) {
        if self.shared.unfolded.fetch_add(bytes, Ordering::Relaxed) + bytes > limits::FOLD_AFTER_BYTES {
            self.shared.unfolded.store(0, Ordering::Relaxed);
            self.shared.much.notify_one();
        }
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    pub(super) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (job, answer) = Write::job(name, work);
        self.send(Message::Job(job)).await?;
        answered(answer).await
    }

    /// The same in the order of the calls: it has its place in the queue when this returns.
    pub(super) fn post<T, F>(&self, name: &'static str, work: F) -> Posted<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        let (job, answer) = Write::job(name, work);
        let unsent = match self.shared.queue.try_send(Message::Job(job)) {
            Ok(()) => None,
            Err(TrySendError::Full(message) | TrySendError::Closed(message)) => Some(message),
        };
        Posted { store: self.clone(), unsent, answer }
    }

    pub(super) async fn send(&self, message: Message) -> Result<()> {
        let wait = Duration::from_millis(limits::WRITE_WAIT_MAX_MS);
        self.shared.queue.send_timeout(message, wait).await.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => StoreError::Busy,
            SendTimeoutError::Closed(_) => StoreError::Closed,
        })
    }

    pub(super) async fn read<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
    {
        self.shared.readers.read(work).await
    }
}
