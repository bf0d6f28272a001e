//! Writes the audit log: a row for every call that changes something and every call that was refused. One
//! task writes the rows after the response was sent. Refused calls beyond a rate are only counted, so that a
//! flood of them cannot fill the disk.

use super::{limits, metrics::ApiMetrics};
use hostd_core::{Identity, RateLimiter};
use hostd_store::{AuditRecord, Clock, Store};
use hyper::Method;
use std::{sync::Mutex, time::Duration};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub struct AuditWriter {
    queue: mpsc::Sender<AuditRecord>,
    clock: Clock,
    metrics: ApiMetrics,
    refusal_rate: Mutex<RateLimiter>,
    stop: CancellationToken,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl AuditWriter {
    pub fn start(store: Store, clock: Clock, metrics: ApiMetrics) -> Self {
        let (queue, rows) = mpsc::channel(limits::AUDIT_QUEUE_MAX);
        let stop = CancellationToken::new();
        let writer = tokio::spawn(write_rows(store, rows, stop.clone()));
        let refusal_rate = Mutex::new(RateLimiter::new(limits::AUDIT_REFUSALS_RATE, clock.now_ms()));
        Self { queue, clock, metrics, refusal_rate, stop, writer: Mutex::new(Some(writer)) }
    }

    /// Records a call that changed something, or tried to. Waits while the queue is full.
    pub async fn record_action(&self, mut row: AuditRecord) {
        row.time_ms = self.clock.now_ms();
        if self.queue.send(row).await.is_err() {
            self.count_dropped();
        }
    }

    pub fn record_refusal(&self, mut row: AuditRecord) {
        row.time_ms = self.clock.now_ms();
        let allowed = self.refusal_rate.lock().expect("no panic while held").try_acquire(row.time_ms);
        if !allowed || self.queue.try_send(row).is_err() {
            self.count_dropped();
        }
    }

    fn count_dropped(&self) {
        self.metrics.audit_dropped.inc();
    }

    pub async fn shut_down(&self) {
        self.stop.cancel();
        let writer = self.writer.lock().expect("no panic while held").take();
        if let Some(writer) = writer
            && timeout(Duration::from_millis(limits::DRAIN_MAX_MS), writer).await.is_err()
        {
            warn!("shutdown timed out before all audit rows were written");
        }
    }
}

async fn write_rows(store: Store, mut rows: mpsc::Receiver<AuditRecord>, stop: CancellationToken) {
    let mut batch = Vec::with_capacity(limits::AUDIT_BATCH_MAX);
    loop {
        tokio::select! {
            // Queued rows are written before `stop` is checked; `recv_many` loses nothing when dropped.
            biased;
            _ = rows.recv_many(&mut batch, limits::AUDIT_BATCH_MAX) => {}
            () = stop.cancelled() => return,
        }
        if batch.is_empty() {
            return;
        }
        // Concurrent writes share one commit of the store.
        let mut writes = JoinSet::new();
        for row in batch.drain(..) {
            let store = store.clone();
            writes.spawn(async move { store.audit(row).await });
        }
        for result in writes.join_all().await {
            if let Err(error) = result {
                warn!(error = super::error::error_chain(&error), "failed to write audit row");
            }
        }
    }
}

/// The parts of a request that its audit row repeats.
#[derive(Debug, Clone)]
pub struct AuditedRequest {
    pub request_id: String,
    pub method: Method,
    pub path: String,
    /// The address that it came from.
    pub peer: String,
}

/// What a call is and what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditTarget {
    pub operation: &'static str,
    /// Id or name of the object, from the path.
    pub object: String,
    pub sandbox: String,
}

impl AuditTarget {
    /// Names what the call made, by its id.
    pub fn made(mut self, made: Option<&str>, makes_sandbox: bool) -> Self {
        if let Some(id) = made {
            self.object = shortened(id);
            if makes_sandbox {
                self.sandbox.clone_from(&self.object);
            }
        }
        self
    }

    /// Reads the target of a call from the parameters of its path.
    pub fn of(operation: &'static str, params: &[(&str, &str)]) -> Self {
        // A port is a number and no object.
        let object = params.iter().rfind(|(name, _)| *name != "port");
        let sandbox = params.iter().find(|(name, _)| *name == "id");
        let text =
            |param: Option<&(&str, &str)>| param.map_or_else(String::new, |(_, value)| shortened(value));
        Self { operation, object: text(object), sandbox: text(sandbox).to_ascii_lowercase() }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(limits::AUDIT_OBJECT_MAX_CHARS).collect()
}

impl AuditedRequest {
    /// Builds the row, without its time.
    pub fn row(
        &self,
        caller: Option<&Identity>,
        target: AuditTarget,
        (status, code): (u16, Option<String>),
    ) -> AuditRecord {
        let part = |pick: fn(&Identity) -> String| caller.map_or_else(String::new, pick);
        AuditRecord {
            time_ms: 0,
            tenant: part(|caller| caller.tenant.to_string()),
            principal: part(|caller| caller.principal.to_string()),
            via: part(|caller| caller.via.clone()),
            request_id: self.request_id.clone(),
            method: self.method.to_string(),
            path: self.path.chars().take(512).collect(),
            status,
            code,
            operation: target.operation.to_owned(),
            object: target.object,
            sandbox: target.sandbox,
            peer: self.peer.clone(),
        }
    }
}
