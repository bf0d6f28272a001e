//! The status of a sandbox, as it is shown to code inside it, and the cache of it.

use super::limits::{STATUS_FRESH_MS, STATUS_MAX_MS};
use hostd_core::{Previews, rfc3339};
use hostd_drivers::{Driver, control::Control};
use hostd_store::SandboxRecord;
use protocol::{
    Reason, ServiceName, ServiceState, ServiceView, Status, TaskId,
    api::{Phase, SandboxId, SandboxStatus},
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, watch};

/// The sandbox that a listener serves.
pub struct ServedSandbox {
    record: watch::Receiver<Arc<SandboxRecord>>,
    control: Control,
    pub(super) driver: Arc<dyn Driver>,
    /// However many requests come, runtimed is asked once at a time, and not more often than
    /// `STATUS_FRESH_MS`.
    fetching: Semaphore,
    cached: Mutex<Option<(Instant, Arc<Status>)>>,
}

/// The response to `GET /`.
#[derive(Debug, Clone, Serialize)]
pub struct StatusView {
    pub id: SandboxId,
    pub name: String,
    pub status: SandboxStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub previews: BTreeMap<String, String>,
    /// The status that PID 1 reports; absent when it does not answer.
    #[serde(flatten)]
    pub inner: Option<InnerView>,
}

#[derive(Debug, Clone, Serialize)]
pub struct InnerView {
    pub services: Vec<ServiceSummary>,
    /// Tasks that are queued or running.
    pub tasks: Vec<TaskId>,
    pub busy: bool,
    /// Since when the sandbox is busy, or idle.
    pub since: String,
    /// Why the sandbox is awake; empty when it is idle.
    pub reasons: Vec<Reason>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ServiceSummary {
    pub name: ServiceName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(flatten)]
    pub state: ServiceState,
    pub restarts: u64,
}

impl ServedSandbox {
    pub fn new(
        record: watch::Receiver<Arc<SandboxRecord>>,
        control: Control,
        driver: Arc<dyn Driver>,
    ) -> Self {
        Self { record, control, driver, fetching: Semaphore::new(1), cached: Mutex::default() }
    }

    /// Watches the record of the sandbox.
    pub(super) fn watch(&self) -> watch::Receiver<Arc<SandboxRecord>> {
        self.record.clone()
    }

    pub fn id(&self) -> SandboxId {
        self.record.borrow().id
    }

    pub(super) async fn status(&self, previews: &Previews) -> StatusView {
        let status = self.fetch().await;
        let record = self.record.borrow().clone();
        StatusView {
            id: record.id,
            name: record.name.clone(),
            status: record.state.status,
            phase: record.state.operation.as_ref().map(|operation| operation.phase),
            previews: previews.of(&record.id, &record.blueprint.ports),
            inner: status.map(|status| inner(&status)),
        }
    }

    async fn fetch(&self) -> Option<Arc<Status>> {
        let _permit = self.fetching.acquire().await.ok()?;
        if let Some((at, status)) = self.cached().clone()
            && at.elapsed() < Duration::from_millis(STATUS_FRESH_MS)
        {
            return Some(status);
        }
        let reply = self.control.get::<Status>("/v1/status", Duration::from_millis(STATUS_MAX_MS)).await;
        let status = Arc::new(reply.ok()?);
        *self.cached() = Some((Instant::now(), status.clone()));
        Some(status)
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Arc<Status>)>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn inner(status: &Status) -> InnerView {
    let activity = &status.activity;
    let task = |reason: &Reason| match reason {
        Reason::Task { task } => Some(task.clone()),
        Reason::Exec { .. }
        | Reason::Viewers { .. }
        | Reason::Tunnels { .. }
        | Reason::Files { .. }
        | Reason::Hold { .. }
        | Reason::ServiceStarting { .. }
        | Reason::Cpu { .. }
        | Reason::Preview { .. } => None,
    };
    InnerView {
        services: status.services.iter().map(line).collect(),
        tasks: activity.reasons.iter().filter_map(task).collect(),
        busy: activity.busy,
        since: rfc3339(activity.since_ms),
        reasons: activity.reasons.clone(),
    }
}

fn line(service: &ServiceView) -> ServiceSummary {
    ServiceSummary {
        name: service.name.clone(),
        port: service.port,
        state: service.state.clone(),
        restarts: service.restarts,
    }
}
