//! Limits: set as asked for, and told when they are hit. Nothing here measures time.

use super::driver_column::{Column, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tests::escape::FORKS;

const HOG: &str = "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))";

pub async fn configured(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"limits": limits(96, 0.5, 77)})).await?;
    in_force(&place, &id, (96, 0.5, 77)).await?;
    passed()
}

fn limits(memory_mb: u64, cpus: f64, pids: u64) -> Value {
    json!({"memory_mb": memory_mb, "cpus": cpus, "pids": pids})
}

/// That the kernel has these limits, and that hostd says so.
async fn in_force(place: &Fixture, id: &str, (memory_mb, cpus, pids): (u64, f64, u64)) -> Result<()> {
    let stats: Value = place.caller.get(&format!("/v1/sandboxes/{id}/stats")).await?.expect(200)?;
    ensure!(stats["memory_limit_bytes"] == memory_mb << 20 && stats["pids_limit"] == pids, "{stats}");
    if let Some(found) = stats["cpus_limit"].as_f64() {
        ensure!((found - cpus).abs() < 0.001, "{stats}");
    }
    let view = place.caller.sandbox(id).await?;
    ensure!(view["limits"] == limits(memory_mb, cpus, pids), "{view}");
    // Version 2 is read by the driver itself; its own numbers are what there is.
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Ok(());
    }
    let (bytes, pids) = ((memory_mb << 20).to_string(), pids.to_string());
    let expected = [
        ("memory", "memory.limit_in_bytes", &bytes),
        ("memory", "memory.memsw.limit_in_bytes", &bytes),
        ("pids", "pids.max", &pids),
    ];
    for (controller, file, value) in expected {
        match place.group_file(id, controller, file) {
            Ok(found) => ensure!(found == *value, "{file} is {found}, not {value}"),
            // Kernels without accounting of swap have no limit for it, and no swap to use either.
            Err(error) => ensure!(file.contains("memsw"), "{error:?}"),
        }
    }
    let quota: f64 = place.group_file(id, "cpu", "cpu.cfs_quota_us")?.parse()?;
    let period: f64 = place.group_file(id, "cpu", "cpu.cfs_period_us")?.parse()?;
    ensure!((quota / period - cpus).abs() < 0.001, "{quota} of {period}");
    Ok(())
}

/// Holds 80 MB until it is killed.
const HOLD: &str = "import time\nx = b'x' * (80 << 20)\nprint('holds', flush=True)\ntime.sleep(1000)";

pub async fn changed(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"limits": limits(96, 0.5, 77)})).await?;
    let path = format!("/v1/sandboxes/{id}/limits");
    let change = async |body: Value| -> Result<()> {
        place.caller.patch(&path, &body).await?.expect::<Value>(200).map(drop)
    };
    let init = place.init(&id)?;
    change(limits(192, 1.5, 99)).await?;
    in_force(&place, &id, (192, 1.5, 99)).await?;
    place.caller.prints(&id, "python3 -c \"x = b'x' * (128 << 20)\"").await.context("more than before")?;
    place.leaves(&id, "holds", &["python3", "-c", HOLD]).await?;
    place.caller.follow_until(&format!("/v1/sandboxes/{id}/execs/holds/output?follow=1"), "holds").await?;
    // Less memory than it uses: refused, with everything that was asked for.
    let refused = place.caller.patch(&path, &limits(64, 1.0, 50)).await?;
    ensure!(refused.status == 409 && refused.code()? == ApiErrorCode::Conflict, "{}", refused.text());
    in_force(&place, &id, (192, 1.5, 99)).await?;
    place.brings(&id, "pause", "paused").await?;
    let refused = place.caller.patch(&path, &limits(64, 1.0, 50)).await?;
    ensure!(refused.status == 409 && refused.code()? == ApiErrorCode::Conflict, "{}", refused.text());
    change(json!({"memory_mb": 160, "pids": 88})).await?;
    in_force(&place, &id, (160, 1.5, 88)).await?;
    ensure!(place.is_frozen(&id)? && place.caller.sandbox(&id).await?["status"] == "paused");
    place.brings(&id, "resume", "running").await?;
    ensure!(!init.is_gone(), "it was launched again");
    place.brings(&id, "stop", "stopped").await?;
    place.brings(&id, "start", "running").await?;
    in_force(&place, &id, (160, 1.5, 88)).await?;
    place.brings(&id, "stop", "stopped").await?;
    change(json!({"cpus": 0.25, "memory_mb": 64})).await?;
    place.brings(&id, "start", "running").await?;
    in_force(&place, &id, (64, 0.25, 88)).await?;
    passed()
}

pub async fn job_out_of_memory(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let bombed = place.caller.create(&json!({"limits": {"memory_mb": 64}})).await?;
    let other = place.caller.create(&json!({})).await?;
    let ask = json!({"argv": ["python3", "-c", HOG]});
    let exec: Value = place.caller.post(&format!("/v1/sandboxes/{bombed}/execs"), &ask).await?.expect(200)?;
    ensure!(exec["exit"]["kind"] == "oom", "{exec}");
    let stats: Value = place.caller.get(&format!("/v1/sandboxes/{bombed}/stats")).await?.expect(200)?;
    ensure!(stats["oom_kills"].as_u64() >= Some(1) && stats["memory_limit_bytes"] == 64 << 20, "{stats}");
    ensure!(stats["memory_peak_bytes"].as_u64() > Some(60 << 20), "{stats}");
    for id in [&bombed, &other] {
        ensure!(place.caller.prints(id, "echo alive").await? == "alive\n");
    }
    passed()
}

/// Fills every tmpfs: once the kernel finds no other process to kill, PID 1 dies.
const FLOOD: &str = "for d in /dev/shm /var/tmp /tmp; do (while :; do head -c 1M /dev/zero >> $d/full || exit; done) & done; wait";

pub async fn init_out_of_memory(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"limits": {"memory_mb": 32}})).await?;
    let flood = async {
        let path = format!("/v1/sandboxes/{id}/execs?wake=0");
        while place.caller.sandbox(&id).await?["status"] == "running" {
            // The flooding process is killed, or the whole sandbox is.
            let _ = place.caller.post(&path, &json!({"shell": FLOOD})).await;
        }
        anyhow::Ok(())
    };
    flood.await?;
    let view = place.caller.becomes(&id, "error").await?;
    let mortem = &view["post_mortem"];
    ensure!(mortem["cause"] == "oom" && mortem["oom_kills"].as_u64() >= Some(1), "{view}");
    ensure!(mortem["memory_limit_bytes"] == 32 << 20, "{mortem}");
    ensure!(mortem["memory_peak_bytes"].as_u64() > Some(16 << 20), "{mortem}");
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    passed()
}

pub async fn out_of_processes(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let bombed = place.caller.create(&json!({"limits": {"pids": 64, "cpus": 0.5}})).await?;
    let other = place.caller.create(&json!({})).await?;
    let (execs, stats) = (format!("/v1/sandboxes/{bombed}/execs"), format!("/v1/sandboxes/{bombed}/stats"));
    let ask = json!({"id": "bomb", "argv": ["python3", "-c", FORKS, "100"]});
    let exec: Value = place.caller.post(&execs, &ask).await?.expect(200)?;
    let told =
        |hints: &Value| hints.as_array().is_some_and(|all| all.iter().any(|one| one["kind"] == "pids_limit"));
    ensure!(told(&exec["hints"]), "{exec}");
    let seen: Value = place.caller.get(&stats).await?.expect(200)?;
    ensure!(seen["pids"].as_u64() <= Some(64) && seen["pids_limit_hits"].as_u64() >= Some(1), "{seen}");
    ensure!(place.caller.prints(&other, "echo alive").await? == "alive\n");
    ensure!(place.caller.sandbox(&bombed).await?["status"] == "running");
    place.destroy(&bombed).await?;
    place.holds(&[&other], &[&other])?;
    passed()
}

pub async fn full_tmp(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"limits": {"memory_mb": 64}})).await?;
    let exec = place.caller.shell(&id, "head -c 200M /dev/zero > /tmp/big").await?;
    ensure!(exec["exit"]["code"] != 0, "{exec}");
    let kilobytes: u64 = place.caller.prints(&id, "du -k /tmp/big | cut -f1").await?.trim().parse()?;
    ensure!(kilobytes <= 32 << 10, "{kilobytes} kB");
    place
        .caller
        .prints(&id, "rm /tmp/big && cp /bin/true /tmp/runs && /tmp/runs")
        .await
        .context("exec in /tmp")?;
    passed()
}

pub async fn full_workspace(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let full = place.caller.create(&json!({"limits": {"disk_mb": 16}})).await?;
    let other = place.caller.create(&json!({"limits": {"disk_mb": 16}})).await?;
    let drivers: Value = place.caller.get("/v1/drivers").await?.expect(200)?;
    let driver = column.driver();
    let ours = drivers["items"].as_array().and_then(|all| all.iter().find(|one| one["name"] == driver));
    let means = ours.context("the driver")?["capabilities"]["disk_limit"].clone();
    let filling = json!({"shell": "cd; while :; do head -c 1M /dev/zero >> full || exit; sleep 0.02; done"});
    let exec = place.caller.post(&format!("/v1/sandboxes/{full}/execs"), &filling).await?;
    if means == "measured" {
        let view = place.caller.becomes(&full, "stopped").await?;
        ensure!(view["problem"]["code"] == "disk_full", "{view}");
    } else {
        let exec: Value = exec.expect(200)?;
        let hints = exec["hints"].as_array().context("hints")?;
        ensure!(hints.iter().any(|hint| hint["kind"] == "disk_full"), "{means}: {exec}");
    }
    ensure!(place.caller.prints(&other, "echo mine > ~/mine; cat ~/mine").await? == "mine\n");
    place.caller.prints(&full, "rm ~/full; echo room > ~/room; stat -c %u ~/room").await?;
    let stats: Value = place.caller.get(&format!("/v1/sandboxes/{full}/stats")).await?.expect(200)?;
    ensure!(stats["disk_limit_bytes"] == 16 << 20 && stats["disk_bytes"].as_u64() < Some(8 << 20), "{stats}");
    for id in [&full, &other] {
        place.destroy(id).await?;
    }
    place.holds(&[], &[])?;
    let mounts = place.hostd.traces().map(|traces| traces.mounts).unwrap_or_default();
    ensure!(mounts.is_empty(), "{mounts:?}");
    passed()
}

pub async fn files(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let seen = place.caller.prints(&id, "ulimit -Hn; ulimit -Hc").await?;
    let (open, core) = seen.trim().split_once('\n').context("two numbers")?;
    let ours = hard_limit()?;
    ensure!(open.parse::<u64>().is_ok_and(|open| (256..=ours).contains(&open)), "{open}, ours is {ours}");
    ensure!(core == "0", "core dumps of {core}");
    passed()
}

fn hard_limit() -> Result<u64> {
    Ok(nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?.1)
}
