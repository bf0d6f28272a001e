//! Features that engines implement in their own ways: user ids, networks, runtimes, loaded images.

use crate::engine_user::EngineUser;
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use tests::engines::{ExternalNetwork, Kind, Setup};
use tests::host::{OWN_PID_NAMESPACE, until};
use tests::{Caller, Hostd};

fn owner(path: &Path) -> Result<(u32, u32)> {
    let meta = std::fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    Ok((meta.uid(), meta.gid()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_belong_to_the_sandbox_whatever_ids_the_engine_gives_it() -> Result<()> {
    let remapped = |base| Setup { remapped: Some(base), ..Setup::default() };
    let user = EngineUser::apart(Kind::Docker, remapped(700_000)).await?;
    let EngineUser { hostd, caller, engine } = &user;
    let template = hostd.data().join("templates/web");
    std::fs::create_dir_all(&template)?;
    std::fs::write(template.join("seeded"), "")?;
    let id = caller.create(&json!({"seed": {"template": "web"}})).await?;
    caller.prints(&id, "mkdir -p deep && echo kept > deep/file && ln -s /etc/shadow link").await?;
    let app = hostd.workspace(&id).join("workspace/app");
    for (setup, base) in [(None, 700_000), (Some(Setup::default()), 0), (Some(remapped(900_000)), 900_000)] {
        if let Some(setup) = setup {
            caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect::<Value>(200)?;
            tokio::task::block_in_place(|| engine.again_as(setup))?;
            until_mapped(caller, base != 0).await?;
            let started = caller.post(&format!("/v1/sandboxes/{id}/start"), &json!({})).await?;
            ensure!(started.status == 200, "{base}: {}", started.text());
        }
        let user = (base + 1000, base + 1000);
        let home = hostd.workspace(&id);
        for path in [home.join("seeded"), home, app.join("deep/file"), app.join("link")] {
            ensure!(owner(&path)? == user, "{base}: {path:?} belongs to {:?}", owner(&path)?);
        }
        let control = hostd.data().join("docker").join(&id).join("control");
        ensure!(owner(&control)? == (base, base), "{base}: control belongs to {:?}", owner(&control)?);
        let seen =
            caller.prints(&id, "cat deep/file && echo more >> deep/file && stat -c %u:%g deep/file").await?;
        ensure!(seen.starts_with("kept") && seen.trim_end().ends_with("1000:1000"), "{base}: {seen}");
    }
    ensure!(owner(Path::new("/etc/shadow"))?.0 == 0, "a link was followed");
    Ok(())
}

/// The engine is back, was tried again, and gives user namespaces or does not.
async fn until_mapped(caller: &Caller, mapped: bool) -> Result<()> {
    let wanted = |page: &Value| {
        let mut items = page["items"].as_array().into_iter().flatten();
        items.any(|one| {
            let isolation = one["capabilities"]["isolation"].to_string();
            one["name"] == "docker" && one["usable"] == true && isolation.contains("user namespace") == mapped
        })
    };
    caller.until("/v1/drivers", wanted).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_network_leads_out_and_not_to_other_sandboxes() -> Result<()> {
    for kind in [Kind::Docker, Kind::Podman] {
        let user = EngineUser::shared(kind).await?;
        let EngineUser { caller, engine, .. } = &user;
        let outside = ExternalNetwork::of(engine)?;
        let first = caller.create(&json!({"network": "open"})).await?;
        let second = caller.create(&json!({"network": "open"})).await?;
        let out = caller.prints(&first, &format!("curl -s -m 20 {}", outside.url())).await?;
        ensure!(out == "hello", "{kind:?}: {out:?}");
        let serve = "echo hello > index.html && busybox httpd -p 8000 -h . && hostname -I";
        let address = caller.prints(&second, serve).await?;
        let address = address.split_whitespace().next().context("an address")?;
        let own = format!("curl -s -o /dev/null -w %{{http_code}} http://{address}:8000/");
        let own = caller.prints(&second, &own).await?;
        ensure!(own == "200", "{kind:?}: it serves on {address}");
        let other = format!("curl -s -m 3 -o /dev/null -w %{{http_code}} http://{address}:8000/; true");
        let other = caller.prints(&first, &other).await?;
        ensure!(other == "000", "{kind:?}: one sandbox reaches another: {other}");
        for id in [&first, &second] {
            caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
        }
        let networks = user.networks()?;
        ensure!(networks.len() == usize::from(kind == Kind::Docker), "{kind:?} keeps {networks:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_wakes_after_its_network_was_removed() -> Result<()> {
    for kind in [Kind::Docker, Kind::Podman] {
        let user = EngineUser::shared(kind).await?;
        let EngineUser { caller, engine, .. } = &user;
        let id = caller.create(&json!({"network": "open"})).await?;
        caller.prints(&id, "echo kept > file").await?;
        caller.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?.expect::<Value>(200)?;
        let networks = user.networks()?;
        let network = networks.first().context("a network")?;
        // Docker removes it from under a container that does not run; Podman only with the container.
        let force: &[&str] = if kind == Kind::Podman { &["--force"] } else { &[] };
        let remove = [&["network", "rm"], force, &[network]].concat();
        // The engine takes a moment to notice that the network is unused.
        until("it lets go of the network", async || Ok(engine.prints(&remove).ok())).await?;
        let started = caller.post(&format!("/v1/sandboxes/{id}/start"), &json!({})).await?;
        ensure!(started.status == 200, "{kind:?}: {}", started.text());
        let seen = caller.prints(&id, "cat file && tail -n +3 /proc/net/dev | wc -l").await?;
        ensure!(seen == "kept\n2\n", "{kind:?}: {seen}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_processors_than_there_are_may_be_asked_for() -> Result<()> {
    let user = EngineUser::shared_with(Kind::Docker, &[("SLIPWAY_CPUS_MAX", "512")]).await?;
    let caller = &user.caller;
    let id = caller.create(&json!({"limits": {"cpus": 512}})).await?;
    ensure!(caller.prints(&id, "echo alive").await? == "alive\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_cannot_keep_sandboxes_apart_gives_no_open_network() -> Result<()> {
    let setup = Setup { arguments: &["--iptables=false", "--bridge=none"], ..Setup::default() };
    let user = EngineUser::apart(Kind::Docker, setup).await?;
    let caller = &user.caller;
    let error = caller.post("/v1/sandboxes", &json!({"network": "open"})).await?.error()?;
    ensure!(error.code == ApiErrorCode::Unsupported && !error.retryable, "{error:?}");
    ensure!(error.detail.field.as_deref() == Some("network"), "{error:?}");
    ensure!(error.detail.supported == ["none", "proxy"] && error.message.contains("firewall"), "{error:?}");
    caller.create(&json!({"network": "none"})).await?;
    let drivers: Value = caller.get("/v1/drivers").await?.expect(200)?;
    ensure!(!drivers["items"].to_string().contains("\"open\""), "{drivers}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_is_taken_when_it_runs_a_sandbox_and_refused_otherwise() -> Result<()> {
    let arguments = &["--add-runtime", "crun=/usr/sbin/runc", "--add-runtime", "youki=/bin/false"];
    let user = EngineUser::apart(Kind::Docker, Setup { arguments, ..Setup::default() }).await?;
    let EngineUser { caller, engine, .. } = &user;
    let made: Value = caller.post("/v1/sandboxes", &json!({"runtime": "crun"})).await?.expect(201)?;
    ensure!(made["runtime"] == "crun", "{made}");
    let container = engine.container(made["id"].as_str().context("an id")?)?;
    let used = engine.prints(&["inspect", "--format", "{{.HostConfig.Runtime}}", &container])?;
    ensure!(used == "crun", "{used}");
    for (runtime, words) in [("youki", "does not run a sandbox here"), ("kata", "does not offer it")] {
        let error = caller.post("/v1/sandboxes", &json!({"runtime": runtime})).await?.error()?;
        ensure!(error.code == ApiErrorCode::Unsupported && error.message.contains(words), "{error:?}");
        ensure!(error.detail.field.as_deref() == Some("runtime"), "{error:?}");
        ensure!(error.detail.supported.contains(&"crun".to_owned()), "{error:?}");
        ensure!(!error.detail.supported.iter().any(|name| name == runtime), "{error:?}");
    }
    let left = engine.containers("dev.slipway.trial")?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn podman_does_not_take_the_name_of_a_runtime_and_run_another() -> Result<()> {
    let user = EngineUser::shared(Kind::Podman).await?;
    let caller = &user.caller;
    let error = caller.post("/v1/sandboxes", &json!({"runtime": "crun"})).await?.error()?;
    ensure!(error.code == ApiErrorCode::Unsupported && error.detail.supported == ["runc"], "{error:?}");
    caller.create(&json!({"runtime": "runc"})).await?;
    Ok(())
}

#[tokio::test]
async fn the_embedded_driver_runs_every_sandbox_with_its_own_runtime() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.local();
    let error = caller.post("/v1/sandboxes", &json!({"runtime": "runsc"})).await?.error()?;
    ensure!(error.code == ApiErrorCode::Unsupported, "{error:?}");
    let own = error.detail.supported.first().cloned().context("its own is told")?;
    let made: Value = caller.post("/v1/sandboxes", &json!({"runtime": own})).await?.expect(201)?;
    ensure!(made["runtime"] == own.as_str(), "{made}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_imported_image_is_given_to_the_engine_once_and_again_when_it_is_lost() -> Result<()> {
    for kind in [Kind::Docker, Kind::Podman] {
        let user = EngineUser::shared(kind).await?;
        let EngineUser { caller, engine, .. } = &user;
        let source = tempfile::tempdir()?;
        std::fs::create_dir(source.path().join("bin"))?;
        std::fs::copy("/bin/busybox", source.path().join("bin/busybox"))?;
        symlink("busybox", source.path().join("bin/sh"))?;
        symlink("/etc/shadow", source.path().join("shadow"))?;
        let import = json!({"name": "box", "path": source.path()});
        caller.post("/v1/images", &import).await?.expect::<Value>(201)?;
        let spec = json!({"image": "box"});
        let made: Vec<String> =
            join_all((0..3).map(|_| caller.create(&spec))).await.into_iter().collect::<Result<_>>()?;
        let images = || engine.prints(&["images", "--format", "{{.Repository}}:{{.Tag}}"]);
        let given = |all: &str| all.lines().filter(|name| name.contains("slipway-image-box:")).count();
        ensure!(given(&images()?) == 1, "{kind:?}: {}", images()?);
        for id in &made {
            let seen = caller.prints(id, "/bin/busybox id -u && /bin/busybox readlink /shadow").await?;
            ensure!(seen == "1000\n/etc/shadow\n", "{kind:?}: {seen}");
            caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
        }
        let name = images()?.lines().find(|name| name.contains("slipway-image-box:")).map(str::to_owned);
        engine.prints(&["rmi", "--force", &name.context("just counted")?])?;
        ensure!(given(&images()?) == 0, "{kind:?}: {}", images()?);
        caller.create(&spec).await?;
        ensure!(given(&images()?) == 1, "{kind:?}: {}", images()?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_of_another_pid_namespace_than_hostd_is_left_alone_until_hostd_is_back() -> Result<()> {
    let mut user = EngineUser::shared(Kind::Docker).await?;
    let EngineUser { hostd, caller, engine } = &mut user;
    let id = caller.create(&json!({"idle_policy": "always_on"})).await?;
    caller.prints(&id, "echo kept > /tmp/note").await?;
    let container = engine.container(&id)?;
    let started_at =
        || engine.prints(&["inspect", "--format", "{{.State.StartedAt}} {{.State.Status}}", &container]);
    let before = started_at()?;

    hostd.again_through(OWN_PID_NAMESPACE).await?;
    let place = format!("/v1/sandboxes/{id}");
    let left_alone = |view: &Value| view["problem"]["message"].to_string().contains("another PID namespace");
    let view = caller.until(&place, left_alone).await?;
    ensure!(view["status"] == "running", "{view}");
    for reply in [
        caller.post(&format!("{place}/execs"), &json!({"shell": "true"})).await?,
        caller.post(&format!("{place}/stop"), &json!({})).await?,
        caller.delete(&place).await?,
    ] {
        let error = reply.error()?;
        ensure!(error.code == ApiErrorCode::DriverUnavailable, "{error:?}");
        ensure!(error.message.contains("another PID namespace"), "{error:?}");
    }
    ensure!(started_at()? == before, "{before} became {}", started_at()?);

    user.hostd.crash().await?;
    user.until_usable().await?;
    let EngineUser { caller, engine, .. } = &user;
    ensure!(caller.prints(&id, "cat /tmp/note").await? == "kept\n");
    caller.delete(&place).await?.expect::<Value>(200)?;
    ensure!(engine.containers(&format!("dev.slipway.sandbox={id}"))?.is_empty());
    Ok(())
}
