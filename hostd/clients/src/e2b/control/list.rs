//! Lists of sandboxes, filtered and in pages. Slipway's own list has neither metadata nor a total, so that all of the
//! caller's sandboxes are looked through.

use super::{
    call::Call,
    error::E2bError,
    limits,
    view::{ListedSandbox, SandboxState, listed, state},
};
use crate::{
    e2b::record::{self, E2bRecord},
    respond,
};
use axum::response::Response;
use hostd_core::parse_rfc3339;
use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use protocol::api::{SandboxId, SandboxView};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

const NEXT_TOKEN: HeaderName = HeaderName::from_static("x-next-token");
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");

/// What a list selects.
#[derive(Debug, Default)]
struct Filter {
    metadata: BTreeMap<String, String>,
    /// Empty: all.
    states: Vec<SandboxState>,
    template: Option<String>,
    started_after_ms: Option<u64>,
}

impl Filter {
    /// All but the state.
    fn selects(&self, view: &SandboxView, record: &E2bRecord) -> bool {
        let has = |(key, value): (&String, &String)| view.metadata.get(key) == Some(value);
        let is_of = |template: &String| *template == record.template || *template == view.image;
        let started_ms = || parse_rfc3339(&view.created_at);
        self.metadata.iter().all(has)
            && self.template.as_ref().is_none_or(is_of)
            && self.started_after_ms.is_none_or(|after_ms| started_ms().is_some_and(|ms| ms >= after_ms))
    }

    fn has_state(&self, state: SandboxState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Sandboxes that run.
pub async fn list_all(call: &Call) -> Result<Response, E2bError> {
    let filter = Filter { states: vec![SandboxState::Running], ..filter(call)? };
    let (found, _) = found(call, &filter).await?;
    let now_ms = call.now_ms();
    let items: Vec<ListedSandbox> = found.iter().map(|(view, record)| listed(view, record, now_ms)).collect();
    Ok(respond::json(StatusCode::OK, &items))
}

pub async fn list(call: &Call) -> Result<Response, E2bError> {
    let filter = filter(call)?;
    let ascending = match call.query.text("order") {
        None | Some("desc") => false,
        Some("asc") => true,
        Some(_) => return Err(E2bError::invalid("order must be asc or desc")),
    };
    let (mut found, running) = found(call, &filter).await?;
    if ascending {
        found.reverse();
    }
    if let Some(token) = call.query.text("nextToken") {
        let after: SandboxId =
            token.parse().map_err(|_| E2bError::invalid("nextToken: this is no token of a page"))?;
        let follows = |id: &str| if ascending { id > after.as_str() } else { id < after.as_str() };
        found.retain(|(view, _)| follows(view.id.as_str()));
    }
    let now_ms = call.now_ms();
    let id = |(view, _): &(SandboxView, E2bRecord)| view.id.to_string();
    let mut response = paged(call, found, id, |(view, record)| listed(&view, &record, now_ms))?;
    response.headers_mut().insert(TOTAL_RUNNING, HeaderValue::from(running));
    Ok(response)
}

/// One page of what was found, with the token of the next one.
pub fn paged<T, V: Serialize>(
    call: &Call,
    mut found: Vec<T>,
    id: impl Fn(&T) -> String,
    view: impl Fn(T) -> V,
) -> Result<Response, E2bError> {
    let limit = call.query.number("limit")?.unwrap_or(limits::PAGE_MAX as u64);
    if limit == 0 {
        return Err(E2bError::invalid("limit must be at least 1"));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX).min(limits::PAGE_MAX);
    let is_last = found.len() <= limit;
    found.truncate(limit);
    let next = found.last().filter(|_| !is_last).map(id);
    let items: Vec<V> = found.into_iter().map(view).collect();
    let mut response = respond::json(StatusCode::OK, &items);
    if let Some(token) = next.and_then(|id| HeaderValue::try_from(id).ok()) {
        response.headers_mut().insert(NEXT_TOKEN, token);
    }
    Ok(response)
}

fn filter(call: &Call) -> Result<Filter, E2bError> {
    let state = |text: &str| match text {
        "running" => Ok(SandboxState::Running),
        "paused" => Ok(SandboxState::Paused),
        _ => Err(E2bError::invalid("state must be running or paused")),
    };
    let time = |text: &str| {
        parse_rfc3339(text).ok_or_else(|| E2bError::invalid("startedAfter must be a time as in RFC 3339"))
    };
    Ok(Filter {
        metadata: call.query.nested("metadata")?,
        states: call.query.list("state").map(state).collect::<Result<_, _>>()?,
        template: call.query.text("template").map(str::to_owned),
        started_after_ms: call.query.text("startedAfter").map(time).transpose()?,
    })
}

/// What the filter selects, newest first, and how many of them run, whatever states it asks for.
async fn found(call: &Call, filter: &Filter) -> Result<(Vec<(SandboxView, E2bRecord)>, usize), E2bError> {
    let views: Vec<SandboxView> = call.all("/v1/sandboxes", "").await?;
    let ids = views.iter().map(|view| view.id).collect();
    let mut records: HashMap<SandboxId, E2bRecord> =
        record::load_all(&call.clients, ids).await?.into_iter().collect();
    let mut found = Vec::new();
    let mut running = 0;
    for view in views {
        let (record, state) = (records.remove(&view.id).unwrap_or_default(), state(&view));
        if state == SandboxState::Gone || !filter.selects(&view, &record) {
            continue;
        }
        running += usize::from(state == SandboxState::Running);
        if filter.has_state(state) {
            found.push((view, record));
        }
    }
    Ok((found, running))
}
