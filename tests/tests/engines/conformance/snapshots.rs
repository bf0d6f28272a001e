//! What a sandbox is made from: steps of a setup, dotfiles, and the files of another one.

use super::driver_column::{Column, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use tests::host::until;

fn dotfiles() -> Result<String> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join(".toolrc"), "dark\n")?;
    let tar = Command::new("tar").arg("-C").arg(dir.path()).args(["-cz", ".toolrc"]).output()?;
    ensure!(tar.status.success(), "{tar:?}");
    Ok(BASE64_STANDARD.encode(tar.stdout))
}

pub async fn provisioned(column: Arc<Column>) -> Verdict {
    let mut place = Fixture::new(&column).await?;
    let steps = json!([
        {"name": "first", "run": "cat ~/.toolrc > seen; id -u >> seen; test -e served && echo early >> seen; true"},
        {"name": "waits", "run": "echo begun >> seen; while ! test -e go; do sleep 0.05; done"},
        {"name": "last", "run": "echo $TOKEN >> seen; test -e mended", "env": {"TOKEN": "of-the-step"}},
    ]);
    let service = json!({"name": "web", "command": "touch served; exec sleep 1000"});
    let spec =
        json!({"setup": {"steps": steps}, "services": [service], "dotfiles": {"archive": dotfiles()?}});
    let view: Value = place.caller.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    let path = format!("/v1/sandboxes/{id}");
    place.caller.until(&path, |view| view["progress"] == "setup 3/4: waits").await?;
    place.crash().await?;
    let app = place.hostd.workspace(&id).join("workspace/app");
    std::fs::write(app.join("go"), "")?;
    let view = place.caller.becomes(&id, "error").await?;
    ensure!(view["problem"]["step"]["name"] == "last" && view["setup"]["done"] == 3, "{view}");
    std::fs::write(app.join("mended"), "")?;
    place.brings(&id, "start", "running").await?;
    until("its service", async || Ok(app.join("served").exists().then_some(()))).await?;
    let seen = place.caller.prints(&id, "cat seen").await?;
    ensure!(seen == "dark\n1000\nbegun\nof-the-step\nof-the-step\n", "{seen}");
    place.destroy(&id).await?;
    passed()
}

pub async fn snapshots(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let write = "mkdir -p dir; echo one > dir/file; ln dir/file same; ln -s same link; chmod 700 dir";
    place.caller.prints(&id, write).await?;
    let look = "cat dir/file same link; stat -c '%a %u %h' dir same; ls -A | sort";
    let before = place.caller.prints(&id, look).await?;
    let mut taken = Vec::new();
    for verb in [None, Some(("pause", "paused")), Some(("stop", "stopped"))] {
        if let Some((verb, status)) = verb {
            place.brings(&id, verb, status).await?;
        }
        let snapshot = place.caller.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
        let snapshot: Value = snapshot.expect(201)?;
        let path = format!("/v1/snapshots/{}", snapshot["id"].as_str().context("an id")?);
        place.caller.until(&path, |view| !view["content"].is_null()).await?;
        let verified: Value = place.caller.post(&format!("{path}/verify"), &json!({})).await?.expect(200)?;
        ensure!(verified["intact"] == true, "{verb:?}: {verified}");
        let fork: Value = place.caller.post(&format!("{path}/fork"), &json!({})).await?.expect(201)?;
        let fork = fork["id"].as_str().context("an id")?.to_owned();
        ensure!(place.caller.prints(&fork, look).await? == before, "{verb:?}");
        place.caller.prints(&fork, "echo other > same").await?;
        place.destroy(&fork).await?;
        taken.push(path);
    }
    place.caller.prints(&id, "rm -rf dir same; echo broken > dir").await?;
    for path in &taken {
        let restored: Value = place.caller.post(&format!("{path}/restore"), &json!({})).await?.expect(200)?;
        ensure!(restored["status"] == "running", "{restored}");
        ensure!(place.caller.prints(&id, look).await? == before, "{path}");
    }
    for path in &taken {
        ensure!(place.caller.delete(path).await?.status == 204, "{path}");
    }
    ensure!(place.caller.prints(&id, look).await? == before, "it needs no snapshot");
    place.destroy(&id).await?;
    passed()
}
