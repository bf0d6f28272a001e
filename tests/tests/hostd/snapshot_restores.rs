//! Restores of snapshots beside everything else that may happen to a sandbox, and how long snapshots are kept.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use tests::{Caller, Hostd, Reply, host::until};

async fn take(caller: &Caller, sandbox: &str, body: &Value) -> Result<String> {
    let path = format!("/v1/sandboxes/{sandbox}/snapshots");
    let view: Value = caller.post(&path, body).await?.expect(201)?;
    Ok(view["id"].as_str().context("an id")?.to_owned())
}

/// Restores a snapshot into its own sandbox, or into another one.
async fn restore(caller: &Caller, snapshot: &str, into: Option<&str>) -> Result<Reply> {
    caller.post(&format!("/v1/snapshots/{snapshot}/restore"), &json!({ "sandbox": into })).await
}

/// The ids of the snapshots that a caller sees, oldest first.
async fn listed(caller: &Caller) -> Result<Vec<String>> {
    let list: Value = caller.get("/v1/snapshots").await?.expect(200)?;
    let ids = list["items"].as_array().into_iter().flatten().rev();
    Ok(ids.filter_map(|view| view["id"].as_str().map(str::to_owned)).collect())
}

/// Makes the layers of a host unusable.
fn damage_layers(hostd: &Hostd) -> Result<()> {
    for layer in fs::read_dir(hostd.data().join("workspace-layers"))? {
        let layer = layer?.path();
        if !layer.ends_with(".merged") {
            fs::remove_dir_all(&layer)?;
            fs::write(&layer, "")?;
        }
    }
    Ok(())
}

async fn has_no_backup(hostd: &Hostd) -> Result<()> {
    let replaced = hostd.data().join("replaced");
    until("the old files are gone", async || Ok((fs::read_dir(&replaced)?.count() == 0).then_some(()))).await
}

#[tokio::test]
async fn a_sandbox_at_rest_stays_so_and_a_snapshot_goes_into_another_sandbox_too() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let (first, second) = (ann.create(&json!({})).await?, ann.create(&json!({})).await?);
    ann.prints(&first, "echo saved > file").await?;
    ann.prints(&second, "echo other > file; echo more > more").await?;
    let snapshot = take(&ann, &first, &json!({})).await?;
    ann.prints(&first, "echo changed > file").await?;
    ann.post(&format!("/v1/sandboxes/{first}/stop"), &json!({})).await?.expect::<Value>(200)?;
    let view: Value = restore(&ann, &snapshot, None).await?.expect(200)?;
    ensure!(view["status"] == "stopped", "{view}");
    ensure!(ann.prints(&first, "cat file").await? == "saved\n");

    let view: Value = restore(&ann, &snapshot, Some(&second)).await?.expect(200)?;
    ensure!(view["id"] == second.as_str() && view["status"] == "running", "{view}");
    ensure!(ann.prints(&second, "cat file; ls").await? == "saved\nfile\n");
    has_no_backup(&hostd).await
}

#[tokio::test]
async fn while_files_are_restored_the_sandbox_obeys_nothing_but_a_destroy() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    ann.prints(&id, "echo saved > file").await?;
    let snapshot = take(&ann, &id, &json!({})).await?;
    ann.prints(&id, "echo changed > file").await?;

    let twice = tokio::join!(restore(&ann, &snapshot, None), restore(&ann, &snapshot, None));
    let mut statuses = [twice.0?.status, twice.1?.status];
    statuses.sort_unstable();
    ensure!(statuses[0] == 200 && matches!(statuses[1], 200 | 409), "{statuses:?}");
    ensure!(ann.prints(&id, "cat file").await? == "saved\n");

    // One whose files do not start, while clients wake it as fast as they can.
    ann.prints(&id, "echo newest > file").await?;
    let broken = take(&ann, &id, &json!({})).await?;
    // Without layers of its own.
    let other = ann.create(&json!({})).await?;
    ann.prints(&other, "echo mine > file").await?;
    damage_layers(&hostd)?;
    let failed = restore(&ann, &broken, Some(&other));
    let woken = async {
        for _ in 0..20 {
            let reply = ann.post(&format!("/v1/sandboxes/{other}/start"), &json!({})).await?;
            ensure!(reply.status < 500 || reply.status == 503, "{}", reply.text());
        }
        Ok(())
    };
    let (failed, woken) = tokio::join!(failed, woken);
    woken?;
    let failed = failed?;
    ensure!(failed.status >= 400, "{}", failed.text());
    has_no_backup(&hostd).await?;
    ensure!(ann.prints(&other, "cat file").await? == "mine\n");
    let gone: Value = ann.delete(&format!("/v1/sandboxes/{other}?wait=30s")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed", "{gone}");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_is_destroyed_in_the_middle_of_a_restore_and_nothing_is_left() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    for _ in 0..3 {
        let id = ann.create(&json!({})).await?;
        let snapshot = take(&ann, &id, &json!({})).await?;
        let path = format!("/v1/sandboxes/{id}?wait=30s");
        let (_, gone) = tokio::join!(restore(&ann, &snapshot, None), ann.delete(&path));
        let gone: Value = gone?.expect(200)?;
        ensure!(gone["status"] == "destroyed", "{gone}");
        ensure!(ann.delete(&format!("/v1/snapshots/{snapshot}")).await?.status == 204);
    }
    has_no_backup(&hostd).await?;
    for name in ["stacks", "workspaces"] {
        let dir = hostd.data().join(name);
        until(name, async || Ok((fs::read_dir(&dir)?.count() == 0).then_some(()))).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_sandbox_runs_on_when_hostd_is_told_to_end_during_a_snapshot() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let mut ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    ann.prints(&id, "seq 20000 | split -l 20 -a 4; setsid sh -c 'while :; do echo x >> beat; sleep 0.02; done' & sleep 0.1")
        .await?;
    let beat = hostd.workspace(&id).join("workspace/app/beat");
    for _ in 0..4 {
        let (asker, path) = (ann.clone(), format!("/v1/sandboxes/{id}/snapshots"));
        // It fails where hostd ends first.
        let asked = tokio::spawn(async move { asker.post(&path, &json!({})).await });
        let trash = hostd.data().join("trash");
        until("the snapshot is being taken", async || {
            Ok((asked.is_finished() || fs::read_dir(&trash)?.count() > 0).then_some(()))
        })
        .await?;
        ensure!(hostd.terminate().await?.success());
        let before = fs::metadata(&beat)?.len();
        until("the app goes on", async || Ok((fs::metadata(&beat)?.len() > before).then_some(()))).await?;
        asked.abort();
        hostd.again_with(&[]).await?;
        ann = hostd.caller("a", "ann", "run").await?;
    }
    Ok(())
}

#[tokio::test]
async fn snapshots_without_a_name_are_kept_up_to_a_number_and_imports_of_others_stay() -> Result<()> {
    let hostd = Hostd::start_with(&[("SLIPWAY_SNAPSHOT_KEEP", "2")]).await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "bob", "run").await?);
    let id = ann.create(&json!({})).await?;
    let mut taken = vec![take(&ann, &id, &json!({"name": "kept"})).await?];
    for _ in 0..4 {
        taken.push(take(&ann, &id, &json!({})).await?);
    }
    let newest = vec![taken[0].clone(), taken[3].clone(), taken[4].clone()];
    until("the older ones are removed", async || Ok((listed(&ann).await? == newest).then_some(()))).await?;

    ann.until(&format!("/v1/snapshots/{}", taken[4]), |view| !view["content"].is_null()).await?;
    let archive = ann.get(&format!("/v1/snapshots/{}/archive", taken[4])).await?.body;
    for _ in 0..3 {
        let imported = bob.send(hyper::Method::POST, "/v1/snapshots", archive.clone()).await?;
        let _: Value = imported.expect(201)?;
    }
    take(&ann, &id, &json!({})).await?;
    ensure!(listed(&bob).await?.len() == 3, "those of another tenant, without a sandbox");
    Ok(())
}
