//! A sandbox fills the disk of the data directory: hostd goes on, says so, starts again on it, and every way to make
//! room works. Not one of these tests frees space by itself.

use super::{asked, destroyed, set};
use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;
use tests::host::{Feed, until};
use tests::launch::directory;
use tests::small_disk::{FileSystem, SmallDisk};
use tests::{Caller, Hostd};

/// A hostd on a small disk of its own.
struct Filled {
    hostd: Hostd,
    /// Unmounted after hostd has ended, and before its file goes.
    _disk: SmallDisk,
    _outside: TempDir,
}

impl Filled {
    async fn start(kind: FileSystem, megabytes: u64, floor_mb: u64) -> Result<Self> {
        let outside = directory()?;
        let data = outside.path().join("data");
        let disk = SmallDisk::made(kind, &data, megabytes)?;
        let floor = ("SLIPWAY_DISK_FLOOR_MB".to_owned(), floor_mb.to_string());
        let hostd = Hostd::start_in(directory()?, data, vec![floor]).await?;
        Ok(Self { hostd, _disk: disk, _outside: outside })
    }

    /// Until there is not a block left. What was set aside is in place before that.
    async fn fill(&self, sandbox: &str) -> Result<()> {
        let reserve = self.hostd.data().join("reserve");
        until("space is set aside", async || {
            Ok((length(&reserve) > 0 && ready(&self.hostd).await?).then_some(()))
        })
        .await?;
        // The last one must fail. What it prints finds no room either.
        let line = "cd; for size in 1M 4k 512; do dd if=/dev/zero of=big-$size bs=$size; done; \
                    ! dd if=/dev/zero of=big-last bs=512";
        let exec = self.hostd.local().shell(sandbox, line).await?;
        ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
        Ok(())
    }
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |meta| meta.len())
}

/// Whether sandboxes can be made; the only reason why not is the disk.
async fn ready(hostd: &Hostd) -> Result<bool> {
    let reply = hostd.local().get("/readyz").await?;
    if reply.status == 200 {
        return Ok(true);
    }
    ensure!(
        reply.status == 503 && reply.code()? == ApiErrorCode::DiskFull,
        "{} {}",
        reply.status,
        reply.text()
    );
    Ok(false)
}

async fn is_ready(hostd: &Hostd) -> Result<()> {
    until("it is ready", async || Ok(ready(hostd).await?.then_some(()))).await
}

/// A create is refused with a typed, retryable error.
async fn create_is_refused(caller: &Caller) -> Result<()> {
    let reply = caller.post("/v1/sandboxes", &json!({})).await?;
    let error = reply.error()?;
    ensure!(reply.status == 507 && error.code == ApiErrorCode::DiskFull && error.retryable, "{error:?}");
    ensure!(error.message.contains("MB are free"), "{error:?}");
    Ok(())
}

async fn every_way_to_make_room_works(kind: FileSystem, megabytes: u64) -> Result<()> {
    // A floor so low that nothing is done before the disk is really full.
    let mut filled = Filled::start(kind, megabytes, 1).await?;
    let caller = filled.hostd.local();
    let [heavy, other, sleepy] = [
        caller.create(&json!({})).await?,
        caller.create(&json!({})).await?,
        caller.create(&json!({})).await?,
    ];
    filled.fill(&heavy).await?;
    ensure!(!ready(&filled.hostd).await?, "it says nothing of its disk");
    create_is_refused(&caller).await?;
    // At once: what hostd writes for this exec must not take the room of its output.
    ensure!(caller.prints(&other, "echo alive").await? == "alive\n");
    ensure!(asked(&caller, &sleepy, "stop").await?["status"] == "stopped");
    ensure!(caller.prints(&sleepy, "echo awake").await? == "awake\n", "one may wake, to delete files");
    asked(&caller, &other, "stop").await?;
    let woken = caller.post(&format!("/v1/sandboxes/{other}/start"), &json!({})).await?;
    ensure!(woken.code()? == ApiErrorCode::DiskFull, "two are awake to delete files: {}", woken.text());

    filled.hostd.crash().await?;
    ensure!(!ready(&filled.hostd).await?);
    caller.prints(&heavy, "rm /home/sandbox/big-*").await?;
    is_ready(&filled.hostd).await?;
    ensure!(asked(&caller, &other, "start").await?["status"] == "running");

    // Now it takes whatever anybody gives up.
    let greedy = "cd; while :; do dd if=/dev/zero bs=64k >> big; done 2> /dev/null";
    let greedy = json!({"shell": greedy, "wait": false});
    caller.post(&format!("/v1/sandboxes/{heavy}/execs"), &greedy).await?.expect::<Value>(202)?;
    until("it is full", async || Ok((!ready(&filled.hostd).await?).then_some(()))).await?;
    destroyed(&caller, &heavy).await?;
    is_ready(&filled.hostd).await?;
    let more = caller.create(&json!({})).await?;
    for id in [&other, &sleepy, &more] {
        destroyed(&caller, id).await?;
    }
    filled.hostd.holds_only(&set(&[]), &set(&[]))
}

#[tokio::test]
async fn a_sandbox_that_fills_xfs_locks_nothing() -> Result<()> {
    every_way_to_make_room_works(FileSystem::Xfs, 320).await
}

#[tokio::test]
async fn a_sandbox_that_fills_ext4_without_a_part_for_root_locks_nothing() -> Result<()> {
    every_way_to_make_room_works(FileSystem::Ext4, 96).await
}

#[tokio::test]
async fn a_sandbox_that_fills_tmpfs_locks_nothing() -> Result<()> {
    every_way_to_make_room_works(FileSystem::Tmpfs, 64).await
}

#[tokio::test]
async fn a_sandbox_that_grows_is_stopped_before_the_disk_is_full_and_others_go_on() -> Result<()> {
    let filled = Filled::start(FileSystem::Tmpfs, 128, 48).await?;
    let caller = filled.hostd.local();
    let [heavy, other] = [caller.create(&json!({})).await?, caller.create(&json!({})).await?];
    let mut feed = Feed::open(&caller, &format!("/v1/sandboxes/{heavy}/events"), 0).await?;
    // Again from the start, should it ever get to the end of the disk.
    let line = "cd; while :; do head -c 1048576 /dev/zero >> big || rm big; sleep 0.05; done";
    let exec = json!({"shell": line, "wait": false});
    caller.post(&format!("/v1/sandboxes/{heavy}/execs"), &exec).await?.expect::<Value>(202)?;
    let events = feed.until(|event| event.kind == "sandbox.stopped").await?;
    let evicted =
        events.iter().find(|event| event.kind == "sandbox.evicted").context("why it was stopped")?;
    ensure!(evicted.data["problem"]["code"] == "disk_full", "{evicted:?}");
    let view = caller.becomes(&heavy, "stopped").await?;
    ensure!(view["problem"]["code"] == "disk_full", "{view}");
    ensure!(caller.prints(&other, "echo alive").await? == "alive\n");
    create_is_refused(&caller).await?;
    // The sandbox may wake to delete files.
    caller.prints(&heavy, "rm -f /home/sandbox/big").await?;
    is_ready(&filled.hostd).await?;
    ensure!(caller.sandbox(&heavy).await?["problem"].is_null());
    Ok(())
}
