//! The client of the Engine API against a real Docker and a real Podman: every verb may be repeated, and means
//! the same on both.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use hostd_drivers::docker::engine::{CreateContainer, CreateNetwork, Engine, EngineError, Events};
use std::collections::BTreeMap;
use std::process::Command;
use tests::engines::{self, Kind, Setup};
use tests::sandbox::PATIENCE;
use tokio::time::timeout;

const IMAGE: &str = "localhost/client-test";
const NETWORK: &str = "slipway-client";

/// An engine of its own, with the image.
async fn apart(kind: Kind) -> Result<(engines::Engine, Engine)> {
    let setup = Setup { arguments: &["--iptables=false", "--bridge=none"], ..Setup::default() };
    with_image(engines::Engine::start_as(kind, setup)?).await
}

/// The engine that all tests share, with the image.
async fn shared(kind: Kind) -> Result<(engines::Engine, Engine)> {
    with_image(engines::Engine::shared(kind)?).await
}

async fn with_image(real: engines::Engine) -> Result<(engines::Engine, Engine)> {
    let engine = Engine::at(&real.socket());
    let root = tempfile::tempdir()?;
    std::fs::create_dir(root.path().join("bin"))?;
    std::fs::copy("/bin/busybox", root.path().join("bin/busybox"))?;
    let tar = Command::new("tar").arg("-C").arg(root.path()).args(["-c", "."]).output()?.stdout;
    let pieces: Vec<_> = tar.chunks(64 * 1024).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    engine.import(IMAGE, "one", Box::pin(stream::iter(pieces))).await?;
    Ok((real, engine))
}

fn container(label: &str, command: &str) -> CreateContainer {
    let mut container = CreateContainer {
        image: format!("{IMAGE}:one"),
        entrypoint: ["/bin/busybox", "sh", "-c", command].map(str::to_owned).to_vec(),
        labels: BTreeMap::from([(label.to_owned(), "yes".to_owned())]),
        ..Default::default()
    };
    container.healthcheck.test = vec!["NONE".to_owned()];
    container.host_config.network_mode = "none".to_owned();
    container.host_config.log_config.r#type = "json-file".to_owned();
    container
}

const SLEEP: &str = "echo out; echo err >&2; exec /bin/busybox sleep 1000";

async fn meets(kind: Kind) -> Result<()> {
    let (real, engine) = apart(kind).await?;
    assert_eq!(real.temporary(), Vec::<std::path::PathBuf>::new(), "after an import");
    let info = engine.connect().await?;
    assert_eq!(info.podman, kind == Kind::Podman);
    assert!(info.version.starts_with(&format!("{kind:?} ")), "{}", info.version);
    assert!(info.runtimes.iter().any(|name| name == "runc"), "{:?}", info.runtimes);
    assert!(info.security.iter().any(|option| option.starts_with("name=seccomp")));
    assert!(info.missing_limits.is_empty(), "{info:?}");
    assert!(info.cgroup_version > 0 && !info.root_dir.is_empty(), "{info:?}");

    let image = engine.image(&format!("{IMAGE}:one")).await?.context("it was imported")?;
    assert!(image.id.starts_with("sha256:"));
    assert_eq!(engine.image(&format!("{IMAGE}:two")).await?, None);
    let refused = engine.pull("127.0.0.1:1/none", &|_| {}).await;
    assert!(matches!(refused, Err(EngineError::Failed { .. })), "{refused:?}");

    assert_eq!(engine.network(NETWORK).await?, None);
    let network = CreateNetwork {
        name: NETWORK.to_owned(),
        driver: "bridge".to_owned(),
        labels: BTreeMap::from([("dev.slipway.test".to_owned(), "yes".to_owned())]),
        ..Default::default()
    };
    engine.create_network(&network).await?;
    let again = engine.create_network(&network).await;
    let made = engine.network(NETWORK).await?;
    engine.remove_network(NETWORK).await?;
    engine.remove_network(NETWORK).await?;
    assert!(matches!(again, Err(EngineError::Conflict(_))), "{again:?}");
    assert_eq!(made.context("it was made")?.labels, Some(network.labels));
    Ok(())
}

async fn repeats(kind: Kind) -> Result<()> {
    const NAME: &str = "client-test-repeats";
    const LABEL: &str = "dev.slipway.test.repeats";
    let (_real, engine) = shared(kind).await?;
    let missing =
        engine.create(NAME, &CreateContainer { image: "none:1".to_owned(), ..container(LABEL, "") }).await;
    assert!(matches!(missing, Err(EngineError::NotFound(_))), "{missing:?}");
    let id = engine.create(NAME, &container(LABEL, SLEEP)).await?;
    let taken = engine.create(NAME, &container(LABEL, SLEEP)).await;
    assert!(matches!(taken, Err(EngineError::Conflict(_))), "{taken:?}");

    // Made, and never started.
    let idle = engine.pause(NAME).await;
    assert!(matches!(idle, Err(EngineError::Conflict(_))), "{idle:?}");
    engine.unpause(NAME).await?;
    engine.kill(NAME).await?;
    engine.stop(NAME, 1).await?;
    assert_eq!(state(&engine, NAME).await?, "created");
    for _ in 0..2 {
        engine.start(NAME).await?;
    }
    let running = engine.inspect(&id).await?.context("it runs")?;
    assert!(running.state.running && running.state.pid > 0, "{running:?}");
    assert_eq!((running.name.trim_start_matches('/'), &running.id), (NAME, &id));
    engine.unpause(NAME).await?;
    for _ in 0..2 {
        engine.pause(NAME).await?;
    }
    assert_eq!(state(&engine, NAME).await?, "paused");
    let paused = engine.start(NAME).await;
    assert!(matches!(paused, Err(EngineError::Conflict(_))), "{paused:?}");
    for _ in 0..2 {
        engine.unpause(NAME).await?;
    }
    assert_eq!(state(&engine, NAME).await?, "running");
    for _ in 0..2 {
        engine.stop(NAME, 0).await?;
        engine.kill(NAME).await?;
    }
    let listed = engine.list(&format!("{LABEL}=yes")).await?;
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&id]);
    assert_eq!(engine.list(LABEL).await?, listed);
    assert_eq!(engine.list(&format!("{LABEL}=no")).await?, []);
    assert_eq!(engine.logs(NAME, 10).await?.len(), 2);
    assert_eq!(engine.logs(NAME, 1).await?.len(), 1);

    // By several at once, while it is paused.
    engine.start(NAME).await?;
    engine.pause(NAME).await?;
    for done in join_all((0..4).map(|_| engine.remove(NAME))).await {
        done.context("a removal among others")?;
    }
    gone(&engine, &id).await
}

async fn gone(engine: &Engine, id: &str) -> Result<()> {
    assert_eq!(engine.inspect(id).await?, None);
    assert_eq!(engine.logs(id, 3).await?, [""; 0]);
    engine.stop(id, 1).await?;
    engine.kill(id).await?;
    engine.remove(id).await?;
    for lost in [engine.start(id).await, engine.pause(id).await, engine.unpause(id).await] {
        assert!(matches!(lost, Err(EngineError::NotFound(_))), "{lost:?}");
    }
    Ok(())
}

async fn state(engine: &Engine, name: &str) -> Result<String> {
    Ok(engine.inspect(name).await?.context("it is there")?.state.status)
}

async fn tells(kind: Kind) -> Result<()> {
    const LABEL: &str = "dev.slipway.test.tells";
    let (_real, engine) = shared(kind).await?;
    let mut events = engine.events(&format!("{LABEL}=yes")).await?;
    let id = engine.create("client-test-tells", &container(LABEL, "exit 7")).await?;
    engine.start(&id).await?;
    let exit = until(&mut events, &id, "die").await?;
    assert_eq!(exit.get("exitCode").map(String::as_str), Some("7"), "{exit:?}");
    assert_eq!(exit.get(LABEL).map(String::as_str), Some("yes"), "{exit:?}");
    let dead = engine.inspect(&id).await?.context("it is kept")?.state;
    assert_eq!((dead.running, dead.exit_code), (false, 7), "{dead:?}");
    let other = CreateContainer { labels: BTreeMap::new(), ..container(LABEL, "exit 0") };
    let other = engine.create("client-test-other", &other).await?;
    engine.remove(&other).await?;
    engine.remove(&id).await?;
    until(&mut events, &id, "destroy").await?;
    Ok(())
}

/// The attributes of the event that was waited for. Of others there are none.
async fn until(events: &mut Events, id: &str, action: &str) -> Result<BTreeMap<String, String>> {
    loop {
        let event = timeout(PATIENCE, events.next()).await?.context("the stream ended")??;
        ensure!(event.container == id, "{event:?}");
        if event.action == action {
            return Ok(event.attributes);
        }
    }
}

async fn hangs_and_dies(kind: Kind) -> Result<()> {
    let (real, engine) = apart(kind).await?;
    let mut events = engine.events("dev.slipway.test").await?;
    real.freeze()?;
    let hung = engine.inspect("c1").await;
    assert!(matches!(hung, Err(EngineError::TimedOut { .. })), "{hung:?}");
    real.thaw()?;
    assert_eq!(engine.inspect("c1").await?, None);
    real.kill()?;
    while timeout(PATIENCE, events.next()).await?.is_some_and(|event| event.is_ok()) {}
    let dead = engine.inspect("c1").await;
    assert!(matches!(dead, Err(EngineError::Unreachable { .. })), "{dead:?}");
    Ok(())
}

macro_rules! on_both {
    ($($name:ident),*) => {
        mod docker { $(#[tokio::test] async fn $name() -> anyhow::Result<()> { super::$name(super::Kind::Docker).await })* }
        mod podman { $(#[tokio::test] async fn $name() -> anyhow::Result<()> { super::$name(super::Kind::Podman).await })* }
    };
}

on_both!(meets, repeats, tells, hangs_and_dies);
