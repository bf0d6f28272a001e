//! The event log: as a page, or followed as server-sent events.

use super::{
    call::Call,
    failure::{Answer, Failure},
    sse::Subscriber,
    views::{no_content, ok},
};
use crate::store::{EventFilter, Store, TaskRecord, data_of};
use protocol::api::{Page, SandboxId};
use serde_json::Value;

const SSE: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";

/// Everything the caller may see; followed unless JSON is asked for.
pub async fn all(call: Call) -> Answer {
    let sandbox = match call.query.text("sandbox") {
        Some(id) => Some(call.sandbox_by(id).await?.id),
        None => None,
    };
    let task = match (call.query.text("task"), sandbox) {
        (None, _) => None,
        (Some(task), Some(sandbox)) => Some(call.task_by(&sandbox, task).await?.number),
        (Some(_), None) => return Err(Failure::invalid("sandbox", "say which sandbox the task is in")),
    };
    let follows = call.accepts(SSE) || !call.accepts("application/json");
    answer(&call, sandbox, task, call.query.flag("follow", follows)?).await
}

/// Of one sandbox, destroyed or not; a page unless it is to be followed.
pub async fn of_sandbox(call: Call) -> Answer {
    let id = call.sandbox().await?.id;
    let follows = call.query.flag("follow", call.accepts(SSE))?;
    answer(&call, Some(id), None, follows).await
}

/// Of one task, whatever became of its sandbox; followed to its end unless JSON is asked for.
pub async fn of_task(call: Call) -> Answer {
    let task = call.task().await?;
    let follows = call.accepts(SSE) || !call.accepts("application/json");
    let follows = call.query.flag("follow", follows)?;
    if follows && has_seen_the_end(&task, after(&call)?) {
        // The word that tells a browser not to come back.
        return Ok(no_content());
    }
    answer(&call, Some(task.sandbox), Some(task.number), follows).await
}

fn has_seen_the_end(task: &TaskRecord, after: u64) -> bool {
    task.done_seq.is_some_and(|done| after >= done)
}

async fn answer(call: &Call, sandbox: Option<SandboxId>, task: Option<i64>, follows: bool) -> Answer {
    let (tenant, principal) = call.sight();
    let kinds = call.query.text("kind").unwrap_or_default();
    let kinds = kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()).map(str::to_owned).collect();
    let filter = EventFilter { tenant, principal, sandbox, task, kinds };
    let after = after(call)?;
    let store = call.api.fleet.store();
    if follows {
        return Ok(Subscriber::new(&call.api, filter, after)?.response());
    }
    let limit = call.query.limit()?;
    let items = list(store, &filter, after, limit).await?;
    let next = items.last().filter(|_| items.len() >= limit).map(|last| last["seq"].to_string());
    Ok(ok(&Page { items, next }))
}

async fn list(store: &Store, filter: &EventFilter, after: u64, limit: usize) -> Result<Vec<Value>, Failure> {
    let mut items = Vec::new();
    let mut after = after;
    loop {
        let part = store.log(filter.clone(), after).await?;
        for batch in &part.batches {
            let frames = batch.select(after, &filter.kinds);
            for data in data_of(&frames).take(limit - items.len()) {
                items.push(serde_json::from_slice(data).map_err(|error| Failure::internal(&error))?);
            }
        }
        // A part that gets no further is the end.
        if items.len() >= limit || part.through <= after {
            return Ok(items);
        }
        after = part.through;
    }
}

/// Where to go on: what the client saw last, else what it asks for, else the beginning.
fn after(call: &Call) -> Result<u64, Failure> {
    let Some(seen) = call.headers.get(LAST_EVENT_ID) else {
        let since = call.query.number("since")?;
        return Ok(since.or(call.query.number("after")?).unwrap_or(0));
    };
    let number = seen.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failure::invalid("Last-Event-ID", "must be the number of an event"))
}
