//! Images that are made to get out: with links where something of ours is mounted, with volumes in its way,
//! with names that mean something else.

use crate::engine_user::EngineUser;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tests::engines::{Engine, Kind, busybox};
use tokio::task::block_in_place;

/// A hostile image: its additions to a busybox, and the expected refusal.
struct HostileImage {
    name: &'static str,
    links: &'static [(&'static str, &'static str)],
    volumes: &'static [&'static str],
    why: &'static str,
}

const TRICKS: [HostileImage; 7] = [
    // Its own program would be PID 1, where the volume is mounted over runtimed.
    HostileImage { name: "program", links: &[(".runtimed", "/a/b/evil")], volumes: &["/a/b"], why: "" },
    HostileImage {
        name: "linked",
        links: &[(".runtimed", "/bin/evil")],
        volumes: &[],
        why: "its /.runtimed is a link",
    },
    // The control directory would be where the sandbox writes. PID 1 may not pass there, and ends by itself.
    HostileImage { name: "control", links: &[("run", "/home/sandbox/x")], volumes: &[], why: "" },
    HostileImage { name: "home", links: &[("home", "/tmp")], volumes: &[], why: "its /home is a link" },
    HostileImage { name: "over", links: &[("x", "/run")], volumes: &["/x/slipway"], why: "/run/slipway" },
    HostileImage { name: "above", links: &[], volumes: &["/run"], why: "its volume /run overlaps" },
    HostileImage {
        name: "at",
        links: &[],
        volumes: &["/home/sandbox"],
        why: "its volume /home/sandbox overlaps",
    },
];

fn import(engine: &Engine, trick: &HostileImage) -> Result<String> {
    let root = tempfile::tempdir()?;
    busybox(root.path())?;
    std::fs::create_dir_all(root.path().join("a/b"))?;
    for evil in ["a/b/evil", "bin/evil"] {
        std::fs::copy("/bin/busybox", root.path().join(evil))?;
    }
    for (link, to) in trick.links {
        symlink(to, root.path().join(link))?;
    }
    let name = format!("slipway-test/{}:1", trick.name);
    let changes: Vec<String> = trick.volumes.iter().map(|place| format!("VOLUME {place}")).collect();
    let changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    engine.import_tree(&name, root.path(), &changes)?;
    Ok(name)
}

fn mode(path: &Path) -> Result<u32> {
    let meta = std::fs::metadata(path).with_context(|| path.display().to_string())?;
    Ok(meta.permissions().mode() & 0o777)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_with_links_or_volumes_in_our_way_is_refused_and_does_not_run() -> Result<()> {
    for kind in [Kind::Docker, Kind::Podman] {
        let user = EngineUser::shared(kind).await?;
        let EngineUser { hostd, caller, engine } = &user;
        let ours = format!("label={}", user.label()?);
        for trick in &TRICKS {
            let image = block_in_place(|| import(engine, trick))?;
            let reply = caller.post("/v1/sandboxes", &json!({"image": image})).await?;
            let (name, text) = (trick.name, reply.text());
            ensure!(reply.status >= 400 && text.contains(trick.why), "{kind:?}, {name}: {text}");
            let running = ["ps", "--filter", &ours, "--format", "{{.Names}}"];
            let running = block_in_place(|| engine.prints(&running))?;
            ensure!(running.is_empty(), "{kind:?}, {name}: {running}");
        }
        // A harmless volume has a size limit and leaves nothing on the engine's disk.
        let good = HostileImage { name: "good", links: &[], volumes: &["/data"], why: "" };
        let image = block_in_place(|| import(engine, &good))?;
        let id = caller.create(&json!({"image": image})).await?;
        let seen = caller.prints(&id, "echo kept > /data/file && cat /data/file /proc/self/mounts").await?;
        let data = seen.lines().find(|line| line.contains(" /data ")).context("it is mounted")?;
        ensure!(seen.starts_with("kept") && data.starts_with("tmpfs") && data.contains("size="), "{data}");
        for dir in ["docker", "docker-workspaces"] {
            ensure!(mode(&hostd.data().join(dir))? == 0o700, "{kind:?}: others pass to {dir}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_is_not_sent_to_private_registries_and_not_asked_by_numbers() -> Result<()> {
    let user = EngineUser::shared(Kind::Docker).await?;
    let EngineUser { caller, engine, .. } = &user;
    let plain = HostileImage { name: "plain", links: &[], volumes: &[], why: "" };
    let image = block_in_place(|| import(engine, &plain))?;
    let number = block_in_place(|| engine.prints(&["images", "--quiet", "--no-trunc", &image]))?;
    for (name, words) in [
        ("127.0.0.1:5000/x:1", "SLIPWAY_IMAGE_REGISTRIES"),
        ("localhost/x:1", "SLIPWAY_IMAGE_REGISTRIES"),
        ("169.254.169.254/latest", "SLIPWAY_IMAGE_REGISTRIES"),
        ("docker.io/library/slipway-host:1", "are reserved"),
        (number.as_str(), "not its id"),
    ] {
        let reply = caller.post("/v1/sandboxes", &json!({"image": name})).await?;
        ensure!(reply.status >= 400 && reply.text().contains(words), "{name}: {}", reply.text());
    }
    Ok(())
}
