//! Records what a task changed, before its end is recorded: a client that sees `done` can read the changes, and nothing that
//! happens in the sandbox later changes them. The document comes from runtimed, or from its files where the sandbox
//! does not run.

use super::{
    FleetError,
    runtime_logs::RuntimeLogs,
    task_runner::{TaskError, TaskRunner},
};
use bytes::Bytes;
use hostd_core::{TaskChanges, TaskLine, limits};
use hostd_drivers::control::{Control, ControlError, request};
use hostd_store::{Store, TaskRecord};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Method, Request, body::Incoming};
use protocol::{DOCUMENT_OF_CHANGES, ErrorCode};
use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{task::spawn_blocking, time::timeout};
use tracing::warn;

impl TaskRunner {
    /// Records the changes of a task that is about to end with `lines`. A sandbox that does not give them is asked a
    /// few times; then the task ends without them.
    pub(super) async fn record_changes(
        &self,
        task: &TaskRecord,
        lines: &[TaskLine],
        control: &Control,
    ) -> Result<(), TaskError> {
        let Some(since) = checkpoint(task, lines) else { return Ok(()) };
        let store = self.fleet.store();
        if store.task_changes(self.number).await?.is_some() {
            return Ok(());
        }
        let changes = match document(control, task).await {
            Ok(document) => TaskChanges::parse(&document, &since),
            Err(ControlError::Refused(body)) if is_permanent(body.error.code) => {
                TaskChanges::unavailable(body.error.message.clone(), false)
            }
            Err(error) => {
                if self.changes_tries.fetch_add(1, Ordering::Relaxed) + 1 < limits::CHANGES_TRIES_MAX {
                    return Err(error.into());
                }
                let error = &error as &dyn std::error::Error;
                warn!(sandbox = %self.sandbox, task = self.number, error, "failed to read the changes of a task");
                TaskChanges::unavailable("the sandbox did not report them", false)
            }
        };
        Ok(store.record_task_changes(self.number, changes).await?)
    }
}

/// Records the changes of a task whose sandbox does not run, if its files have them.
pub(super) async fn recover_changes(
    store: &Store,
    logs: &Arc<RuntimeLogs>,
    task: &TaskRecord,
    lines: &[TaskLine],
) -> Result<(), FleetError> {
    let Some(since) = checkpoint(task, lines) else { return Ok(()) };
    if store.task_changes(task.number).await?.is_some() {
        return Ok(());
    }
    let (logs, file) = (logs.clone(), format!("tasks/{}/{DOCUMENT_OF_CHANGES}", task.id));
    let max_bytes = limits::CHANGES_DOCUMENT_MAX_BYTES as u64;
    let read = spawn_blocking(move || logs.bytes(Path::new(&file), max_bytes));
    // A task without the file has no changes to record.
    let Ok(Ok(document)) = read.await else { return Ok(()) };
    Ok(store.record_task_changes(task.number, TaskChanges::parse(&document, &since)).await?)
}

/// The checkpoint that was reported first, before the agent began.
fn checkpoint(task: &TaskRecord, lines: &[TaskLine]) -> Option<String> {
    task.checkpoint.clone().or_else(|| lines.iter().find_map(|line| line.checkpoint.clone()))
}

/// Whether runtimed has no document and will have none. An older one does not know the route.
fn is_permanent(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotFound | ErrorCode::Conflict | ErrorCode::MethodNotAllowed)
}

async fn document(control: &Control, task: &TaskRecord) -> Result<Bytes, ControlError> {
    let request = request(&Method::GET, &format!("/v1/tasks/{}/changes", task.id))
        .body(Empty::new().boxed())
        .map_err(|error| ControlError::Malformed(error.to_string()))?;
    read_document(control, request, limits::CHANGES_READ_MAX_MS).await
}

/// Reads a whole document within a time and a size.
pub async fn read_document(
    control: &Control,
    request: Request<hostd_drivers::control::Body>,
    within_ms: u64,
) -> Result<Bytes, ControlError> {
    let within = Duration::from_millis(within_ms);
    let read = async {
        let body: Incoming = control.stream(request, within).await?.into_body();
        let limited = Limited::new(body, limits::CHANGES_DOCUMENT_MAX_BYTES);
        limited.collect().await.map_err(|error| ControlError::Malformed(error.to_string()))
    };
    let read = timeout(within, read).await.unwrap_or(Err(ControlError::TimedOut(within_ms)));
    Ok(read?.to_bytes())
}
