//! Waking a sandbox, and keeping it awake.

use super::{
    super::{
        call::Call,
        failure::{Answer, Failure},
        limits::WAIT_DEFAULT_MS,
        pass::{self, WITHIN},
        sandboxes::settled,
        views::ok,
    },
    ask::OlderKeepalive,
    row::HOLD,
    sandboxes::alive,
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

/// One in `error` is tried again.
pub async fn wake(call: Call) -> Answer {
    let record = alive(&call).await?;
    let began = Instant::now();
    let record = call.api.fleet.command(&record.id, SandboxCommand::Start).await?;
    let (record, done) = settled(&call, record, WAIT_DEFAULT_MS).await?;
    if !done {
        return Err(FleetError::InProgress.into());
    }
    if !record.state.is_up() {
        let message = "somebody else stopped it while it was woken";
        return Err(Failure::new(ApiErrorCode::NotRunning, message));
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

pub async fn keepalive(call: Call) -> Answer {
    let record = alive(&call).await?;
    let OlderKeepalive { until } = call.json()?;
    let now_s = call.api.now_ms() / 1000;
    if until <= now_s {
        return Err(Failure::invalid("until", "must be in the future, in seconds since 1970"));
    }
    let until = until.min(now_s + KEEPALIVE_MAX_S);
    let (_, control) = call.api.fleet.control(&record.id).await.map_err(|error| match error {
        FleetError::NotRunning { status } => {
            let message = format!("the sandbox is {status}, so nothing keeps it awake; wake it first");
            Failure::new(ApiErrorCode::Conflict, message)
        }
        other => other.into(),
    })?;
    let hold = HoldRequest { ttl_s: Some(until - now_s), reason: "keepalive".to_owned() };
    control.json::<HoldView>(Method::PUT, &pass::path(&["holds", HOLD]), Some(&hold), WITHIN).await?;
    Ok(ok(&OlderKept { id: record.id, keepalive_until: until }))
}
