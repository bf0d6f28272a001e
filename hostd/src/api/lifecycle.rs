//! Lifecycle of a sandbox: start, stop, pause, resume, recreate, keepalive, TTL. Each responds with the
//! settled sandbox, or 202 while the operation goes on.

use super::{
    call::Call,
    error::{CallError, CallResult},
    limits as api, relay,
    sandboxes::{change, view, wait_settled},
};
use crate::reconcile::SandboxCommand;
use hostd_core::{check_changed_limits, limits as core_limits, ttl_ms};
use hostd_store::SandboxUpdate;
use hyper::{Method, StatusCode};
use protocol::{
    HoldRequest, HoldView,
    api::{ApiError, ApiErrorCode, LimitsChange, TtlChange},
};
use std::time::Duration;

pub async fn start(call: Call) -> CallResult {
    perform(call, SandboxCommand::Start).await
}

pub async fn stop(call: Call) -> CallResult {
    perform(call, SandboxCommand::Stop).await
}

pub async fn pause(call: Call) -> CallResult {
    perform(call, SandboxCommand::Pause).await
}

pub async fn resume(call: Call) -> CallResult {
    perform(call, SandboxCommand::Resume).await
}

/// Keeps the files by default: deleting them must be explicit.
pub async fn recreate(call: Call) -> CallResult {
    let keep_workspace = call.query.keeps_workspace(true)?;
    perform(call, SandboxCommand::Recreate { keep_workspace }).await
}

async fn perform(call: Call, ask: SandboxCommand) -> CallResult {
    let record = call.sandbox().await?;
    let wait_ms = call.query.wait_ms()?;
    let record = call.api.fleet.command(&record.id, ask).await?;
    let (record, done) = wait_settled(&call, record, wait_ms).await?;
    Ok(view(&call, &record, if done { StatusCode::OK } else { StatusCode::ACCEPTED }))
}

/// Counts as activity: the idle time starts again. A sleeping sandbox is not woken.
pub async fn keepalive(call: Call) -> CallResult {
    let id = call.sandbox().await?.id;
    let (record, control) = call.api.fleet.control(&id).await?;
    let hold = HoldRequest { ttl_s: Some(api::KEEPALIVE_HOLD_S), reason: "keepalive".to_owned() };
    let within = Duration::from_millis(core_limits::CONTROL_TIMEOUT_MS);
    control
        .json::<HoldView>(Method::PUT, &relay::runtimed_path(&["holds", "keepalive"]), Some(&hold), within)
        .await?;
    Ok(view(&call, &record, StatusCode::OK))
}

/// Changes limits, in force at once where the sandbox runs or is paused.
pub async fn limits(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let change: LimitsChange = call.json()?;
    check_changed_limits(&change, &call.api.defaults)?;
    let offered = call.api.fleet.driver_of(&record).capabilities().limits;
    let asked = [
        ("memory_mb", change.memory_mb.is_some()),
        ("cpus", change.cpus.is_some()),
        ("pids", change.pids.is_some()),
    ];
    let missing = |(field, asked): &&(&str, bool)| *asked && !offered.iter().any(|name| name == field);
    if let Some((field, _)) = asked.iter().find(missing) {
        let message = format!("the driver {} does not limit this", record.blueprint.driver);
        let error = ApiError::new(ApiErrorCode::Unsupported, message);
        return Err(error.with(|detail| detail.field = Some((*field).to_owned())).into());
    }
    let record = call.api.fleet.command(&record.id, SandboxCommand::Resize(change)).await?;
    Ok(view(&call, &record, StatusCode::OK))
}

pub async fn ttl(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let requested: TtlChange = call.json()?;
    let TtlChange { ttl, on_ttl } = requested;
    if ttl.is_none() && on_ttl.is_none() {
        return Err(CallError::invalid("ttl", "is needed, or on_ttl"));
    }
    let ttl_ms = ttl.map(|ttl| ttl.as_deref().map(ttl_ms).transpose()).transpose()?;
    let now_ms = call.api.now_ms();
    let expires_ms = ttl_ms.map(|ttl_ms| ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)));
    change(&call, &record.id, SandboxUpdate { expires_ms, ttl_ms, on_ttl, ..SandboxUpdate::default() }).await
}
