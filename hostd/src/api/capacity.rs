//! Capacity of the host: what each sandbox costs, and what destroyed ones left.

use super::{call::Call, error::CallResult, limits, views::ok};
use futures_util::{StreamExt, stream};
use hostd_store::SandboxRecord;
use protocol::api::{Page, SandboxCost, StatsView};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

pub async fn sandboxes(call: Call) -> CallResult {
    let fleet = &call.api.fleet;
    let after = call.query.number("after")?.unwrap_or(0);
    let (skipped, limit) = (usize::try_from(after).unwrap_or(usize::MAX), call.query.limit()?);
    let counted = fleet.records().into_iter().map(|record| async move {
        let stats = fleet.driver_of(&record).stats(&record.id).await.ok();
        (record, stats)
    });
    let mut all: Vec<_> = stream::iter(counted).buffer_unordered(limits::COSTS_AT_ONCE).collect().await;
    all.sort_by_key(|(record, stats)| {
        (std::cmp::Reverse(stats.as_ref().map_or(0, |stats| stats.memory_bytes)), record.id)
    });
    let total = all.len();
    let page = all.into_iter().skip(skipped).take(limit);
    // Walking the files may take long: those that are not measured by then have no number.
    let until = Instant::now() + Duration::from_millis(limits::COSTS_DISK_MAX_MS);
    let measured = page.map(|(record, stats)| async move {
        let driver = fleet.driver_of(&record);
        let bytes = timeout_at(until, driver.workspace_bytes(&record.id)).await;
        cost(&record, stats.as_ref(), bytes.ok().and_then(Result::ok).flatten())
    });
    let items: Vec<SandboxCost> = stream::iter(measured).buffered(limits::COSTS_AT_ONCE).collect().await;
    let shown = skipped.saturating_add(items.len());
    let next = (shown < total).then(|| shown.to_string());
    Ok(ok(&Page { items, next }))
}

fn cost(record: &Arc<SandboxRecord>, stats: Option<&StatsView>, disk_bytes: Option<u64>) -> SandboxCost {
    SandboxCost {
        id: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        status: record.state.status,
        driver: record.blueprint.driver.clone(),
        memory_limit_bytes: record.blueprint.limits.memory_mb << 20,
        memory_bytes: stats.map(|stats| stats.memory_bytes),
        memory_peak_bytes: stats.map(|stats| stats.memory_peak_bytes),
        cpu_usage_us: stats.map(|stats| stats.cpu_usage_us),
        disk_bytes,
    }
}

pub async fn reap(call: Call) -> CallResult {
    let apply = call.query.flag("apply", false)?;
    Ok(ok(&call.api.fleet.reap(apply).await?))
}
