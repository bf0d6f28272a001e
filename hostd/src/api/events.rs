//! The event log: as a page, or followed as server-sent events.

use super::{
    call::Call,
    failure::{Answer, Failure},
    sse::Subscriber,
    views::{self, ok},
};
use crate::store::EventFilter;
use protocol::api::SandboxId;

const SSE: &str = "text/event-stream";
const LAST_EVENT_ID: &str = "last-event-id";

/// Everything the caller may see; followed unless JSON is asked for.
pub async fn all(call: Call) -> Answer {
    let sandbox = match call.query.text("sandbox") {
        Some(id) => Some(call.sandbox_by(id).await?.id),
        None => None,
    };
    let follows = call.accepts(SSE) || !call.accepts("application/json");
    answer(&call, sandbox, call.query.flag("follow", follows)?).await
}

/// Of one sandbox, destroyed or not; a page unless it is to be followed.
pub async fn of_sandbox(call: Call) -> Answer {
    let id = call.sandbox().await?.id;
    let follows = call.query.flag("follow", call.accepts(SSE))?;
    answer(&call, Some(id), follows).await
}

async fn answer(call: &Call, sandbox: Option<SandboxId>, follows: bool) -> Answer {
    let (tenant, principal) = call.sight();
    let kinds = call.query.text("kind").unwrap_or_default();
    let kinds = kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()).map(str::to_owned).collect();
    let filter = EventFilter { tenant, principal, sandbox, kinds };
    let after = after(call)?;
    let store = call.api.fleet.store();
    if follows {
        return Ok(Subscriber::new(store, &call.api.closing, filter, after).response());
    }
    let limit = call.query.limit()?;
    let records = store.events(filter, after, limit).await?;
    Ok(ok(&views::page(&records, limit, views::event, |record| record.seq.to_string())))
}

/// Where to go on: what the client saw last, else what it asks for, else the beginning.
fn after(call: &Call) -> Result<u64, Failure> {
    let Some(seen) = call.headers.get(LAST_EVENT_ID) else {
        return Ok(call.query.number("after")?.unwrap_or(0));
    };
    let number = seen.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Failure::invalid("Last-Event-ID", "must be the number of an event"))
}
