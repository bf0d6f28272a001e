//! Records decisions as events of their sandbox, and the bytes that sandboxes move. The proxy only counts in
//! memory; one task writes to the store. Bytes are written while they flow, so that a killed hostd loses only
//! the last moments; events report them when a connection ends.

use super::limits::{BYTES_FLUSH_MS, FINAL_FLUSH_MAX_MS};
use hostd_core::egress::{EgressEvent, EventAggregator, EventCounts, EventKey};
use hostd_store::{Clock, EgressFact, Store, StoreError};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Counts events and bytes, and writes them. Cheap to clone.
#[derive(Clone)]
pub struct EgressRecorder {
    inner: Arc<RecorderInner>,
}

struct RecorderInner {
    aggregator: Mutex<EventAggregator>,
    /// Bytes that are not in the store yet.
    unwritten: Mutex<HashMap<SandboxId, Arc<AtomicU64>>>,
    /// Held while bytes move from `unwritten` into the store: under this lock they are in exactly one of the
    /// two.
    writing: tokio::sync::Mutex<()>,
    events_due: Notify,
    bytes_counted: Notify,
    clock: Clock,
    store: Store,
}

impl EgressRecorder {
    pub fn new(store: Store) -> Self {
        let (aggregator, writing) = (Mutex::default(), tokio::sync::Mutex::default());
        let (events_due, bytes_counted, clock) = (Notify::new(), Notify::new(), Clock::new());
        let unwritten = Mutex::default();
        Self {
            inner: Arc::new(RecorderInner {
                aggregator,
                unwritten,
                writing,
                events_due,
                bytes_counted,
                clock,
                store,
            }),
        }
    }

    /// The byte counter of a sandbox.
    pub fn meter(&self, sandbox: SandboxId) -> ByteMeter {
        ByteMeter { bytes: self.unwritten().entry(sandbox).or_default().clone(), recorder: self.clone() }
    }

    pub fn record(&self, key: EventKey, counts: EventCounts) {
        let now_ms = self.inner.clock.now_ms();
        if self.aggregator().add(key, counts, now_ms) {
            self.inner.events_due.notify_one();
        }
    }

    /// Bytes of all connections, written or not.
    pub async fn used_bytes(&self, sandbox: &SandboxId) -> Result<u64, StoreError> {
        let _writing = self.inner.writing.lock().await;
        let stored = self.inner.store.egress_bytes(sandbox).await?;
        let unwritten = self.unwritten().get(sandbox).map_or(0, |bytes| bytes.load(Ordering::Relaxed));
        Ok(stored.saturating_add(unwritten))
    }

    /// Writes until `closing`, and then the rest.
    pub async fn run(&self, closing: CancellationToken) {
        let mut flush_at: Option<Instant> = None;
        loop {
            let next_due_ms = self.aggregator().next_due_ms();
            let wait = async {
                match next_due_ms {
                    Some(at_ms) => {
                        let wait_ms = at_ms.saturating_sub(self.inner.clock.now_ms());
                        sleep(Duration::from_millis(wait_ms)).await;
                    }
                    None => pending().await,
                }
            };
            tokio::select! {
                // Cancelling any arm loses nothing: all only wait, and the counts are in the aggregator.
                () = closing.cancelled() => break,
                () = wait => {}
                () = self.inner.events_due.notified() => {}
                () = self.inner.bytes_counted.notified(), if flush_at.is_none() => {
                    flush_at = Some(Instant::now() + Duration::from_millis(BYTES_FLUSH_MS));
                    continue;
                }
                () = sleep_until(flush_at.unwrap_or_else(Instant::now)), if flush_at.is_some() => {}
            }
            self.write(false).await;
            flush_at = None;
        }
        self.finish().await;
    }

    /// Writes the rest, with a timeout.
    pub async fn finish(&self) {
        let last = Duration::from_millis(FINAL_FLUSH_MAX_MS);
        if timeout(last, self.write(true)).await.is_err() {
            warn!("timed out writing the last egress events");
        }
    }

    async fn write(&self, last: bool) {
        let _writing = self.inner.writing.lock().await;
        let now_ms = self.inner.clock.now_ms();
        let due = self.aggregator().due(now_ms, last);
        let bytes_by_sandbox = self.take_unwritten();
        if due.is_empty() && bytes_by_sandbox.is_empty() {
            return;
        }
        let fact = |event: EgressEvent| EgressFact {
            sandbox: event.key.sandbox,
            task: event.key.by.as_ref().and_then(|by| by.task().cloned()),
            data: serde_json::to_value(&event).unwrap_or_default(),
        };
        let facts = due.iter().cloned().map(fact).collect();
        if let Err(error) = self.inner.store.record_egress(facts, bytes_by_sandbox.clone(), now_ms).await {
            warn!(%error, "failed to write egress events and byte counts");
            for (sandbox, bytes) in bytes_by_sandbox {
                self.meter(sandbox).add(bytes);
            }
            // Both are due again, with what is counted meanwhile.
            let mut aggregator = self.aggregator();
            for EgressEvent { key, counts } in due {
                aggregator.add(key, counts, now_ms);
            }
        }
    }

    /// Takes the unwritten bytes of every sandbox. Sandboxes without a meter are forgotten.
    fn take_unwritten(&self) -> Vec<(SandboxId, u64)> {
        let mut bytes_by_sandbox = Vec::new();
        self.unwritten().retain(|sandbox, bytes| {
            let taken = bytes.swap(0, Ordering::Relaxed);
            bytes_by_sandbox.extend((taken > 0).then_some((*sandbox, taken)));
            Arc::strong_count(bytes) > 1
        });
        bytes_by_sandbox
    }

    fn unwritten(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<AtomicU64>>> {
        self.inner.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn aggregator(&self) -> MutexGuard<'_, EventAggregator> {
        self.inner.aggregator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what one sandbox sends and receives.
pub struct ByteMeter {
    bytes: Arc<AtomicU64>,
    recorder: EgressRecorder,
}

impl ByteMeter {
    pub fn add(&self, bytes: u64) {
        // Only the first bytes after a write must wake the writer.
        if bytes > 0 && self.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.recorder.inner.bytes_counted.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostd_store::{
        EventFilter,
        fixture::{no_room_for, with_one},
    };

    #[tokio::test]
    async fn what_could_not_be_written_is_written_later_and_counts_all_the_time() {
        const UPDATED: &str = "egress_bytes ON sandboxes";
        let (_dir, store, sandbox) = with_one().await;
        let recorder = EgressRecorder::new(store.clone());
        let key = EventKey {
            sandbox,
            verdict: "allowed",
            host: "a".to_owned(),
            port: 443,
            rule: "public".to_owned(),
            profile: None,
            by: None,
            error: None,
        };
        recorder.record(
            key,
            EventCounts { times: 1, ended: 1, bytes_up: 5, bytes_down: 7, ..EventCounts::default() },
        );
        recorder.meter(sandbox).add(12);
        no_room_for(&store, UPDATED, true).await;
        recorder.write(true).await;
        assert_eq!(recorder.used_bytes(&sandbox).await.expect("read"), 12);
        no_room_for(&store, UPDATED, false).await;
        recorder.write(true).await;
        assert_eq!(store.egress_bytes(&sandbox).await.expect("read"), 12, "once");
        assert_eq!(recorder.used_bytes(&sandbox).await.expect("read"), 12);
    }

    #[tokio::test]
    async fn bytes_are_written_while_they_flow_and_no_event_reports_them() {
        let (_dir, store, sandbox) = with_one().await;
        let recorder = EgressRecorder::new(store.clone());
        let meter = recorder.meter(sandbox);
        let closing = CancellationToken::new();
        let (running, until) = (recorder.clone(), closing.clone());
        let run = tokio::spawn(async move { running.run(until).await });
        meter.add(10);
        meter.add(5);
        assert_eq!(recorder.used_bytes(&sandbox).await.expect("read"), 15, "at once");
        let written = async {
            while store.egress_bytes(&sandbox).await.expect("read") < 15 {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), written).await.expect("though nothing has ended");
        let events = store.events(EventFilter::default(), 0, 10).await.expect("the log");
        assert!(events.iter().all(|event| event.kind != "egress"), "{events:?}");
        closing.cancel();
        run.await.expect("it ends");
        // Bytes of the last connections, closed after the recorder has ended.
        meter.add(5);
        recorder.finish().await;
        assert_eq!(store.egress_bytes(&sandbox).await.expect("read"), 20);
        drop(meter);
        recorder.write(false).await;
        assert!(recorder.unwritten().is_empty(), "forgotten");
    }
}
