//! Images of the engine: any of them works, and one that is not there is fetched or named.

use super::driver_column::{Column, Outcome, Verdict, engine, refused};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use protocol::api::ProblemCode;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tests::engines::{BUSYBOX, Image, Kind};
use tokio::task::block_in_place;

/// Where images are imported by `slipway image import` instead.
async fn unknown_image(column: &Arc<Column>) -> Verdict {
    let place = Fixture::new(column).await?;
    let reply = place.caller.post("/v1/sandboxes", &json!({"image": BUSYBOX})).await?;
    let error = reply.error()?;
    ensure!(error.detail.field.as_deref() == Some("image"), "{}", reply.text());
    Ok(Outcome::Meaningless)
}

/// A static busybox, put where the sandbox's user finds it.
fn lend_busybox(place: &Fixture, id: &str) -> Result<()> {
    let file = place.hostd.workspace(id).join("busybox");
    std::fs::copy("/bin/busybox", &file)?;
    Ok(std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?)
}

pub async fn scratch(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return unknown_image(&column).await;
    }
    let image = Image { name: "slipway-test/nothing:1", busybox: false, changes: &[] };
    block_in_place(|| engine(&column)?.import(&image))?;
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"image": image.name})).await?;
    lend_busybox(&place, &id)?;
    let path = format!("/v1/sandboxes/{id}/execs");
    for round in ["at first", "after a wake"] {
        let ask =
            json!({"argv": ["/home/sandbox/busybox", "sh", "-c", "echo $(/home/sandbox/busybox id -u)"]});
        let exec: Value = place.caller.post(&path, &ask).await?.expect(200)?;
        ensure!(exec["stdout"] == "1000\n", "{round}: {exec}");
        place.brings(&id, "stop", "stopped").await?;
        place.brings(&id, "start", "running").await?;
    }
    passed()
}

pub async fn opinionated(column: Arc<Column>) -> Verdict {
    let Some(engine) = column.engine() else { return unknown_image(&column).await };
    let mut changes = vec![
        "USER 4242:4242",
        "ENTRYPOINT [\"/bin/false\"]",
        "CMD [\"--never\"]",
        "WORKDIR /nowhere",
        "ENV PATH=/bin:/usr/bin LD_PRELOAD=/evil.so RUNTIMED_HOME=/evil",
        "VOLUME [\"/data\", \"/tmp\", \"/run/other\"]",
        "EXPOSE 80",
        "STOPSIGNAL SIGKILL",
    ];
    // Each program takes another part of what a Dockerfile may say.
    match engine.kind() {
        Kind::Docker => {
            changes.pop();
            changes.push("HEALTHCHECK --interval=1s CMD [\"/bin/false\"]");
        }
        Kind::Podman => {}
    }
    let image = Image { name: "slipway-test/opinionated:1", busybox: true, changes: &changes };
    block_in_place(|| engine.import(&image))?;
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"image": image.name})).await?;
    let seen =
        place.caller.prints(&id, "id -u; pwd; echo $LD_PRELOAD $RUNTIMED_HOME; echo kept > file").await?;
    ensure!(seen == "1000\n/home/sandbox/workspace/app\n\n", "{seen}");
    place.brings(&id, "stop", "stopped").await?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n");
    let mounted = "{{range .Mounts}}{{if eq .Type \"volume\"}}{{println .Name}}{{end}}{{end}}";
    let volumes = place.told(&["inspect", "--format", mounted, &place.container(&id)?])?;
    place.destroy(&id).await?;
    let left = block_in_place(|| engine.prints(&["volume", "ls", "--quiet"]))?;
    let is_left = |volume: &str| !volume.is_empty() && left.lines().any(|name| name == volume);
    ensure!(!volumes.lines().any(is_left), "of {volumes} are left: {left}");
    passed()
}

pub async fn missing(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let mut name = "slipway-test-none".to_owned();
    if column.engine().is_some() {
        name =
            block_in_place(|| column.with_registry(|_, registry| Ok(registry.name("slipway-test/none:1"))))?;
    }
    let reply = place.caller.post("/v1/sandboxes", &json!({"image": name})).await?;
    let error = reply.error()?;
    let problem = error.detail.problem.as_ref().map(|problem| problem.code);
    let typed = error.detail.field.as_deref() == Some("image") || problem == Some(ProblemCode::ImageMissing);
    ensure!(typed && !error.retryable && reply.text().contains(&name), "{}", reply.text());
    for wrong in ["-rm", "a b", "UPPER/Case:", "../../etc"] {
        let reply = place.caller.post("/v1/sandboxes", &json!({"image": wrong})).await?;
        ensure!(reply.error()?.detail.field.as_deref() == Some("image"), "{wrong}: {}", reply.text());
    }
    passed()
}

pub async fn pulled(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        let place = Fixture::new(&column).await?;
        let reply = place.caller.post("/v1/sandboxes", &json!({"image": "127.0.0.1:5000/x:1"})).await?;
        return refused(&reply, "image");
    }
    let image = Image { name: "slipway-test/fetched:1", busybox: true, changes: &[] };
    let name = block_in_place(|| {
        column.with_registry(|engine, registry| {
            engine.import(&image)?;
            registry.keep(engine, image.name, "slipway-test/fetched:1")
        })
    })?;
    let place = Fixture::new(&column).await?;
    let specs = [json!({"image": name}), json!({"image": name})];
    let (one, two) = tokio::join!(place.caller.create(&specs[0]), place.caller.create(&specs[1]));
    let (one, two) = (one?, two?);
    ensure!(place.caller.prints(&one, "id -u").await? == "1000\n");
    ensure!(place.caller.prints(&two, "id -u").await? == "1000\n");
    let events = tests::host::all_events(&place.caller).await?;
    let told = events.iter().find(|event| event["kind"] == "sandbox.progress").context("nothing is told")?;
    ensure!(told.to_string().contains("fetched"), "{told}");
    ensure!(place.caller.sandbox(&one).await?.get("progress").is_none(), "progress stays");
    passed()
}
