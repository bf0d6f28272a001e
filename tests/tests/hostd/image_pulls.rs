//! Images that sandboxes of the embedded driver pull from a real registry.

use anyhow::{Context, Result, ensure};
use nix::unistd::chown;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tests::host::until;
use tests::images::registry::{PASSWORD, USER};
use tests::images::{Access, ImageLayout, Layer, LocalRegistry};
use tests::{Caller, Hostd};

/// A busybox with files of several owners and modes, and a layer above it that says a version.
fn image(version: &str) -> Result<ImageLayout> {
    let base = Layer::new()?;
    tests::engines::busybox(base.path())?;
    let base =
        base.file("srv/private", "of root\n")?.file("srv/theirs", "of 1000\n")?.file("etc/gone", "")?;
    fs::set_permissions(base.path().join("srv/private"), fs::Permissions::from_mode(0o600))?;
    chown(&base.path().join("srv/theirs"), Some(1000.into()), Some(1000.into()))?;
    let set_id = base.path().join("set-id/busybox");
    fs::create_dir(base.path().join("set-id"))?;
    fs::copy("/bin/busybox", &set_id)?;
    fs::set_permissions(&set_id, fs::Permissions::from_mode(0o4755))?;
    let above = Layer::new()?.file("etc/version", version)?.file("etc/.wh.gone", "")?;
    let config = json!({"Env": ["PATH=/bin:/sbin", "GREETING=hello"], "Volumes": {"/data": {}}});
    ImageLayout::write(&[base, above], &config)
}

async fn hostd(registry: &LocalRegistry) -> Result<Hostd> {
    Hostd::start_with(&[("SLIPWAY_IMAGE_REGISTRIES", registry.authority())]).await
}

/// A create that must fail: the problem of the sandbox, or the error of the response.
async fn refused(caller: &Caller, image: &str) -> Result<String> {
    let reply = caller.post("/v1/sandboxes?wait=60s", &json!({"image": image})).await?;
    let view: Value = reply.json()?;
    let failed = view["status"] == "error" || reply.status >= 400;
    ensure!(failed, "not refused: {}", reply.text());
    Ok(reply.text())
}

fn count(dir: &Path) -> Result<usize> {
    Ok(fs::read_dir(dir)?.count())
}

#[tokio::test]
async fn a_sandbox_has_the_files_owners_and_settings_of_the_image_that_it_pulls() -> Result<()> {
    let mut registry = LocalRegistry::start(Access::Public)?;
    let reference = registry.push(&image("one")?, "app:1")?;
    let hostd = hostd(&registry).await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({"image": reference})).await?;
    let seen = ann.prints(&id, "cat /etc/version; ls /etc/gone 2>&1 | wc -l; cat /srv/theirs").await?;
    ensure!(seen == "one1\nof 1000\n", "{seen}");
    let owners =
        ann.prints(&id, "stat -c '%a %u:%g %n' / /srv/private /srv/theirs /set-id/busybox /tmp").await?;
    let expected =
        "755 0:0 /\n600 0:0 /srv/private\n644 1000:1000 /srv/theirs\n4755 0:0 /set-id/busybox\n1777 ";
    ensure!(owners.starts_with(expected), "{owners}");
    let denied = ann.prints(&id, "cat /srv/private 2>&1; touch /etc/new 2>&1; /set-id/busybox id -u").await?;
    ensure!(denied.contains("Permission denied") && denied.contains("Read-only"), "{denied}");
    ensure!(denied.ends_with("1000\n"), "no set-id program works: {denied}");
    let volume = ann.prints(&id, "touch /data/file && ls /data; echo $GREETING $HOME").await?;
    ensure!(volume == "file\nhello /home/sandbox\n", "{volume}");

    // The image is there: neither another sandbox nor a wake needs the registry.
    registry.stop()?;
    let second = ann.create(&json!({"image": reference})).await?;
    ensure!(ann.prints(&second, "cat /etc/version").await? == "one");
    ann.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?;
    ensure!(ann.prints(&id, "cat /etc/version").await? == "one");
    ensure!(count(&hostd.data().join("images/.blobs"))? == 0, "downloads are removed");
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let merged = hostd.data().join("images/.merged").display().to_string();
    ensure!(!mounts.contains(&merged), "nothing is mounted on the host");
    Ok(())
}

#[tokio::test]
async fn ten_sandboxes_of_two_images_share_their_layers() -> Result<()> {
    let registry = LocalRegistry::start(Access::Public)?;
    let references = [registry.push(&image("one")?, "app:1")?, registry.push(&image("two")?, "app:2")?];
    let hostd = hostd(&registry).await?;
    let operator = hostd.operator()?;
    let creates = (0..10).map(|number| {
        let (operator, reference) = (operator.clone(), references[number % 2].clone());
        tokio::spawn(async move { operator.create(&json!({"image": reference})).await })
    });
    for create in creates.collect::<Vec<_>>() {
        create.await??;
    }
    // The base, and for each image its own layer and that of the mount points.
    ensure!(count(&hostd.data().join("images/.layers"))? == 5, "layers are shared");
    Ok(())
}

#[tokio::test]
async fn a_private_image_is_used_only_by_tenants_that_its_registry_allows() -> Result<()> {
    let registry = LocalRegistry::start(Access::Private)?;
    let reference = registry.push(&image("one")?, "app:1")?;
    let hostd = hostd(&registry).await?;
    let secret = format!("/v1/secrets/registry.{}", registry.authority().replace(':', "_"));
    let with_login = async |tenant: &str, password: &str| -> Result<Caller> {
        let admin = hostd.caller(tenant, "admin", "admin").await?;
        let value = json!({"value": format!("{USER}:{password}")});
        admin.put(&secret, &value).await?.expect::<Value>(200)?;
        hostd.caller(tenant, "user", "run").await
    };
    let (good, bad, none) = (
        with_login("good", PASSWORD).await?,
        with_login("bad", "wrong").await?,
        hostd.caller("none", "user", "run").await?,
    );
    for round in ["before anyone pulled it", "after a tenant pulled it"] {
        let text = refused(&none, &reference).await?;
        ensure!(text.contains("wants a login"), "{round}: {text}");
        let text = refused(&bad, &reference).await?;
        ensure!(text.contains("does not accept the login") && !text.contains("wrong"), "{round}: {text}");
        let id = good.create(&json!({"image": reference})).await?;
        ensure!(good.prints(&id, "cat /etc/version").await? == "one", "{round}");
    }
    let mut grep = std::process::Command::new("grep");
    let found = grep.args(["-rl", PASSWORD]).arg(hostd.data()).output()?;
    ensure!(found.stdout.is_empty(), "the password is in {}", String::from_utf8_lossy(&found.stdout));
    Ok(())
}

#[tokio::test]
async fn a_sandbox_keeps_its_version_when_the_tag_moves_and_unused_layers_are_collected() -> Result<()> {
    let registry = LocalRegistry::start(Access::Public)?;
    let reference = registry.push(&image("one")?, "app:1")?;
    let hostd = hostd(&registry).await?;
    let operator = hostd.operator()?;
    let old = operator.create(&json!({"image": reference})).await?;
    registry.push(&image("two")?, "app:1")?;
    let pull: Value =
        operator.post("/v1/image-pulls", &json!({"reference": reference})).await?.expect(202)?;
    let path = format!("/v1/image-pulls/{}", pull["id"].as_str().context("an id")?);
    let done = operator.until(&path, |pull| pull["state"] != "running").await?;
    ensure!(done["state"] == "done" && done["total_bytes"].as_u64() > Some(0), "{done}");
    let new = operator.create(&json!({"image": reference})).await?;
    operator.post(&format!("/v1/sandboxes/{old}/stop"), &json!({})).await?;
    let collect = "/v1/images/collect?apply=true&unused_for=0";
    let kept: Value = operator.post(collect, &json!({})).await?.expect(200)?;
    ensure!(kept["layers"] == 0, "both versions are in use: {kept}");
    for (id, version) in [(&old, "one"), (&new, "two")] {
        ensure!(operator.prints(id, "cat /etc/version").await? == version, "{version}");
    }
    for (id, left) in [(&old, 3), (&new, 0)] {
        operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
        operator.until(&format!("/v1/sandboxes/{id}"), |view| view["status"] == "destroyed").await?;
        operator.post(collect, &json!({})).await?.expect::<Value>(200)?;
        ensure!(count(&hostd.data().join("images/.layers"))? == left, "{left} layers are left");
    }
    Ok(())
}

#[tokio::test]
async fn a_damaged_layer_is_refused_and_nothing_is_left_of_its_image() -> Result<()> {
    let registry = LocalRegistry::start(Access::Public)?;
    let layout = image("one")?;
    let reference = registry.push(&layout, "app:1")?;
    let digest = layout.largest_blob()?;
    let file = registry.blob_file(&digest);
    let mut bytes = fs::read(&file)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes)?;
    let hostd = hostd(&registry).await?;
    let text = refused(&hostd.operator()?, &reference).await?;
    ensure!(text.contains("delivered") && text.contains(&digest), "{text}");
    ensure!(count(&hostd.data().join("images/.pulled"))? == 0, "no image is listed");
    Ok(())
}

#[tokio::test]
async fn a_pull_that_is_killed_leaves_no_image_and_is_resumed() -> Result<()> {
    let registry = LocalRegistry::start(Access::Public)?;
    let base = Layer::new()?;
    tests::engines::busybox(base.path())?;
    let large: Vec<u8> = tests::random::Random::from_seed(7).bytes(64 << 20);
    fs::write(base.path().join("large"), large)?;
    let reference = registry.push(&ImageLayout::write(&[base], &json!({}))?, "app:1")?;
    let mut hostd = hostd(&registry).await?;
    let operator = hostd.operator()?;
    let spec = json!({"image": reference, "name": "killed"});
    let created: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let blobs = hostd.data().join("images/.blobs");
    until("the download begins", async || Ok((count(&blobs)? > 0).then_some(()))).await?;
    hostd.kill().await?;
    // On a busy machine the pull may have been faster than the kill.
    let (listed, layers) = (hostd.data().join("images/.pulled"), hostd.data().join("images/.layers"));
    ensure!(
        count(&listed)? == 0 || count(&layers)? == 2,
        "an image is listed before all its layers are there"
    );
    hostd.again_with(&[]).await?;
    let operator = hostd.operator()?;
    let path = format!("/v1/sandboxes/{}", created["id"].as_str().context("an id")?);
    operator.until(&path, |view| view["status"] == "running").await?;
    let id = created["id"].as_str().context("an id")?;
    ensure!(operator.prints(id, "wc -c < /large").await?.trim() == (64 << 20).to_string());
    ensure!(count(&layers)? == 2, "each layer once");
    Ok(())
}

#[tokio::test]
async fn a_registry_that_may_not_be_asked_is_refused_at_once() -> Result<()> {
    let registry = LocalRegistry::start(Access::Public)?;
    let reference = registry.push(&image("one")?, "app:1")?;
    let hostd = Hostd::start().await?;
    let reply = hostd.operator()?.post("/v1/sandboxes", &json!({"image": reference})).await?;
    ensure!(reply.status == 422 && reply.text().contains("SLIPWAY_IMAGE_REGISTRIES"), "{}", reply.text());
    Ok(())
}
