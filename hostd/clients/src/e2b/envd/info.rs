//! Facts about a sandbox: `/metrics` and `/envs`.

use super::{auth::Authorized, http_error::HttpError};
use crate::respond;
use axum::response::Response;
use base64::{Engine, prelude::BASE64_STANDARD};
use hyper::StatusCode;
use protocol::{
    Exit,
    api::{ExecAnswer, ExecCreate, StatsView},
};
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, sleep};

/// Seconds after which the command that prints the environment is killed.
const ENVS_TIMEOUT_S: f64 = 30.0;
/// How long the use of CPU is measured.
const CPU_SAMPLE: Duration = Duration::from_millis(100);

pub async fn metrics(sandbox: &Authorized, now_ms: u64) -> Result<Response, HttpError> {
    let (before, started) = (stats(sandbox).await?, Instant::now());
    sleep(CPU_SAMPLE).await;
    let (now, elapsed) = (stats(sandbox).await?, started.elapsed());
    let limits = &sandbox.record.blueprint.limits;
    let used_us = now.cpu_usage_us.saturating_sub(before.cpu_usage_us);
    #[expect(clippy::cast_precision_loss, reason = "a share that is shown")]
    let used_percent = used_us as f64 / elapsed.as_micros().max(1) as f64 / limits.cpus.max(0.01) * 100.0;
    let document = json!({
        "ts": now_ms / 1000,
        "cpu_count": limits.cpus.ceil(),
        "cpu_used_pct": used_percent,
        "mem_total": now.memory_limit_bytes,
        "mem_used": now.memory_bytes,
        // Both are 0 where the workspace has no limit.
        "disk_used": now.disk_bytes.unwrap_or(0),
        "disk_total": now.disk_limit_bytes.unwrap_or(0),
    });
    Ok(respond::json(StatusCode::OK, &document))
}

async fn stats(sandbox: &Authorized) -> Result<StatsView, HttpError> {
    Ok(sandbox.api.get("/stats").await?)
}

/// The environment that commands get. Asked of a command: hostd shows the variables of a sandbox to no client.
pub async fn envs(sandbox: &Authorized) -> Result<Response, HttpError> {
    let create = ExecCreate {
        argv: Some(vec!["env".to_owned(), "-0".to_owned()]),
        timeout_s: Some(ENVS_TIMEOUT_S),
        ..ExecCreate::default()
    };
    let ran: ExecAnswer = sandbox.api.post("/execs", &create).await?;
    if ran.exit != Some(Exit::Exited { code: 0 }) || ran.truncated {
        let message = "the environment could not be read: the image needs the program env";
        return Err(HttpError::new(StatusCode::NOT_IMPLEMENTED, message));
    }
    let printed = ran.stdout.unwrap_or_default();
    let bytes = match ran.encoding.as_deref() {
        Some("base64") => BASE64_STANDARD.decode(&printed).unwrap_or_default(),
        Some(_) | None => printed.into_bytes(),
    };
    let text = String::from_utf8_lossy(&bytes);
    let variables: BTreeMap<&str, &str> = text.split('\0').filter_map(|line| line.split_once('=')).collect();
    Ok(respond::json(StatusCode::OK, &variables))
}
