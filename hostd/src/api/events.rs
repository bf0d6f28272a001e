//! The event log: as a page, or followed as server-sent events.

use super::{
    call::Call,
    error::{CallError, CallResult},
    limits,
    param::{self, NUMBER_MAX},
    sse_writer::SseSubscriber,
    views::{no_content, ok},
};
use hostd_store::{EventFilter, Store, TaskRecord, frame_data};
use protocol::api::{ApiError, ApiErrorCode, Page, SandboxId};
use serde_json::Value;

const SSE: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";

/// All events the caller may see; followed unless JSON is requested.
pub async fn all(call: Call) -> CallResult {
    let after = cursor(&call).await?;
    let sandbox = match call.query.text("sandbox") {
        Some(id) => Some(call.sandbox_by(id).await?.id),
        None => None,
    };
    let task = match (call.query.text("task"), sandbox) {
        (None, _) => None,
        (Some(task), Some(sandbox)) => Some(call.task_by(&sandbox, task).await?),
        (Some(_), None) => return Err(CallError::invalid("sandbox", "give the sandbox of the task")),
    };
    let follow = call.accepts(SSE) || !call.accepts("application/json");
    let follow = call.query.flag("follow", follow)?;
    respond(&call, EventScope { sandbox, task, beside: true }, after, follow).await
}

/// Events of one sandbox, destroyed or not; a page unless `follow` is requested.
pub async fn of_sandbox(call: Call) -> CallResult {
    let after = cursor(&call).await?;
    let scope = EventScope { sandbox: Some(call.sandbox().await?.id), task: None, beside: false };
    let follow = call.query.flag("follow", call.accepts(SSE))?;
    respond(&call, scope, after, follow).await
}

/// Events of one task, whatever its sandbox's state; followed to their end unless JSON is requested.
pub async fn of_task(call: Call) -> CallResult {
    let after = cursor(&call).await?;
    let task = call.task().await?;
    let follow = call.accepts(SSE) || !call.accepts("application/json");
    let follow = call.query.flag("follow", follow)?;
    respond(&call, EventScope { sandbox: Some(task.sandbox), task: Some(task), beside: false }, after, follow)
        .await
}

/// The events that are requested.
struct EventScope {
    sandbox: Option<SandboxId>,
    /// Read after the cursor was clamped: an end that this record does not have yet comes after the cursor.
    task: Option<TaskRecord>,
    /// Also events of hostd about the task, beside those of its agent.
    beside: bool,
}

fn has_seen_the_end(task: &TaskRecord, after: u64) -> bool {
    task.done_seq.is_some_and(|done| after >= done)
}

async fn respond(call: &Call, scope: EventScope, after: u64, follow: bool) -> CallResult {
    if follow && scope.task.as_ref().is_some_and(|task| has_seen_the_end(task, after)) {
        // 204 tells a browser's EventSource not to reconnect.
        return Ok(no_content());
    }
    let (tenant, principal) = call.tenant_filter();
    let kinds = call.query.text("kind").unwrap_or_default();
    let kinds: Vec<String> =
        kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()).map(str::to_owned).collect();
    let (task, beside) = (scope.task.map(|task| task.number), scope.beside);
    let filter =
        EventFilter { tenant, principal, sandbox: scope.sandbox, task, with_host_events: beside, kinds };
    let store = &call.api.store;
    check_history(store, &filter, after).await?;
    if follow {
        return Ok(SseSubscriber::new(call, filter, after)?.response());
    }
    let limit = call.query.limit()?;
    let (items, more) = list(store, &filter, after, limit).await?;
    let next = items.last().filter(|_| more).map(|last| last["seq"].to_string());
    Ok(ok(&Page { items, next }))
}

/// Refuses to resume where events were deleted since. A reader from the beginning gets what is kept.
async fn check_history(store: &Store, filter: &EventFilter, after: u64) -> Result<(), CallError> {
    let oldest = if after == 0 { 0 } else { store.trimmed_through(filter).await? };
    if after >= oldest {
        return Ok(());
    }
    let message =
        format!("events up to {oldest} were deleted, by age or beyond a quota: resume after that one");
    let error = ApiError::new(ApiErrorCode::HistoryGone, message);
    Err(error.with(|detail| detail.oldest = Some(oldest.to_string())).into())
}

/// Returns up to `limit` events, or as many as fit into one response; and whether there are more.
async fn list(
    store: &Store,
    filter: &EventFilter,
    mut after: u64,
    limit: usize,
) -> Result<(Vec<Value>, bool), CallError> {
    let (mut items, mut bytes) = (Vec::new(), 0);
    loop {
        let part = store.log(filter.clone(), after).await?;
        for batch in &part.batches {
            let frames = batch.select(after, &filter.kinds);
            for data in frame_data(&frames) {
                if items.len() >= limit || bytes >= limits::EVENTS_PAGE_MAX_BYTES {
                    return Ok((items, true));
                }
                bytes += data.len();
                items.extend(serde_json::from_slice::<Value>(data).ok());
            }
        }
        // No progress: the end of the log.
        if part.through <= after {
            return Ok((items, false));
        }
        after = part.through;
    }
}

/// The event to resume after: `Last-Event-ID`, else the query, else the beginning. A number larger than any
/// event is clamped to the newest one: otherwise the end of a task would lie before the cursor and never be
/// sent.
async fn cursor(call: &Call) -> Result<u64, CallError> {
    let requested = requested_cursor(call)?;
    Ok(requested.min(call.api.store.newest(requested).await?))
}

fn requested_cursor(call: &Call) -> Result<u64, CallError> {
    let Some(seen) = call.headers.get(LAST_EVENT_ID) else {
        let since = call.query.number("since")?;
        return Ok(since.or(call.query.number("after")?).unwrap_or(0));
    };
    let number = param::number(seen.to_str().unwrap_or_default(), 0, NUMBER_MAX);
    number.map_err(|message| CallError::invalid("Last-Event-ID", message))
}
