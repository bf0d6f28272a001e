//! The live event feed: committed events in memory, kept once for any number of subscribers.
//!
//! ```text
//!  writer ──commit──▶ publish ──▶ topic: the newest batches, bounded ──▶ any number of subscribers,
//!                                        └─ older events: event log           each with its own cursor
//! ```
//!
//! A subscriber is a cursor and nothing else. A subscriber that falls behind the ring reads the event log
//! until it has caught up, so slow subscribers cost neither memory nor time of others. A topic exists while
//! it has subscribers.

use super::{event_log::EventBatch, handle::Store, limits, metrics::StoreMetrics};
use hostd_metrics::{Counter, GaugeGuard};
use protocol::api::SandboxId;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::sync::watch;

/// The scope of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    All,
    Sandbox(SandboxId),
    /// A task, by its row number.
    Task(i64),
}

#[derive(Clone)]
pub(super) struct Feed {
    topics: Arc<Mutex<Topics>>,
    metrics: StoreMetrics,
}

#[derive(Default)]
struct Topics {
    /// The sequence number up to which events were published or skipped.
    published: u64,
    followed: HashMap<Topic, Weak<Channel>>,
}

struct Channel {
    ring: Mutex<Ring>,
    newest: watch::Sender<u64>,
    /// How far each subscriber has read, for the metrics. Those of subscribers that left are removed by the next one.
    cursors: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Channel {
    /// How far the slowest subscriber is behind, in sequence numbers.
    fn lag(&self) -> u64 {
        let newest = *self.newest.borrow();
        let cursors = lock(&self.cursors);
        let read = cursors.iter().filter_map(Weak::upgrade).map(|cursor| cursor.load(Relaxed)).min();
        read.map_or(0, |read| newest.saturating_sub(read))
    }

    fn add_cursor(&self, cursor: &Arc<AtomicU64>) {
        let mut cursors = lock(&self.cursors);
        // Seldom enough that each subscriber pays for few others.
        if cursors.len() == cursors.capacity() {
            cursors.retain(|cursor| cursor.strong_count() > 0);
        }
        cursors.push(Arc::downgrade(cursor));
    }
}

/// The newest batches of a topic: every event after `since`.
struct Ring {
    since: u64,
    batches: VecDeque<Arc<EventBatch>>,
    bytes: usize,
}

impl Feed {
    pub(super) fn new(published: u64, metrics: StoreMetrics) -> Self {
        let topics = Topics { published, followed: HashMap::new() };
        Self { topics: Arc::new(Mutex::new(topics)), metrics }
    }

    /// Returns how far events were published, or `None` without subscribers.
    pub(super) fn published_if_followed(&self) -> Option<u64> {
        let topics = lock(&self.topics);
        (!topics.followed.is_empty()).then_some(topics.published)
    }

    /// Publishes batches that reach up to the sequence number `through`.
    pub(super) fn publish(&self, batches: Vec<EventBatch>, through: u64) {
        let mut topics = lock(&self.topics);
        topics.published = through;
        let max_bytes = limits::FEED_MAX_BYTES / topics.followed.len().max(1);
        let max_bytes = max_bytes.clamp(limits::FEED_TOPIC_MIN_BYTES, limits::FEED_TOPIC_MAX_BYTES);
        for batch in batches {
            let batch = Arc::new(batch);
            let of_task = batch.task.map(Topic::Task);
            for topic in
                [Some(Topic::All), Some(Topic::Sandbox(batch.sandbox)), of_task].into_iter().flatten()
            {
                if let Some(channel) = topics.followed.get(&topic).and_then(Weak::upgrade) {
                    lock(&channel.ring).push(batch.clone(), max_bytes);
                    channel.newest.send_replace(batch.last);
                }
            }
        }
    }

    /// How far the slowest of all subscribers is behind, in sequence numbers.
    pub(super) fn lag(&self) -> u64 {
        let topics = lock(&self.topics);
        // Under the lock: a subscriber that leaves counts the users of its channel.
        topics.followed.values().filter_map(Weak::upgrade).map(|channel| channel.lag()).max().unwrap_or(0)
    }

    /// Advances without events that could not be read back: subscribers find them in the event log.
    pub(super) fn skip(&self, through: u64) {
        let mut topics = lock(&self.topics);
        topics.published = through;
        for channel in topics.followed.values().filter_map(Weak::upgrade) {
            *lock(&channel.ring) = Ring::after(through);
            channel.newest.send_replace(through);
        }
    }

    fn subscribe(&self, topic: Topic) -> Subscription {
        let mut topics = lock(&self.topics);
        let published = topics.published;
        let channel = topics.followed.get(&topic).and_then(Weak::upgrade).unwrap_or_else(|| {
            let ring = Mutex::new(Ring::after(published));
            Arc::new(Channel { ring, newest: watch::Sender::new(published), cursors: Mutex::default() })
        });
        // A subscriber that has not read yet is not behind.
        let cursor = Arc::new(AtomicU64::new(u64::MAX));
        channel.add_cursor(&cursor);
        topics.followed.insert(topic, Arc::downgrade(&channel));
        let newest = channel.newest.subscribe();
        Subscription {
            topics: self.topics.clone(),
            topic,
            channel: Some(channel),
            newest,
            cursor,
            log_reads: self.metrics.feed_log_reads.clone(),
            _counted: GaugeGuard::new(&self.metrics.feed_subscribers),
        }
    }
}

impl Store {
    pub fn subscribe(&self, topic: Topic) -> Subscription {
        self.feed().subscribe(topic)
    }
}

impl Ring {
    fn after(since: u64) -> Self {
        Self { since, batches: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, batch: Arc<EventBatch>, max_bytes: usize) {
        self.bytes += batch.frames.len();
        self.batches.push_back(batch);
        while self.bytes > max_bytes && self.batches.len() > 1 {
            let Some(old) = self.batches.pop_front() else { break };
            self.bytes -= old.frames.len();
            self.since = old.last;
        }
    }
}

/// A subscription to one topic.
pub struct Subscription {
    topics: Arc<Mutex<Topics>>,
    topic: Topic,
    /// `Some` until the subscription is dropped.
    channel: Option<Arc<Channel>>,
    newest: watch::Receiver<u64>,
    cursor: Arc<AtomicU64>,
    /// Counts how often only the event log had the next events.
    log_reads: Counter,
    _counted: GaugeGuard,
}

impl Subscription {
    /// Returns the batches after a sequence number, limited to about `max_bytes`, or `None` where only the
    /// event log has them. An event published after this call ends the next [`Subscription::changed`].
    pub fn after(&mut self, after: u64, max_bytes: usize) -> Option<Vec<Arc<EventBatch>>> {
        self.newest.mark_unchanged();
        self.cursor.store(after, Relaxed);
        let ring = lock(&self.channel.as_ref()?.ring);
        if after < ring.since {
            self.log_reads.inc();
            return None;
        }
        let from = ring.batches.partition_point(|batch| batch.last <= after);
        let mut bytes = 0;
        let some = ring.batches.range(from..).take_while(|batch| {
            let fits = bytes == 0 || bytes + batch.frames.len() <= max_bytes;
            bytes += batch.frames.len();
            fits
        });
        Some(some.cloned().collect())
    }

    /// Returns when there may be more.
    pub async fn changed(&mut self) {
        // The sender lives in the channel that this subscription holds.
        let _ = self.newest.changed().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut topics = lock(&self.topics);
        // Dropped under the lock: of two subscribers that leave at once exactly one sees a count of zero, and
        // none joins in between.
        drop(self.channel.take());
        if topics.followed.get(&self.topic).is_some_and(|channel| channel.strong_count() == 0) {
            topics.followed.remove(&self.topic);
        }
    }
}

/// Locks a mutex. A panic elsewhere leaves no state of this module half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
