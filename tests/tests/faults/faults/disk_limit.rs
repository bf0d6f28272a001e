//! `limits.disk_mb`: a full workspace harms neither hostd nor a neighbour, by each means that this kernel has, on each
//! file system that the data directory may be on; and nothing stays mounted.

use super::{asked, destroyed, set};
use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tempfile::TempDir;
use tests::host::{Feed, until};
use tests::launch::directory;
use tests::small_disk::{FileSystem, SmallDisk};
use tests::{Caller, Hostd};

/// More than the limits of all sandboxes of a test, and than XFS wants.
const DISK_MB: u64 = 512;
const LIMIT_MB: u64 = 64;
const FILL: &str = "cd; for size in 1M 4k; do dd if=/dev/zero of=big-$size bs=$size; done 2> /dev/null; \
                    ! dd if=/dev/zero of=big-last bs=4k 2> /dev/null";

/// A hostd on a disk of its own.
struct Limited {
    hostd: Hostd,
    /// Unmounted after hostd has ended, and before its file goes.
    _disk: SmallDisk,
    _outside: TempDir,
}

impl Limited {
    async fn start(kind: FileSystem, variables: &[(&str, &str)]) -> Result<Self> {
        let outside = directory()?;
        let data = outside.path().join("data");
        let disk = SmallDisk::made(kind, &data, DISK_MB)?;
        let floor = [("SLIPWAY_DISK_FLOOR_MB", "8")];
        let all =
            variables.iter().chain(&floor).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let hostd = Hostd::start_in(directory()?, data, all.collect()).await?;
        Ok(Self { hostd, _disk: disk, _outside: outside })
    }
}

fn limited(disk_mb: u64) -> Value {
    json!({"limits": {"disk_mb": disk_mb}})
}

async fn stats(caller: &Caller, id: &str) -> Result<Value> {
    caller.get(&format!("/v1/sandboxes/{id}/stats")).await?.expect(200)
}

/// Files of this directory that a loop device has.
fn attached_below(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let file = std::fs::read_to_string(entry?.path().join("loop/backing_file")).unwrap_or_default();
        found.extend(Some(file).filter(|file| Path::new(file.trim()).starts_with(dir)));
    }
    Ok(found)
}

/// That no sandbox left anything: no file, no mount, no loop device.
fn holds_nothing(hostd: &Hostd) -> Result<()> {
    hostd.holds_only(&set(&[]), &set(&[]))?;
    let traces = hostd.traces()?;
    ensure!(traces.volumes.is_empty() && traces.mounts.is_empty(), "{traces:?}");
    let attached = attached_below(hostd.data())?;
    ensure!(attached.is_empty(), "{attached:?}");
    Ok(())
}

/// The space that `df` shows inside, in kilobytes: size and rest.
async fn df(caller: &Caller, id: &str) -> Result<(u64, u64)> {
    let text = caller.prints(id, "df -k --output=size,avail /home/sandbox | tail -1").await?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Ok((numbers.next().context("a size")??, numbers.next().context("a rest")??))
}

async fn a_full_workspace_harms_nobody(kind: FileSystem, variables: &[(&str, &str)]) -> Result<()> {
    let mut place = Limited::start(kind, variables).await?;
    let caller = place.hostd.local();
    let heavy = caller.create(&limited(LIMIT_MB)).await?;
    let other = caller.create(&limited(32)).await?;
    let (size, rest) = df(&caller, &heavy).await?;
    let limit_kb = LIMIT_MB << 10;
    ensure!((limit_kb..limit_kb + limit_kb / 10).contains(&size) && rest <= size, "{size} {rest}");

    let exec = caller.shell(&heavy, FILL).await?;
    ensure!(exec["exit"]["code"] == 0, "the last write must fail: {exec}");
    let hints = exec["hints"].as_array().context("hints")?;
    ensure!(hints.iter().any(|hint| hint["kind"] == "disk_full"), "{exec}");
    ensure!(df(&caller, &heavy).await?.1 == 0);
    let kilobytes: u64 = caller.prints(&heavy, "du -k ~/big-1M | cut -f1").await?.trim().parse()?;
    ensure!((limit_kb - limit_kb / 50..limit_kb + limit_kb / 20).contains(&kilobytes), "{kilobytes}");
    let full = stats(&caller, &heavy).await?;
    ensure!(full["disk_limit_bytes"] == LIMIT_MB << 20, "{full}");
    ensure!(full["disk_bytes"].as_u64() > Some((LIMIT_MB - 2) << 20), "{full}");

    ensure!(caller.prints(&other, "head -c 20M /dev/zero > ~/mine; echo alive").await? == "alive\n");
    ensure!(caller.get("/readyz").await?.status == 200, "a full workspace is not a full disk");
    let free = caller.create(&json!({})).await?;
    ensure!(stats(&caller, &free).await?["disk_limit_bytes"].is_null());

    ensure!(asked(&caller, &heavy, "stop").await?["status"] == "stopped");
    ensure!(
        !place.hostd.traces()?.mounts.contains(&place.hostd.workspace(&heavy)),
        "mounted while it sleeps"
    );
    caller.prints(&heavy, "cd; rm big-1M; echo kept > kept").await.context("room is made")?;
    place.hostd.crash().await?;
    ensure!(caller.prints(&heavy, "cat ~/kept; stat -c %u ~/kept").await? == "kept\n1000\n");
    let recreated =
        caller.post(&format!("/v1/sandboxes/{heavy}/recreate?workspace=remove"), &json!({})).await?;
    ensure!(recreated.expect::<Value>(200)?["status"] == "running");
    ensure!(caller.prints(&heavy, "cd; ls -A; stat -c '%a %u' .").await? == "workspace\n750 1000\n");
    for id in [&heavy, &other, &free] {
        destroyed(&caller, id).await?;
    }
    holds_nothing(&place.hostd)
}

#[tokio::test]
async fn a_full_volume_on_ext4_harms_nobody() -> Result<()> {
    a_full_workspace_harms_nobody(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "loop")]).await
}

#[tokio::test]
async fn a_full_volume_on_xfs_harms_nobody() -> Result<()> {
    a_full_workspace_harms_nobody(FileSystem::Xfs, &[("SLIPWAY_QUOTA", "auto")]).await
}

#[tokio::test]
async fn a_full_volume_on_btrfs_harms_nobody() -> Result<()> {
    a_full_workspace_harms_nobody(FileSystem::Btrfs, &[("SLIPWAY_QUOTA", "loop")]).await
}

#[tokio::test]
async fn a_full_volume_of_a_runtime_without_idmapped_mounts_harms_nobody() -> Result<()> {
    let variables = [("SLIPWAY_QUOTA", "loop"), ("SLIPWAY_OCI_RUNTIME", "runc")];
    a_full_workspace_harms_nobody(FileSystem::Ext4, &variables).await
}

#[tokio::test]
async fn a_sandbox_over_a_measured_limit_is_stopped_and_may_be_started_to_delete_files() -> Result<()> {
    let place = Limited::start(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "measured")]).await?;
    let caller = place.hostd.local();
    let [heavy, other] = [caller.create(&limited(32)).await?, caller.create(&limited(32)).await?];
    let mut feed = Feed::open(&caller, &format!("/v1/sandboxes/{heavy}/events"), 0).await?;
    let line = "cd; while :; do head -c 1048576 /dev/zero >> big || exit; sleep 0.05; done";
    let exec = json!({"shell": line, "wait": false});
    caller.post(&format!("/v1/sandboxes/{heavy}/execs"), &exec).await?.expect::<Value>(202)?;
    let events = feed.until(|event| event.kind == "sandbox.stopped").await?;
    let evicted = events.iter().find(|event| event.kind == "sandbox.evicted").context("why")?;
    let problem = &evicted.data["problem"];
    ensure!(problem["code"] == "disk_full", "{problem}");
    ensure!(
        problem["message"].as_str().is_some_and(|text| text.contains("limits.disk_mb is 32")),
        "{problem}"
    );
    ensure!(caller.becomes(&heavy, "stopped").await?["problem"]["code"] == "disk_full");
    ensure!(caller.prints(&other, "echo alive").await? == "alive\n");

    ensure!(asked(&caller, &heavy, "start").await?["status"] == "running", "to delete files");
    let over = stats(&caller, &heavy).await?;
    ensure!(over["disk_bytes"].as_u64() > Some(32 << 20) && over["disk_limit_bytes"] == 32 << 20, "{over}");
    caller.prints(&heavy, "rm ~/big").await?;
    ensure!(stats(&caller, &heavy).await?["disk_bytes"].as_u64() < Some(1 << 20));
    ensure!(caller.sandbox(&heavy).await?["problem"].is_null());
    for id in [&heavy, &other] {
        destroyed(&caller, id).await?;
    }
    holds_nothing(&place.hostd)
}

#[tokio::test]
async fn a_limit_without_room_on_the_disk_is_refused_with_the_numbers() -> Result<()> {
    let place = Limited::start(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "loop")]).await?;
    let caller = place.hostd.local();
    let first = caller.create(&limited(200)).await?;
    let allocated =
        std::fs::metadata(place.hostd.data().join(format!("volumes/{first}.ext4")))?.blocks() * 512;
    ensure!(allocated >= 200 << 20, "its space is not set aside: {allocated}");
    for disk_mb in [300, 1 << 40] {
        let reply = caller.post("/v1/sandboxes", &limited(disk_mb)).await?;
        let error = reply.error()?;
        ensure!(reply.status == 507 && error.code == ApiErrorCode::DiskFull, "{error:?}");
        ensure!(
            error.message.contains("MB are free") && error.message.contains("hostd keeps 8 MB"),
            "{error:?}"
        );
    }
    destroyed(&caller, &first).await?;
    // The kernel gives the space of a volume back a moment after its last use.
    let again = until("there is room", async || {
        let reply = caller.post("/v1/sandboxes", &limited(300)).await?;
        Ok((reply.status != 507).then_some(reply))
    });
    let view: Value = again.await?.expect(201)?;
    destroyed(&caller, view["id"].as_str().context("an id")?).await?;
    holds_nothing(&place.hostd)
}

#[tokio::test]
async fn a_means_that_does_not_work_here_refuses_limits_and_says_why() -> Result<()> {
    let place = Limited::start(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "project")]).await?;
    let caller = place.hostd.local();
    let drivers: Value = caller.get("/v1/drivers").await?.expect(200)?;
    let oci = &drivers["items"][0];
    if oci["capabilities"]["disk_limit"] == "project" {
        eprintln!("this kernel has project quotas: the limit is tried instead");
        return a_full_workspace_harms_nobody(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "project")]).await;
    }
    ensure!(oci["missing"].to_string().contains("project quota"), "{oci}");
    let reply = caller.post("/v1/sandboxes", &limited(64)).await?;
    let error = reply.error()?;
    ensure!(reply.status == 422 && error.detail.field.as_deref() == Some("limits.disk_mb"), "{error:?}");
    ensure!(error.message.contains("project quota"), "{error:?}");
    destroyed(&caller, &caller.create(&json!({})).await?).await?;
    holds_nothing(&place.hostd)
}

/// How far a create with a volume has got, by what is on disk.
const STAGES: [fn(&Hostd) -> bool; 4] = [
    |hostd| names(hostd, "trash").iter().any(|name| name.starts_with("new-")),
    |hostd| names(hostd, "trash").iter().any(|name| name.ends_with(".ext4")),
    |hostd| !names(hostd, "volumes").is_empty(),
    |hostd| hostd.traces().is_ok_and(|traces| !traces.mounts.is_empty()),
];

fn names(hostd: &Hostd, dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(hostd.data().join(dir)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostd_that_is_killed_while_it_makes_a_volume_leaves_nothing_behind() -> Result<()> {
    let mut place = Limited::start(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "loop")]).await?;
    let caller = place.hostd.local();
    for (number, reached) in STAGES.into_iter().enumerate() {
        let creating = {
            let caller = caller.clone();
            tokio::spawn(async move { caller.post("/v1/sandboxes", &limited(48)).await })
        };
        while !reached(&place.hostd) && !creating.is_finished() {
            std::hint::spin_loop();
        }
        place.hostd.crash().await?;
        let _ = creating.await?;
        let page: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
        for view in page["items"].as_array().context("a list")? {
            let id = view["id"].as_str().context("an id")?;
            if view["status"] != "destroyed" {
                destroyed(&caller, id).await.with_context(|| format!("stage {number}"))?;
            }
        }
        until("the trash is emptied", async || Ok(names(&place.hostd, "trash").is_empty().then_some(())))
            .await?;
        holds_nothing(&place.hostd).with_context(|| format!("stage {number}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_volume_outlives_its_mount_its_sandbox_and_the_database() -> Result<()> {
    let mut place = Limited::start(FileSystem::Ext4, &[("SLIPWAY_QUOTA", "loop")]).await?;
    let caller = place.hostd.local();
    let id = caller.create(&limited(32)).await?;
    caller.prints(&id, "echo kept > ~/kept").await?;
    // As after a reboot: nothing runs, and nothing is mounted.
    ensure!(asked(&caller, &id, "stop").await?["status"] == "stopped");
    place.hostd.kill().await?;
    for name in ["slipway.db", "slipway.db-wal", "slipway.db-shm"] {
        let _ = std::fs::remove_file(place.hostd.data().join(name));
    }
    place.hostd.crash().await?;
    caller.becomes(&id, "stopped").await.context("adopted")?;
    ensure!(caller.prints(&id, "cat ~/kept").await? == "kept\n");
    ensure!(df(&caller, &id).await?.0 < 40 << 10, "its limit is lost");
    let view: Value = caller.delete(&format!("/v1/sandboxes/{id}?workspace=keep")).await?.expect(200)?;
    ensure!(view["status"] == "destroyed", "{view}");
    let traces = place.hostd.traces()?;
    ensure!(traces.volumes.len() == 1 && traces.mounts.is_empty(), "{traces:?}");
    ensure!(attached_below(place.hostd.data())?.is_empty());
    Ok(())
}
