//! `sandbox.yaml`: applied at boot and whenever it changes, however it changes; refused with a reason, and
//! then everything stays as it was.

use anyhow::{Context, Result, ensure};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use protocol::{Exit, Fact, ServiceSource, ServiceView};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tests::services::{MANIFEST, for_each, kind, word};
use tests::shell::shell;
use tests::{Sandbox, Services, scaled};

const RUN: &str = "exec sleep 1000";

/// A manifest with one plain service for each name.
fn manifest(names: &[&str]) -> String {
    let service = |name: &&str| format!("  {name}:\n    command: {RUN}\n");
    format!(
        "services: {}\n{}",
        if names.is_empty() { "{}" } else { "" },
        names.iter().map(service).collect::<String>()
    )
}

/// Waits until a manifest with exactly these names has been taken.
async fn taken(services: &mut Services, names: &[&str]) -> Result<()> {
    let these = |fact: &Fact| match fact {
        Fact::ManifestLoaded { services } => {
            services.iter().map(|name| name.as_str()).eq(names.iter().copied())
        }
        _ => false,
    };
    services.until(MANIFEST, these).await.map(drop)
}

/// Waits for the next refusal: its line, its field and the text.
async fn rejected(services: &mut Services) -> Result<(Option<u32>, Option<String>, String)> {
    match services.until(MANIFEST, |fact| word(fact) == "manifest.rejected").await?.fact {
        Fact::ManifestRejected { message, line, field } => Ok((line, field, message)),
        other => anyhow::bail!("{other:?}"),
    }
}

/// Puts `name` where the manifest is, and the manifest where `name` was, in one step.
fn exchange(app: &Path, name: &str) -> Result<()> {
    let (one, other) = (app.join("sandbox.yaml"), app.join(name));
    Ok(renameat2(AT_FDCWD, &one, AT_FDCWD, &other, RenameFlags::RENAME_EXCHANGE)?)
}

#[tokio::test]
async fn the_manifest_is_applied_at_boot() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    // The boot before must not see it.
    sandbox.crash().await?;
    fs::create_dir(sandbox.app().join("sub"))?;
    sandbox.write_app(
        "sandbox.yaml",
        r#"
version: 1
services:
  web:
    command: echo "$A|$PORT|$PWD"; exec sleep 1000
    env: { A: 1.10 }
    port: 8123
    cwd: sub
    depends_on: [db, once]
    health: { log: '\|', interval: 1s }
  db:
    command: [bash, -c, 'echo "$0 $1"; exec sleep 1000', two words, it's]
    health: { log: words }
  once: { command: exit 3, restart: never, health: { command: 'false' } }
"#,
    )?;
    let sandbox = sandbox.boot_again().await?;
    let mut services = Services::of(&sandbox).await?;
    taken(&mut services, &["web", "db", "once"]).await?;
    services.state("db", "ready").await?;
    services.state("web", "failed_dependency").await?;
    ensure!(services.prints("db", |log| log.ends_with('\n')).await? == "two words it's\n");
    let once = services.view("once").await?;
    ensure!(once.last_exit == Some(Exit::Exited { code: 3 }), "{once:?}");

    let text = fs::read_to_string(sandbox.app().join("sandbox.yaml"))?;
    sandbox.write_app("sandbox.yaml", &text.replace("[db, once]", "[db]"))?;
    services.state("web", "ready").await?;
    let log = services.prints("web", |log| log.ends_with('\n')).await?;
    ensure!(log == format!("1.10|8123|{}\n", sandbox.app().join("sub").display()), "{log}");
    let views = services.views().await?;
    ensure!(views.iter().all(|view| view.source == ServiceSource::Manifest), "{views:?}");
    ensure!(sandbox.client().status().await?.manifest_error.is_none());
    sandbox.stop().await
}

/// A shell function that writes a manifest of one service, and the way home.
const PUT: &str = "put() { printf \"services: { $1: { command: exec sleep 1000 } }\" > $2; }; cd";

#[tokio::test]
async fn every_way_to_change_the_manifest_is_seen() -> Result<()> {
    // The user's files, and the only service that then exists.
    let files = vec![
        ("put first workspace/app/sandbox.yaml", "first"),
        ("put written workspace/app/sandbox.yaml", "written"),
        ("put renamed workspace/app/.tmp; mv workspace/app/.tmp workspace/app/sandbox.yaml", "renamed"),
        ("rm workspace/app/sandbox.yaml", ""),
        ("put again .tmp; mv .tmp workspace/app/sandbox.yaml", "again"),
    ];
    let directories = vec![
        ("put first workspace/app/sandbox.yaml", "first"),
        ("mv workspace/app workspace/away", ""),
        ("mv workspace/away workspace/app", "first"),
        (
            "mkdir -p new/app; put elsewhere new/app/sandbox.yaml; mv workspace old; mv new workspace",
            "elsewhere",
        ),
        ("rm -r workspace", ""),
        ("mkdir -p workspace/app; put late workspace/app/sandbox.yaml", "late"),
    ];
    for_each([files, directories], async |steps: Vec<(&str, &str)>, sandbox: Sandbox| {
        let mut services = Services::of(&sandbox).await?;
        let mut before = "";
        for (step, name) in steps {
            shell(sandbox.client(), &format!("{PUT}; {step}")).await?;
            let names: Vec<&str> = [name].into_iter().filter(|name| !name.is_empty()).collect();
            taken(&mut services, &names).await.with_context(|| step.to_owned())?;
            if !before.is_empty() {
                services.removed(before).await?;
            }
            if !name.is_empty() {
                services.started(name).await?;
            }
            before = name;
        }
        Ok(sandbox)
    })
    .await
}

#[tokio::test]
async fn a_manifest_is_seen_whatever_else_happens_around_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    for round in 0..scaled(4, 50) {
        let name = format!("s{round}");
        fs::create_dir(sandbox.app().join(format!("before-{round}")))?;
        sandbox.write_app("sandbox.yaml", &manifest(&[&name]))?;
        fs::create_dir(sandbox.app().join(format!("after-{round}")))?;
        taken(&mut services, &[&name]).await?;
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_manifest_is_seen_though_more_happened_than_the_kernel_remembers() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["one"]))?;
    let one = services.started("one").await?;
    let kept: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events")?.trim().parse()?;
    sandbox.signal(Signal::SIGSTOP)?;
    for i in 0..kept / 3 + 10 {
        fs::write(sandbox.app().join(format!("f{}", i % 64)), "")?;
        fs::remove_file(sandbox.app().join(format!("f{}", i % 64)))?;
    }
    sandbox.write_app("sandbox.yaml", &manifest(&["one", "two"]))?;
    sandbox.signal(Signal::SIGCONT)?;
    taken(&mut services, &["one", "two"]).await?;
    services.started("two").await?;
    ensure!(services.view("one").await?.pid == Some(one));
    sandbox.stop().await
}

#[tokio::test]
async fn a_bad_manifest_is_refused_with_line_and_field_and_changes_nothing() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["web"]))?;
    let pid = services.started("web").await?;
    services.told("web").await?;
    let circle = "services:\n  a: { command: x, depends_on: [b] }\n  b: { command: x, depends_on: [a] }\n";
    let table = [
        (
            "services:\n  web:\n    command: x\n    prot: 80\n",
            Some(4),
            Some("services.web.prot"),
            "did you mean port?",
        ),
        (
            "services:\n  web: { command: x, depends_on: [db] }\n",
            Some(2),
            Some("services.web.depends_on"),
            "db",
        ),
        (circle, Some(2), Some("services.a.depends_on"), "a -> b -> a"),
        ("services:\n  web: [\n", Some(2), None, "not valid YAML"),
    ];
    for (text, line, field, message) in table {
        sandbox.write_app("sandbox.yaml", text)?;
        let (told_line, told_field, told) = rejected(&mut services).await?;
        ensure!(
            (told_line, told_field.as_deref()) == (line, field),
            "{text}: {told_line:?} {told_field:?} {told}"
        );
        ensure!(told.contains(message), "{text}: {told}");
        let error = sandbox.client().status().await?.manifest_error.unwrap_or_default();
        ensure!(error.starts_with("sandbox.yaml: ") && error.ends_with(&told), "{error}");
        ensure!(line.is_none_or(|line| error.contains(&format!("line {line}, "))), "{error}");
        ensure!(field.is_none_or(|field| error.contains(field)), "{error}");
    }
    sandbox.write_app("sandbox.yaml", &manifest(&["web", "more"]))?;
    taken(&mut services, &["web", "more"]).await?;
    ensure!(sandbox.client().status().await?.manifest_error.is_none(), "it is cleared");
    ensure!(services.view("web").await?.pid == Some(pid) && services.told("web").await?.is_empty());
    sandbox.stop().await
}

/// Makes something that is no manifest.
fn make(app: &Path, name: &str) -> Result<()> {
    let path = app.join(name);
    let mode = Mode::from_bits_truncate(0o666);
    match name {
        "shadow" => symlink("/etc/shadow", &path)?,
        "link" => {
            fs::write(app.join("good"), manifest(&["linked"]))?;
            symlink("good", &path)?;
        }
        "loop" => symlink("sandbox.yaml", &path)?,
        "fifo" => mknod(&path, SFlag::S_IFIFO, mode, 0)?,
        "zero" => mknod(&path, SFlag::S_IFCHR, mode, makedev(1, 5))?,
        "directory" => fs::create_dir(&path)?,
        "socket" => drop(std::os::unix::net::UnixListener::bind(&path)?),
        "secret" => {
            fs::write(&path, manifest(&["secret"]))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        "large" => fs::write(&path, format!("#{}\n", "x".repeat(300_000)))?,
        "binary" => fs::write(&path, b"services:\n  web: \xff\xfe\x00\x01")?,
        "bomb" => {
            let lists: String = (0..60).map(|i| format!("b{i}: [*a, *a, *a, *a]\n")).collect();
            fs::write(&path, format!("a: &a [{}]\n{lists}", "x,".repeat(200)))?;
        }
        _ => fs::write(&path, "[".repeat(10_000))?,
    }
    Ok(())
}

#[tokio::test]
async fn whatever_is_in_its_place_nothing_waits_for_it_and_nothing_secret_is_read() -> Result<()> {
    let table = [
        ("shadow", "symbolic link"),
        ("link", "symbolic link"),
        ("loop", "symbolic link"),
        ("fifo", "regular"),
        ("zero", "regular"),
        ("directory", "regular"),
        ("socket", "regular"),
        ("secret", "read"),
        ("large", "262144"),
        ("binary", "UTF-8"),
        ("bomb", "too much"),
        ("deep", "nested"),
    ];
    for_each(table, async |(name, text), sandbox: Sandbox| {
        let mut services = Services::of(&sandbox).await?;
        sandbox.write_app("sandbox.yaml", &manifest(&["web"]))?;
        let pid = services.started("web").await?;
        services.told("web").await?;
        make(&sandbox.app(), name)?;
        exchange(&sandbox.app(), name)?;
        let (_, _, message) = rejected(&mut services).await?;
        ensure!(message.contains(text) && !message.contains("root:"), "{name}: {message}");
        let status = sandbox.client().status().await?;
        ensure!(status.manifest_error.is_some_and(|error| error.contains(&message)), "{name}");
        exchange(&sandbox.app(), name)?;
        taken(&mut services, &["web"]).await?;
        ensure!(
            services.view("web").await?.pid == Some(pid) && services.told("web").await?.is_empty(),
            "{name}"
        );
        Ok(sandbox)
    })
    .await
}

#[tokio::test]
async fn a_changed_manifest_restarts_only_what_changed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let text = "services:\n  a: { command: exec sleep 1000 }\n  b: { command: exec sleep 1000 }\n";
    sandbox.write_app("sandbox.yaml", text)?;
    let (a, b) = (services.started("a").await?, services.started("b").await?);
    services.told("a").await?;
    sandbox.write_app(
        "sandbox.yaml",
        &format!("# the same, in other words\n{}", text.replace("1000 }", "1000, env: {} }")),
    )?;
    taken(&mut services, &["a", "b"]).await?;
    taken(&mut services, &["a", "b"]).await?;
    sandbox.write_app(
        "sandbox.yaml",
        &text.replace("b: { command: exec sleep 1000", "b: { command: exec sleep 1001"),
    )?;
    ensure!(services.started("b").await? != b);
    ensure!(services.view("a").await?.pid == Some(a) && services.told("a").await?.is_empty());
    sandbox.stop().await
}

#[tokio::test]
async fn a_name_belongs_to_one_source_until_it_gives_it_up() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["mine"]))?;
    let mine = services.started("mine").await?;
    let error = services.refused(json!([{"name": "mine", "command": RUN}])).await?;
    ensure!(
        error.detail.field.as_deref() == Some("services.mine") && error.message.contains("mine"),
        "{error:?}"
    );

    // The other way round, and across sources a dependency is one like any other.
    services.put(json!([{"name": "theirs", "command": RUN, "depends_on": ["mine"]}])).await?;
    let theirs = services.started("theirs").await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["mine", "theirs"]))?;
    let (_, field, message) = rejected(&mut services).await?;
    ensure!(field.as_deref() == Some("services.theirs") && message.contains("theirs"), "{message}");
    sandbox.write_app("sandbox.yaml", &manifest(&["other"]))?;
    let (_, field, message) = rejected(&mut services).await?;
    ensure!(field.as_deref() == Some("services.theirs.depends_on") && message.contains("mine"), "{message}");
    ensure!(
        services.view("mine").await?.pid == Some(mine) && services.view("theirs").await?.pid == Some(theirs)
    );

    // The conflict is gone: the manifest on disk is valid now and applies.
    services.put(json!([])).await?;
    taken(&mut services, &["other"]).await?;
    services.started("other").await?;
    services.removed("mine").await?;
    ensure!(sandbox.client().status().await?.manifest_error.is_none());
    sandbox.stop().await
}

#[tokio::test]
async fn a_name_that_changes_hands_while_its_process_stops_is_not_lost() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = Services::of(&sandbox).await?;
    let wait = "until [ -e go ]; do sleep 0.02; done; exit 0";
    let reluctant = format!("trap '{wait}' TERM; echo up; while :; do sleep 0.02; done");
    let text = format!("services:\n  web:\n    command: \"{reluctant}\"\n    health: {{ log: up }}\n");
    sandbox.write_app("sandbox.yaml", &text)?;
    services.state("web", "ready").await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["other"]))?;
    taken(&mut services, &["other"]).await?;
    services.state("web", "stopping").await?;
    let set = json!([{"name": "web", "command": RUN}]);
    services.put(set.clone()).await?;
    services.put(set).await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["other", "third"]))?;
    taken(&mut services, &["other", "third"]).await?;
    sandbox.write_app("sandbox.yaml", &manifest(&["web"]))?;
    let (_, field, message) = rejected(&mut services).await?;
    ensure!(field.as_deref() == Some("services.web"), "{message}");
    sandbox.write_app("go", "")?;
    let runs = |view: &ServiceView| kind(&view.state) == "ready" && view.source == ServiceSource::Api;
    services.view_until("web", runs).await?;
    let told = services.told("web").await?;
    ensure!(!told.iter().any(|fact| word(fact) == "removed"), "{told:?}");
    sandbox.stop().await
}
