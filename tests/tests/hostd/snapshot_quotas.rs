//! The quota of a disk counts each byte that is kept, once, whoever keeps it: sandboxes, snapshots and forks.

use super::quotas::{set, small, used};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::{Caller, Hostd};

const FILE_MB: u64 = 12;
/// The rest of a workspace, and the database.
const OTHERS_MB: u64 = 4;

async fn stop(caller: &Caller, id: &str) -> Result<()> {
    caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect::<Value>(200)?;
    Ok(())
}

async fn snapshot(caller: &Caller, id: &str) -> Result<String> {
    let taken = caller.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
    let taken: Value = taken.expect(201)?;
    Ok(taken["id"].as_str().context("an id")?.to_owned())
}

async fn disk_mb(hostd: &Hostd) -> Result<u64> {
    used(hostd, "acme").await?["disk_mb"].as_u64().context("measured")
}

/// Waits until the use is that of one file, and no more.
async fn counts_once(hostd: &Hostd) -> Result<()> {
    let once = |view: &Value| {
        view["used"]["disk_mb"].as_u64().is_some_and(|mb| (FILE_MB..FILE_MB + OTHERS_MB).contains(&mb))
    };
    hostd.operator()?.until("/v1/quotas/acme", once).await?;
    Ok(())
}

async fn is_empty(hostd: &Hostd) -> Result<()> {
    let empty = |view: &Value| view["used"]["disk_mb"].as_u64() < Some(OTHERS_MB);
    hostd.operator()?.until("/v1/quotas/acme", empty).await?;
    Ok(())
}

#[tokio::test]
async fn files_that_only_sandboxes_keep_count_after_their_snapshot_is_gone() -> Result<()> {
    let hostd = Hostd::start().await?;
    set(&hostd, "acme", &json!({"disk_mb": 100})).await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let id = ann.create(&small()).await?;
    ann.prints(&id, &format!("head -c {FILE_MB}M /dev/urandom > ~/large")).await?;
    stop(&ann, &id).await?;
    counts_once(&hostd).await.context("of a sandbox")?;

    let taken = snapshot(&ann, &id).await?;
    counts_once(&hostd).await.context("of a sandbox and its snapshot")?;
    let fork = ann.create(&json!({"limits": {"memory_mb": 64}, "seed": {"snapshot": taken}})).await?;
    counts_once(&hostd).await.context("and of a fork")?;

    ensure!(ann.delete(&format!("/v1/snapshots/{taken}")).await?.status == 204);
    ensure!(disk_mb(&hostd).await? >= FILE_MB, "at no moment for nobody");
    ann.prints(&fork, "head -c 3M /dev/urandom > ~/more").await?;
    let measured = |view: &Value| view["used"]["disk_mb"].as_u64() >= Some(FILE_MB + 3);
    hostd
        .operator()?
        .until("/v1/quotas/acme", measured)
        .await
        .context("measured again, and the rest still counts")?;
    ann.prints(&fork, "rm ~/more").await?;
    counts_once(&hostd).await.context("of two sandboxes")?;
    ann.delete(&format!("/v1/sandboxes/{id}?wait=30s")).await?;
    counts_once(&hostd).await.context("of the fork that is left")?;
    ann.delete(&format!("/v1/sandboxes/{fork}?wait=30s")).await?;
    is_empty(&hostd).await
}

#[tokio::test]
async fn a_snapshot_counts_with_files_that_it_hides_and_a_sandbox_after_its_restore() -> Result<()> {
    let hostd = Hostd::start().await?;
    set(&hostd, "acme", &json!({"disk_mb": 100})).await?;
    let ann = hostd.caller("acme", "ann", "run").await?;
    let id = ann.create(&small()).await?;
    stop(&ann, &id).await?;
    let empty = snapshot(&ann, &id).await?;
    ann.prints(&id, &format!("head -c {FILE_MB}M /dev/urandom > ~/large")).await?;
    stop(&ann, &id).await?;
    let full = snapshot(&ann, &id).await?;
    ann.prints(&id, "rm ~/large").await?;
    stop(&ann, &id).await?;
    let hides = snapshot(&ann, &id).await?;
    ensure!(ann.delete(&format!("/v1/snapshots/{full}")).await?.status == 204);
    ensure!(disk_mb(&hostd).await? >= FILE_MB, "the last snapshot needs the layer");
    counts_once(&hostd).await?;
    ensure!(ann.delete(&format!("/v1/snapshots/{hides}")).await?.status == 204);
    ensure!(disk_mb(&hostd).await? >= FILE_MB, "the sandbox needs the layer");
    counts_once(&hostd).await?;
    let restored = ann.post(&format!("/v1/snapshots/{empty}/restore"), &json!({})).await?;
    restored.expect::<Value>(200)?;
    is_empty(&hostd).await
}
