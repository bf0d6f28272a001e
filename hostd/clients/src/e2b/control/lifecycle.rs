//! Kill, timeouts, pause and network of a sandbox.

use super::{
    call::Call,
    create::on_ttl,
    error::E2bError,
    limits,
    network::egress_rules,
    request::{NetworkConfig, Pause, Refresh, SetTimeout},
    view::{SandboxState, state},
};
use crate::{e2b::record, respond};
use axum::response::Response;
use hostd_core::parse_rfc3339;
use hyper::{Method, StatusCode};
use protocol::api::{EgressRules, EgressView, OnTtl, SandboxView, TtlChange};
use serde_json::Value;

pub async fn kill(call: &Call, id: &str) -> Result<Response, E2bError> {
    let view = call.sandbox(id).await?;
    call.destroy(&view.id).await?;
    Ok(no_content())
}

pub async fn set_timeout(call: &Call, id: &str) -> Result<Response, E2bError> {
    let SetTimeout { timeout } = call.json()?;
    let view = running(call, id).await?;
    let record = record::load(&call.clients, &view.id).await?;
    let at_end = record.is_made_by_e2b().then(|| on_ttl(record.at_timeout));
    let change = TtlChange { ttl: Some(Some(format!("{}s", timeout.max(1)))), on_ttl: at_end };
    call.set_ttl(&view.id, &change).await?;
    Ok(no_content())
}

/// Extends the timeout, and never shortens it.
pub async fn refresh(call: &Call, id: &str) -> Result<Response, E2bError> {
    let Refresh { duration } = call.json()?;
    let view = running(call, id).await?;
    extend(call, &view, duration.unwrap_or(limits::TIMEOUT_DEFAULT_S)).await?;
    Ok(no_content())
}

/// Extends the timeout of a sandbox that has one.
pub async fn extend(call: &Call, view: &SandboxView, timeout_s: u64) -> Result<(), E2bError> {
    let wanted_ms = call.now_ms().saturating_add(timeout_s.saturating_mul(1_000));
    let ends_ms = view.expires_at.as_deref().and_then(parse_rfc3339);
    if ends_ms.is_some_and(|ends_ms| ends_ms < wanted_ms) {
        let change = TtlChange { ttl: Some(Some(format!("{}s", timeout_s.max(1)))), on_ttl: None };
        call.set_ttl(&view.id, &change).await?;
    }
    Ok(())
}

async fn running(call: &Call, id: &str) -> Result<SandboxView, E2bError> {
    let view = call.sandbox(id).await?;
    match state(&view) {
        SandboxState::Running => Ok(view),
        SandboxState::Paused | SandboxState::Gone => {
            Err(E2bError::new(StatusCode::NOT_FOUND, format!("sandbox {id} is paused; connect to it first")))
        }
    }
}

/// A pause has no end: from then on, the timeout does not destroy the sandbox. That is recorded first, so that a crash
/// in between loses nothing.
pub async fn pause(call: &Call, id: &str) -> Result<Response, E2bError> {
    let Pause { memory } = call.json()?;
    let view = call.sandbox(id).await?;
    if state(&view) != SandboxState::Running {
        return Err(E2bError::new(StatusCode::CONFLICT, format!("sandbox {id} is already paused")));
    }
    let (at_end, verb) = if memory == Some(false) { (OnTtl::Stop, "stop") } else { (OnTtl::Pause, "pause") };
    if view.expires_at.is_some() && view.on_ttl != at_end {
        call.set_ttl(&view.id, &TtlChange { ttl: None, on_ttl: Some(at_end) }).await?;
    }
    let paused = call.verb(&view.id, verb).await?;
    match state(&paused) {
        SandboxState::Paused => Ok(no_content()),
        SandboxState::Running => Err(E2bError::new(
            StatusCode::CONFLICT,
            format!("sandbox {id} could not be paused, or was resumed"),
        )),
        SandboxState::Gone => Err(E2bError::no_sandbox(id)),
    }
}

/// Replaces the rules for its network; those of the host and its limit of traffic stay.
pub async fn set_network(call: &Call, id: &str) -> Result<Response, E2bError> {
    let asked: Value = call.json()?;
    let config: NetworkConfig = call.json()?;
    let EgressRules { allow, deny, .. } = egress_rules(&config, None)?;
    let view = call.sandbox(id).await?;
    let path = format!("/v1/sandboxes/{}/egress", view.id);
    let EgressView { profile, max_mb, .. } = call.api.get(&path).await?;
    let rules = EgressRules { profile, allow, deny, max_mb };
    let _: EgressView = call.api.json(Method::PUT, &path, Some(&rules)).await?;
    let internet = config.allow_internet_access;
    let mut network = asked;
    if let Some(fields) = network.as_object_mut() {
        fields.remove("allow_internet_access");
    }
    record::change(&call.clients, &view.id, move |record| record::E2bRecord {
        allow_internet_access: internet,
        network: Some(network),
        ..record
    })
    .await?;
    Ok(no_content())
}

fn no_content() -> Response {
    respond::empty(StatusCode::NO_CONTENT)
}
