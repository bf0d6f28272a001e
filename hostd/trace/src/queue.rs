//! The queue of spans that have ended. It never blocks: what does not fit is dropped and counted.

use super::span::FinishedSpan;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Records spans. Clones write to the same queue.
#[derive(Debug, Clone)]
pub struct Tracer {
    queue: Sender<FinishedSpan>,
    dropped: Arc<AtomicU64>,
}

/// The other end of the queue.
#[derive(Debug)]
pub struct SpanQueue {
    spans: Receiver<FinishedSpan>,
    dropped: Arc<AtomicU64>,
}

/// A queue of at most `max` spans.
pub fn queue(max: usize) -> (Tracer, SpanQueue) {
    let ((queue, spans), dropped) = (mpsc::channel(max), Arc::<AtomicU64>::default());
    (Tracer { queue, dropped: dropped.clone() }, SpanQueue { spans, dropped })
}

impl Tracer {
    pub(crate) fn record(&self, span: FinishedSpan) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl SpanQueue {
    /// Waits for spans, and takes at most `max` of them; `None` when there is no tracer any more.
    pub async fn take(&mut self, max: usize) -> Option<Vec<FinishedSpan>> {
        let mut taken = Vec::new();
        (self.spans.recv_many(&mut taken, max).await > 0).then_some(taken)
    }

    /// Takes what is there, at most `max`, without waiting.
    pub fn take_ready(&mut self, max: usize) -> Vec<FinishedSpan> {
        std::iter::from_fn(|| self.spans.try_recv().ok()).take(max).collect()
    }

    /// The number of spans that were dropped since it was asked for last.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }
}
