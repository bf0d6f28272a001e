//! Images of engines and registries: any of them works, and one that is not there is pulled or named.

use super::driver_column::{Column, Outcome, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use protocol::api::ProblemCode;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use tests::engines::{Engine, Image, Kind, Registry};
use tests::images::{Access, ImageLayout, Layer, LocalRegistry};
use tokio::task::block_in_place;

/// An image that a driver can have, and a hostd that may use it.
struct Offer {
    place: Fixture,
    image: String,
    /// From which the embedded driver pulls.
    _registry: Option<LocalRegistry>,
}

/// Offers an image: an engine has it, for the embedded driver a registry has. `config` is what it says of itself there.
async fn offer(column: &Arc<Column>, image: &Image<'_>, config: &Value) -> Result<Offer> {
    if let Some(engine) = column.engine() {
        block_in_place(|| engine.import(image))?;
        let place = Fixture::new(column).await?;
        return Ok(Offer { place, image: image.name.to_owned(), _registry: None });
    }
    let layer = Layer::new()?;
    if image.busybox {
        tests::engines::busybox(layer.path())?;
    }
    let registry = LocalRegistry::start(Access::Public)?;
    let name = registry.push(&ImageLayout::write(&[layer], config)?, image.name)?;
    let place = Fixture::with(column, &[("SLIPWAY_IMAGE_REGISTRIES", registry.authority())]).await?;
    Ok(Offer { place, image: name, _registry: Some(registry) })
}

/// A static busybox, put where the sandbox's user finds it.
fn lend_busybox(place: &Fixture, id: &str) -> Result<()> {
    let file = place.hostd.workspace(id).join("busybox");
    std::fs::copy("/bin/busybox", &file)?;
    Ok(std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?)
}

pub async fn scratch(column: Arc<Column>) -> Verdict {
    let nothing = Image { name: "slipway-test/nothing:1", busybox: false, changes: &[] };
    let Offer { place, image, _registry } = offer(&column, &nothing, &json!({})).await?;
    let id = place.caller.create(&json!({"image": image})).await?;
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
    let mut changes = vec![
        "USER 4242:4242",
        "ENTRYPOINT [\"/bin/false\"]",
        "CMD [\"--never\"]",
        "WORKDIR /nowhere",
        // One each: Podman takes the rest of the line for one value.
        "ENV PATH=/bin:/usr/bin",
        "ENV LD_PRELOAD=/evil.so",
        "ENV RUNTIMED_HOME=/evil",
        "ENV GREETING=hello",
        "VOLUME [\"/data\", \"/tmp\", \"/run/other\"]",
        "EXPOSE 80",
        "STOPSIGNAL SIGKILL",
    ];
    // Each program takes another part of what a Dockerfile may say.
    match column.engine().map(Engine::kind) {
        Some(Kind::Docker) => {
            changes.pop();
            changes.push("HEALTHCHECK --interval=1s CMD [\"/bin/false\"]");
        }
        Some(Kind::Podman) | None => {}
    }
    let opinionated = Image { name: "slipway-test/opinionated:1", busybox: true, changes: &changes };
    let config = json!({
        "User": "4242:4242", "Entrypoint": ["/bin/false"], "Cmd": ["--never"], "WorkingDir": "/nowhere",
        "Env": ["PATH=/bin:/usr/bin", "LD_PRELOAD=/evil.so", "RUNTIMED_HOME=/evil", "GREETING=hello"],
        "Volumes": {"/data": {}, "/tmp": {}, "/run/other": {}}, "StopSignal": "SIGKILL",
    });
    let Offer { place, image, _registry } = offer(&column, &opinionated, &config).await?;
    let id = place.caller.create(&json!({"image": image})).await?;
    let seen = place
        .caller
        .prints(&id, "id -u; pwd; echo $LD_PRELOAD $RUNTIMED_HOME $GREETING; echo kept > file")
        .await?;
    ensure!(seen == "1000\n/home/sandbox/workspace/app\nhello\n", "{seen}");
    place.brings(&id, "stop", "stopped").await?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n");
    let Some(engine) = column.engine() else {
        let written = place.caller.prints(&id, "echo x > /data/file && cat /data/file").await?;
        ensure!(written == "x\n", "a volume: {written}");
        return passed();
    };
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
    let image = Image { name: "slipway-test/fetched:1", busybox: true, changes: &[] };
    let (place, name, _registry) = if column.engine().is_some() {
        let name = block_in_place(|| {
            column.with_registry(|engine, registry| {
                engine.import(&image)?;
                registry.keep(engine, image.name, "slipway-test/fetched:1")
            })
        })?;
        (Fixture::new(&column).await?, name, None)
    } else {
        let Offer { place, image, _registry } = offer(&column, &image, &json!({})).await?;
        (place, image, _registry)
    };
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

/// Commands whose results the layers of an image are: what a later one changes, deletes and replaces.
const CHANGES: [&str; 2] = [
    "busybox mkdir -p /tree/gone /tree/replaced/old /tree/kept && echo a > /tree/kept/a && busybox ln /tree/kept/a /tree/kept/hard \
     && busybox ln -s /nowhere /tree/link && echo b > /tree/gone/b && busybox chmod 750 /tree/kept && busybox chown 1000:1000 /tree/kept \
     && echo s > /tree/set-id && busybox chmod 6755 /tree/set-id && busybox mkfifo /tree/fifo && busybox chmod 1777 /tree/gone",
    "busybox rm -r /tree/gone /tree/replaced && busybox mkdir /tree/replaced && echo c > /tree/replaced/c && echo d > /tree/kept/hard \
     && busybox rm /tree/fifo",
];
/// Everything about a tree but the order of its entries.
const LISTING: &str = "busybox find /tree -exec busybox stat -c '%n %N %F %a %u:%g %Y' {} + | busybox sort";

/// The tree that Docker runs is the tree that the embedded driver pulls.
pub async fn same_tree(column: Arc<Column>) -> Verdict {
    match column.engine().map(Engine::kind) {
        Some(Kind::Docker) => {}
        Some(Kind::Podman) | None => return Ok(Outcome::Meaningless),
    }
    let (listed, storage) = block_in_place(|| column.with_registry(push_changed_image))?;
    let registry = LocalRegistry::of_storage(&storage)?;
    let variables = [("SLIPWAY_DRIVER", "oci"), ("SLIPWAY_IMAGE_REGISTRIES", registry.authority())];
    let hostd = tests::Hostd::start_with(&variables).await?;
    let caller = hostd.local();
    let id = caller.create(&json!({"image": registry.reference("slipway-test/changed:1")})).await?;
    let seen = caller.prints(&id, LISTING).await?;
    ensure!(listed.lines().count() >= 8 && seen.trim() == listed.trim(), "{listed}\nis not\n{seen}");
    passed()
}

/// Makes an image of several layers with Docker and pushes it; returns what Docker sees in it, and the files of the
/// registry.
fn push_changed_image(engine: &Engine, registry: &Registry) -> Result<(String, PathBuf)> {
    let image = Image { name: "slipway-test/unchanged:1", busybox: true, changes: &[] };
    engine.import(&image)?;
    let mut name = image.name.to_owned();
    for (number, change) in CHANGES.iter().enumerate() {
        let run = ["create", "--network", "none", &name, "/bin/sh", "-c", change];
        let container = engine.prints(&run)?;
        let container = container.trim();
        engine.prints(&["start", "--attach", container])?;
        name = format!("slipway-test/changed-{number}:1");
        engine.prints(&["commit", container, &name])?;
        engine.prints(&["rm", container])?;
    }
    let listed = engine.prints(&[
        "run",
        "--rm",
        "--network",
        "none",
        "--user",
        "1000:1000",
        &name,
        "/bin/sh",
        "-c",
        LISTING,
    ])?;
    registry.keep(engine, &name, "slipway-test/changed:1")?;
    Ok((listed, engine.path().join("registry")))
}
