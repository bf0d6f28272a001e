//! Memory of runtimed when idle and with ten services, and the size of the binary.

use crate::row::{Goal, Row};
use anyhow::Result;
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::Sandbox;
use tests::processes::memory_bytes;

const MB: f64 = 1e6;
const RSS_GOAL_MB: f64 = 2.5;
const SIZE_GOAL_MB: f64 = 4.0;

pub async fn rows() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start().await?;
    let idle = rss_bytes(&sandbox, "self")?;
    let services: Vec<Value> =
        (0..10).map(|i| json!({"name": format!("s{i}"), "command": "exec sleep 1000"})).collect();
    let put = sandbox.client().put("/v1/services", &json!({"services": services})).await?;
    anyhow::ensure!(put.status == 200, "{}", put.text());
    let mut pids = 0;
    while pids < 10 {
        let views = sandbox.client().status().await?.services;
        pids = views.iter().filter(|service| service.pid.is_some()).count();
    }
    let busy = rss_bytes(&sandbox, "self")?;
    let shims = rss_bytes(&sandbox, "shims")?;
    sandbox.stop().await?;
    let bin = tests::launch::binary()?;
    let size = std::fs::metadata(bin)?.len() as f64;
    let row = |what: &'static str, bytes: f64, bound_mb: f64| Row {
        what: what.into(),
        ours: format!("{:.2} MB", bytes / MB),
        other: format!("bound {bound_mb} MB"),
        ratio: bytes / MB / bound_mb,
        goal: Goal::AtMost(1.0),
    };
    Ok(vec![
        row("resident memory, idle", idle, RSS_GOAL_MB),
        row("resident memory, ten services", busy, RSS_GOAL_MB + 1.0),
        row("  private memory of its ten shims", shims, 10.0),
        row("size of the static binary", size, SIZE_GOAL_MB),
    ])
}

/// Resident bytes of PID 1, or the private ones of all shims below it.
fn rss_bytes(sandbox: &Sandbox, of: &str) -> Result<f64> {
    let pid1 = sandbox.pid()?;
    if of == "self" {
        return Ok(memory_bytes(pid1, "Rss")? as f64);
    }
    let children = std::fs::read_to_string(format!("/proc/{pid1}/task/{pid1}/children"))?;
    let private = |pid: &str| {
        let pid = Pid::from_raw(pid.parse()?);
        Ok((memory_bytes(pid, "Private_Dirty")? + memory_bytes(pid, "Private_Clean")?) as f64)
    };
    children.split_whitespace().map(private).sum()
}
