//! What browsers do with the previews of one sandbox, for whoever decides whether it may sleep. Counts
//! only; decides nothing.
//!
//! Tell first, then ask for the sandbox (`Fleet::awake`), then pass on: whoever puts it to sleep looks here
//! after he looked for leases.

use crate::core::{HeartbeatDetector, IdleTimes};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Times are milliseconds by a clock that was here already when this was made, so that something can have
/// happened before.
const BEGIN_MS: u64 = 1 << 40;

/// Shared by the edge, which tells, and the owner of the sandbox, which asks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic {
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    start: Instant,
    /// When somebody last did something.
    last_ms: AtomicU64,
    /// When a byte last moved, whether it counts or not.
    moved_ms: AtomicU64,
    /// When the last stream ended.
    alone_ms: AtomicU64,
    /// When something last went on inside; only the owner of the sandbox writes it.
    inside_ms: AtomicU64,
    streams: AtomicUsize,
}

impl Default for Traffic {
    /// Nobody was ever here, and nothing is known of the inside.
    fn default() -> Self {
        let counters = Counters {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
            alone_ms: AtomicU64::new(BEGIN_MS),
            inside_ms: AtomicU64::new(BEGIN_MS),
            streams: AtomicUsize::new(0),
        };
        Self { counters: Arc::new(counters) }
    }
}

impl Traffic {
    /// Somebody did something now.
    pub fn touch(&self) {
        self.record_activity(self.now_ms());
    }

    fn record_activity(&self, now_ms: u64) {
        self.counters.last_ms.fetch_max(now_ms, Ordering::SeqCst);
        self.counters.moved_ms.fetch_max(now_ms, Ordering::SeqCst);
    }

    /// It is woken now: it stays awake for a moment, which counts for nothing more.
    pub fn record_wake(&self) {
        self.counters.moved_ms.fetch_max(self.now_ms(), Ordering::SeqCst);
    }

    /// Something went on inside until so long ago.
    pub fn record_inside_activity(&self, ago_ms: u64) {
        self.counters.inside_ms.store(self.now_ms().saturating_sub(ago_ms), Ordering::SeqCst);
    }

    /// Since somebody last did something.
    pub fn silent_for(&self) -> Duration {
        Duration::from_millis(self.quiet().silent_ms)
    }

    /// Answers and upgraded connections that are open.
    pub fn streams(&self) -> usize {
        self.counters.streams.load(Ordering::SeqCst)
    }

    /// For how long nothing happened.
    pub fn quiet(&self) -> IdleTimes {
        let now_ms = self.now_ms();
        let since = |time: &AtomicU64| now_ms.saturating_sub(time.load(Ordering::SeqCst));
        let counters = &self.counters;
        let streams = self.streams();
        IdleTimes {
            streams,
            silent_ms: since(&counters.last_ms),
            still_ms: since(&counters.moved_ms),
            alone_ms: if streams == 0 { since(&counters.alone_ms) } else { 0 },
            inside_ms: since(&counters.inside_ms),
        }
    }

    /// One more, as long as this lives. To open one counts.
    pub fn stream(&self) -> PreviewStream {
        let now_ms = self.now_ms();
        self.record_activity(now_ms);
        self.counters.streams.fetch_add(1, Ordering::SeqCst);
        PreviewStream { traffic: self.clone(), heartbeat: HeartbeatDetector::new(now_ms) }
    }

    fn now_ms(&self) -> u64 {
        let run_ms = u64::try_from(self.counters.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        BEGIN_MS.saturating_add(run_ms)
    }
}

/// An answer, or an upgraded connection, that is open.
#[derive(Debug)]
pub struct PreviewStream {
    traffic: Traffic,
    heartbeat: HeartbeatDetector,
}

impl PreviewStream {
    /// So many bytes came from the browser, or went to it. The heartbeat of a page counts for nothing.
    pub fn record_bytes(&mut self, bytes: usize) {
        let now_ms = self.traffic.now_ms();
        if self.heartbeat.is_activity(bytes, now_ms) {
            self.traffic.record_activity(now_ms);
        } else {
            self.traffic.counters.moved_ms.fetch_max(now_ms, Ordering::SeqCst);
        }
    }
}

impl Drop for PreviewStream {
    fn drop(&mut self) {
        let counters = &self.traffic.counters;
        // The time before the number: nobody is alone for longer than he is.
        counters.alone_ms.fetch_max(self.traffic.now_ms(), Ordering::SeqCst);
        counters.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    async fn elapse(ms: u64) {
        advance(Duration::from_millis(ms)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn requests_and_bytes_end_the_silence_and_heartbeats_do_not() {
        let traffic = Traffic::default();
        elapse(50).await;
        assert!(traffic.quiet().silent_ms > BEGIN_MS, "nobody was here yet");
        traffic.touch();
        elapse(10).await;
        let quiet = traffic.quiet();
        assert_eq!((quiet.silent_ms, quiet.still_ms, quiet.streams), (10, 10, 0));
        let mut stream = traffic.stream();
        assert_eq!(traffic.silent_for(), Duration::ZERO, "to open a stream counts");
        for _ in 0..10 {
            elapse(30_000).await;
            stream.record_bytes(21);
        }
        let quiet = traffic.quiet();
        assert_eq!((quiet.silent_ms, quiet.still_ms, quiet.streams), (300_000, 0, 1));
        elapse(100).await;
        stream.record_bytes(4_000);
        elapse(7).await;
        assert_eq!((traffic.quiet().silent_ms, traffic.quiet().still_ms), (7, 7));
        traffic.record_wake();
        assert_eq!((traffic.quiet().silent_ms, traffic.quiet().still_ms), (7, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_alone_since_the_last_stream_ended() {
        let traffic = Traffic::default();
        elapse(70).await;
        assert_eq!(traffic.quiet().alone_ms, 70);
        let (first, second) = (traffic.stream(), traffic.stream());
        elapse(5).await;
        drop(first);
        assert_eq!((traffic.streams(), traffic.quiet().alone_ms), (1, 0));
        elapse(5).await;
        drop(second);
        elapse(3).await;
        assert_eq!((traffic.streams(), traffic.quiet().alone_ms, traffic.quiet().silent_ms), (0, 3, 13));
    }

    #[tokio::test(start_paused = true)]
    async fn what_went_on_inside_may_be_older_than_this() {
        let traffic = Traffic::default();
        elapse(10).await;
        assert_eq!(traffic.quiet().inside_ms, 10);
        traffic.record_inside_activity(5_000);
        elapse(1).await;
        assert_eq!((traffic.quiet().inside_ms, traffic.quiet().idle_ms()), (5_001, 5_001));
        traffic.record_inside_activity(u64::MAX);
        assert!(traffic.quiet().inside_ms >= BEGIN_MS);
    }
}
