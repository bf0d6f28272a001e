//! Use of memory and CPU.

use super::{
    super::{SandboxResult, limits},
    ExecdCall, events,
};
use crate::{ApiFailure, respond};
use axum::{body::Body, response::Response};
use futures_util::stream;
use hostd_store::Clock;
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::StatsView;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const MIB_BYTES: f64 = 1_048_576.0;
const PERCENT: f64 = 100.0;

pub async fn get(call: &ExecdCall) -> SandboxResult {
    let sampled = sample(call, Duration::from_millis(limits::METRICS_SAMPLE_MS)).await?;
    Ok(respond::json(StatusCode::OK, &sampled))
}

/// Sends metrics until the client leaves, or the sandbox is gone.
pub async fn watch(call: &ExecdCall) -> SandboxResult {
    let first = sample(call, Duration::from_millis(limits::METRICS_SAMPLE_MS)).await?;
    let samples = stream::unfold((call.clone(), Some(first)), |(call, first)| async move {
        let sampled = match first {
            Some(first) => first,
            None => sample(&call, Duration::from_millis(limits::METRICS_PERIOD_MS)).await.ok()?,
        };
        Some((Ok::<_, Infallible>(events::framed(&[sampled])), (call, None)))
    });
    let mut response = Response::new(Body::from_stream(samples));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Takes two samples, since CPU use is a difference.
async fn sample(call: &ExecdCall, between: Duration) -> Result<Value, ApiFailure> {
    let before: StatsView = call.api.get(&call.path("/stats")).await?;
    let started = Instant::now();
    sleep(between).await;
    let now: StatsView = call.api.get(&call.path("/stats")).await?;
    Ok(view(&before, &now, started.elapsed()))
}

#[allow(clippy::cast_precision_loss)] // Numbers for people.
fn view(before: &StatsView, now: &StatsView, elapsed: Duration) -> Value {
    let cores = now.cpus_limit.unwrap_or(1.0);
    let used_s = now.cpu_usage_us.saturating_sub(before.cpu_usage_us) as f64 / 1e6;
    let used = used_s / elapsed.as_secs_f64().max(1e-3) / cores * PERCENT;
    json!({
        "cpu_count": cores,
        "cpu_used_pct": used.clamp(0.0, PERCENT),
        "mem_total_mib": now.memory_limit_bytes as f64 / MIB_BYTES,
        "mem_used_mib": now.memory_bytes as f64 / MIB_BYTES,
        "timestamp": Clock::new().now_ms(),
    })
}
