//! Inspection of one sandbox: attempts, ports, stats. None of these wakes it.

use super::{
    call::Call,
    error::{CallError, CallResult},
    listening_ports,
    views::{self, ok},
};
use hostd_core::{Preview, is_reachable_from_preview};
use protocol::{
    ListeningPort,
    api::{ApiErrorCode, Page, PortView, SandboxStatus},
};

pub async fn attempts(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let invalid = |_| CallError::invalid("after", "must be the number of an attempt");
    let after = call.query.number("after")?.map(u32::try_from).transpose().map_err(invalid)?;
    let limit = call.query.limit()?;
    let records = call.api.store.attempts(&record.id, after, limit).await?;
    Ok(ok(&views::page(&records, limit, views::attempt, |record| record.attempt.to_string())))
}

pub async fn ports(call: Call) -> CallResult {
    let id = call.sandbox().await?.id;
    let all = listening_ports::of_sandbox(&call.api, &id).await?;
    let previews = &call.api.settings.previews;
    let view = |listening: ListeningPort| {
        let preview = Preview { sandbox: id, port: listening.port };
        let preview = is_reachable_from_preview(&listening).then(|| previews.url(&preview));
        PortView { listening, preview }
    };
    Ok(ok(&Page { items: all.into_iter().map(view).collect(), next: None }))
}

pub async fn stats(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    match record.state.status {
        SandboxStatus::Running | SandboxStatus::Paused => {}
        SandboxStatus::Destroyed => return Err(hostd_core::TransitionRefused::Destroyed.into()),
        SandboxStatus::Creating | SandboxStatus::Stopped | SandboxStatus::Error => {
            return Err(CallError::new(
                ApiErrorCode::NotRunning,
                "the sandbox is not running; start it first",
            ));
        }
    }
    let driver = call.api.fleet.driver_of(&record);
    let mut stats = driver.stats(&record.id).await?;
    if let Some(disk_mb) = record.blueprint.limits.disk_mb
        && let Some(usage) = driver.disk_usage(&record.id, disk_mb).await?
    {
        stats.disk_bytes = Some(usage.used_bytes);
        stats.disk_limit_bytes = Some(usage.limit_bytes);
    }
    Ok(ok(&stats))
}
