//! Wakes a sandbox, and keeps it awake.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        limits::WAIT_DEFAULT_MS,
        relay::{self, CONTROL_TIMEOUT},
        sandboxes::wait_settled,
        views::ok,
    },
    request::OlderKeepalive,
    sandboxes::existing_sandbox,
    view::HOLD,
};
use crate::reconcile::{FleetError, SandboxCommand};
use hyper::Method;
use protocol::{
    HoldRequest, HoldView,
    api::{ApiErrorCode, SandboxId},
};
use serde::Serialize;
use std::time::Instant;
use utoipa::ToSchema;

/// How far ahead a keepalive may reach.
const KEEPALIVE_MAX_S: u64 = 24 * 3600;

/// `POST /wake/{id}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OlderWoken {
    pub id: SandboxId,
    pub status: &'static str,
    pub wake_duration_ms: u64,
}

/// A sandbox in `error` is started again.
pub async fn wake(call: Call) -> CallResult {
    let record = existing_sandbox(&call).await?;
    let began = Instant::now();
    let record = call.api.fleet.command(&record.id, SandboxCommand::Start).await?;
    let (record, done) = wait_settled(&call, record, WAIT_DEFAULT_MS).await?;
    if !done {
        return Err(FleetError::InProgress.into());
    }
    if !record.state.is_up() {
        let message = "the sandbox was stopped by another call while it was woken";
        return Err(CallError::new(ApiErrorCode::NotRunning, message));
    }
    let wake_duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(ok(&OlderWoken { id: record.id, status: "running", wake_duration_ms }))
}

/// `POST /sandbox/{id}/keepalive`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OlderKept {
    pub id: SandboxId,
    /// Seconds since the Unix epoch.
    pub keepalive_until: u64,
}

pub async fn keepalive(call: Call) -> CallResult {
    let record = existing_sandbox(&call).await?;
    let OlderKeepalive { until } = call.json()?;
    let now_s = call.api.now_ms() / 1000;
    if until <= now_s {
        return Err(CallError::invalid("until", "must be in the future, in seconds since 1970"));
    }
    let until = until.min(now_s + KEEPALIVE_MAX_S);
    let (_, control) = call.api.fleet.control(&record.id).await.map_err(|error| {
        if let FleetError::NotRunning { status } = error {
            let message = format!("the sandbox is {status}; wake it first");
            return CallError::new(ApiErrorCode::Conflict, message);
        }
        error.into()
    })?;
    let hold = HoldRequest { ttl_s: Some(until - now_s), reason: "keepalive".to_owned() };
    control
        .json::<HoldView>(Method::PUT, &relay::runtimed_path(&["holds", HOLD]), Some(&hold), CONTROL_TIMEOUT)
        .await?;
    Ok(ok(&OlderKept { id: record.id, keepalive_until: until }))
}
