//! `notifications/cancelled`: ends the command or task that a request started. What it is follows from the id of the
//! request; in which sandbox it runs, the store knows.

use super::{call, session::Session};
use crate::{ApiClient, Clients};
use protocol::{ExecId, TaskId};
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tracing::debug;

/// Cancels what this request started, if it runs.
pub async fn cancel(clients: &Clients, api: &ApiClient, session: &Session, request: &RequestId) {
    let work = call::work_id(clients, session, request);
    // The call cancels by itself as soon as there is something to cancel.
    if clients.mcp.starting.cancel(&work) {
        return;
    }
    if let Some(path) = running_work(clients, &work).await {
        cancel_path(api, &path).await;
    }
}

/// Cancels an exec or a task by its path.
pub async fn cancel_path(api: &ApiClient, path: &str) {
    // Where it has ended meanwhile there is nothing to cancel.
    if let Err(error) = api.post::<_, Value>(&format!("{path}/cancel"), &json!({})).await {
        debug!(%error, path, "cancelled work of a call goes on, or has ended");
    }
}

/// Returns the path of the exec or task with this id that has not ended.
async fn running_work(clients: &Clients, work: &str) -> Option<String> {
    let store = &clients.parts.store;
    let exec = ExecId::parse(work).ok()?;
    if let Ok(Some(sandbox)) = store.sandbox_of_open_exec(&exec).await {
        return Some(format!("/v1/sandboxes/{sandbox}/execs/{exec}"));
    }
    let task = TaskId::parse(work).ok()?;
    let sandbox = store.sandbox_of_open_task(&task).await.ok().flatten()?;
    Some(format!("/v1/sandboxes/{sandbox}/tasks/{task}"))
}
