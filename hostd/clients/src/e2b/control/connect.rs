//! Connect and resume: a sandbox that is paused runs again, with a new timeout, and tokens of its other holders end.
//!
//! ```text
//!  running ── connect ──▶ 200, the timeout is extended
//!  paused ─── connect, resume ──▶ timeout that pauses ─▶ start ─▶ tokens of others end ─▶ timeout as asked ──▶ 201
//! ```
//!
//! A crash between two of these steps leaves a sandbox that is paused, or will be: none is lost, and none runs for ever.

use super::{
    call::Call,
    create::ttl_change,
    error::E2bError,
    lifecycle::extend,
    limits,
    request::Connect,
    view::{self, SandboxState, state},
};
use crate::{
    e2b::record::{self, AtTimeout, E2bRecord},
    respond,
};
use axum::response::Response;
use hyper::{Method, StatusCode};
use protocol::api::{ApiErrorCode, SandboxStatus, SandboxView};

pub async fn connect(call: &Call, id: &str) -> Result<Response, E2bError> {
    let asked: Connect = call.json()?;
    let view = call.sandbox(id).await?;
    if state(&view) == SandboxState::Running && is_kept_running(call, &view).await? {
        extend(call, &view, asked.timeout.unwrap_or(limits::TIMEOUT_DEFAULT_S)).await?;
        return Ok(respond::json(StatusCode::OK, &view::connected(call, &view).await?));
    }
    start(call, id, asked).await
}

pub async fn resume(call: &Call, id: &str) -> Result<Response, E2bError> {
    let asked: Connect = call.json()?;
    if state(&call.sandbox(id).await?) == SandboxState::Running {
        return Err(E2bError::new(StatusCode::CONFLICT, format!("sandbox {id} is already running")));
    }
    start(call, id, asked).await
}

/// Counts as activity, which only a caller that may use the sandbox can cause. False if it does not run any more, or
/// not yet.
async fn is_kept_running(call: &Call, view: &SandboxView) -> Result<bool, E2bError> {
    let path = format!("/v1/sandboxes/{}/keepalive", view.id);
    match call.api.json::<(), SandboxView>(Method::POST, &path, None).await {
        Ok(_) => Ok(true),
        Err(failure) if failure.error.code == ApiErrorCode::NotRunning => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

async fn start(call: &Call, id: &str, asked: Connect) -> Result<Response, E2bError> {
    let view = call.sandbox(id).await?;
    let seen = record::load(&call.clients, &view.id).await?;
    let at_timeout = match asked.auto_pause {
        None => seen.at_timeout,
        Some(true) if seen.at_timeout == AtTimeout::Kill => AtTimeout::Pause,
        Some(true) => seen.at_timeout,
        Some(false) => AtTimeout::Kill,
    };
    // A sandbox that was not made through E2B, and has no end, gets none.
    let has_timeout = seen.is_made_by_e2b() || view.expires_at.is_some();
    let timeout_s = asked.timeout.unwrap_or(limits::TIMEOUT_DEFAULT_S);
    if has_timeout {
        let kept = if at_timeout == AtTimeout::Kill { AtTimeout::Pause } else { at_timeout };
        call.set_ttl(&view.id, &ttl_change(timeout_s.max(limits::LAUNCH_MARGIN_S), kept)).await?;
    }
    let was_paused = match state(&view) {
        SandboxState::Paused => true,
        // It is being created, or another connect resumes it.
        SandboxState::Running | SandboxState::Gone => false,
    };
    if asked.memory == Some(false) && view.status == SandboxStatus::Paused {
        call.verb(&view.id, "stop").await?;
    }
    let mut view = call.verb(&view.id, "start").await?;
    if was_paused {
        let holder = call.holder().await?;
        let change = move |record: E2bRecord| E2bRecord { at_timeout, ..record.resumed_by(&holder) };
        record::change(&call.clients, &view.id, change).await?;
    }
    if has_timeout {
        view = call.set_ttl(&view.id, &ttl_change(timeout_s, at_timeout)).await?;
    }
    Ok(respond::json(StatusCode::CREATED, &view::connected(call, &view).await?))
}
