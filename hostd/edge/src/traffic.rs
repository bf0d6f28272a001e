//! Counts what browsers do with the previews of one sandbox, for its idle policy. Decides nothing.
//!
//! Order: record the activity here, then take the lease, then forward. The actor that puts
//! the sandbox to sleep reads these counters after it has looked for leases.

use hostd_core::{HeartbeatDetector, IdleTimes};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Times are milliseconds of a clock that starts at this value, so that activity can lie before its start.
const BEGIN_MS: u64 = 1 << 40;

/// Shared by the edge, which records, and the actor of the sandbox, which reads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic {
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct Counters {
    start: Instant,
    /// The last activity of a user.
    last_ms: AtomicU64,
    /// The last byte that moved, whether it counts as activity or not.
    moved_ms: AtomicU64,
    /// The end of the last stream.
    alone_ms: AtomicU64,
    /// The last activity inside; only the actor of the sandbox writes it.
    inside_ms: AtomicU64,
    streams: AtomicUsize,
}

impl Default for Traffic {
    /// No activity so far, and nothing known of the inside.
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
    /// Records activity of a user.
    pub fn touch(&self) {
        self.record_activity(self.now_ms());
    }

    fn record_activity(&self, now_ms: u64) {
        self.counters.last_ms.fetch_max(now_ms, Ordering::SeqCst);
        self.counters.moved_ms.fetch_max(now_ms, Ordering::SeqCst);
    }

    /// Records that the sandbox is woken: it stays awake for a moment, but this is no activity.
    pub fn record_wake(&self) {
        self.counters.moved_ms.fetch_max(self.now_ms(), Ordering::SeqCst);
    }

    /// Records that the last activity inside was so long ago.
    pub fn record_inside_activity(&self, ago_ms: u64) {
        self.counters.inside_ms.store(self.now_ms().saturating_sub(ago_ms), Ordering::SeqCst);
    }

    /// Time since the last activity of a user.
    pub fn silent_for(&self) -> Duration {
        Duration::from_millis(self.quiet().silent_ms)
    }

    /// The open responses and upgraded connections.
    pub fn streams(&self) -> usize {
        self.counters.streams.load(Ordering::SeqCst)
    }

    /// For how long nothing happened, in several senses.
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

    /// Counts one more open stream until it is dropped. Opening one is activity.
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

/// An open response or upgraded connection of a preview.
#[derive(Debug)]
pub struct PreviewStream {
    traffic: Traffic,
    heartbeat: HeartbeatDetector,
}

impl PreviewStream {
    /// Records bytes that came from the browser or went to it. The heartbeat of a page is no activity.
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
        // The time is written before the count, so that a reader never sees a sandbox without streams for too
        // long a time.
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
        assert!(traffic.quiet().silent_ms > BEGIN_MS, "no activity yet");
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
    async fn a_sandbox_is_alone_since_its_last_stream_ended() {
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
