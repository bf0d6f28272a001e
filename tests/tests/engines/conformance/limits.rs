//! Limits: set as asked for, and told when they are hit. Nothing here measures time.

use super::driver_column::{Column, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tests::escape::FORKS;

const HOG: &str = "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))";

pub async fn configured(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"limits": {"memory_mb": 96, "cpus": 0.5, "pids": 77}})).await?;
    let bytes = (96 << 20).to_string();
    if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        // Version 2 is read by the driver itself; its own numbers are what there is.
        let stats: Value = place.caller.get(&format!("/v1/sandboxes/{id}/stats")).await?.expect(200)?;
        ensure!(stats["memory_limit_bytes"] == 96 << 20, "{stats}");
        return passed();
    }
    let expected = [
        ("memory", "memory.limit_in_bytes", bytes.as_str()),
        ("memory", "memory.memsw.limit_in_bytes", bytes.as_str()),
        ("pids", "pids.max", "77"),
    ];
    for (controller, file, value) in expected {
        match place.group_file(&id, controller, file) {
            Ok(found) => ensure!(found == value, "{file} is {found}"),
            // Kernels without accounting of swap have no limit for it, and no swap to use either.
            Err(error) => ensure!(file.contains("memsw"), "{error:?}"),
        }
    }
    let quota: f64 = place.group_file(&id, "cpu", "cpu.cfs_quota_us")?.parse()?;
    let period: f64 = place.group_file(&id, "cpu", "cpu.cfs_period_us")?.parse()?;
    ensure!((quota / period - 0.5).abs() < 0.001, "{quota} of {period}");
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
