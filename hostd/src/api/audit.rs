//! The audit: a row for every call that changes something and every call that was refused. Written by
//! one task, behind the answer. A flood of refused calls cannot fill the disk: beyond a rate they are
//! only counted.

use super::{limits, metrics::Metrics};
use crate::{
    core::{Allowance, Identity},
    reconcile::Clock,
    store::{AuditRecord, Store},
};
use hyper::Method;
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub struct Audit {
    queue: mpsc::Sender<AuditRecord>,
    clock: Clock,
    metrics: Arc<Metrics>,
    refused: Mutex<Allowance>,
    stop: CancellationToken,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    pub fn start(store: Store, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let (queue, rows) = mpsc::channel(limits::AUDIT_QUEUE_MAX);
        let stop = CancellationToken::new();
        let writer = tokio::spawn(write(store, rows, stop.clone()));
        let refused = Mutex::new(Allowance::new(limits::AUDIT_REFUSED, clock.now_ms()));
        Self { queue, clock, metrics, refused, stop, writer: Mutex::new(Some(writer)) }
    }

    /// A call that changed something, or tried to: waits for a place in the queue.
    pub async fn acted(&self, mut row: AuditRecord) {
        row.time_ms = self.clock.now_ms();
        if self.queue.send(row).await.is_err() {
            self.dropped();
        }
    }

    pub fn refused(&self, mut row: AuditRecord) {
        row.time_ms = self.clock.now_ms();
        let allowed = self.refused.lock().expect("no panic while held").take(row.time_ms);
        if !allowed || self.queue.try_send(row).is_err() {
            self.dropped();
        }
    }

    fn dropped(&self) {
        self.metrics.audit_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub async fn finish(&self) {
        self.stop.cancel();
        let writer = self.writer.lock().expect("no panic while held").take();
        if let Some(writer) = writer
            && timeout(Duration::from_millis(limits::DRAIN_MAX_MS), writer).await.is_err()
        {
            warn!("audit rows were lost in the shutdown");
        }
    }
}

async fn write(store: Store, mut rows: mpsc::Receiver<AuditRecord>, stop: CancellationToken) {
    let mut batch = Vec::with_capacity(limits::AUDIT_BATCH_MAX);
    loop {
        tokio::select! {
            // What waits is written before the stop is looked at; `recv_many` loses nothing when dropped.
            biased;
            _ = rows.recv_many(&mut batch, limits::AUDIT_BATCH_MAX) => {}
            () = stop.cancelled() => return,
        }
        if batch.is_empty() {
            return;
        }
        // Together, so that the store commits them together.
        let mut writes = JoinSet::new();
        for row in batch.drain(..) {
            let store = store.clone();
            writes.spawn(async move { store.audit(row).await });
        }
        for result in writes.join_all().await {
            if let Err(error) = result {
                warn!(error = super::failure::chain(&error), "could not write to the audit");
            }
        }
    }
}

/// One call, on its way to become a row.
#[derive(Debug, Clone)]
pub struct Subject {
    pub request_id: String,
    pub method: Method,
    pub path: String,
}

impl Subject {
    /// The row, without its time.
    pub fn row(&self, who: Option<&Identity>, status: u16, code: Option<String>) -> AuditRecord {
        let part = |pick: fn(&Identity) -> String| who.map_or_else(String::new, pick);
        AuditRecord {
            time_ms: 0,
            tenant: part(|who| who.tenant.to_string()),
            principal: part(|who| who.principal.to_string()),
            via: part(|who| who.via.clone()),
            request_id: self.request_id.clone(),
            method: self.method.to_string(),
            path: self.path.chars().take(512).collect(),
            status,
            code,
        }
    }
}
