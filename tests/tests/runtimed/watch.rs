//! Files that services watch: a change restarts once, whatever an editor or a tool does to make it.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tests::launch::{self, Launched};
use tests::services::{for_each, kind, word};
use tests::shell::shell;
use tests::{Client, Sandbox, Services, processes};

const RUN: &str = "exec sleep 1000";

/// Starts `web`, which watches these paths, and `bell`, which watches a file of that name.
async fn watched(sandbox: &Sandbox, watch: &[&str]) -> Result<Services> {
    let mut services = Services::of(sandbox).await?;
    services
        .put(json!([
            {"name": "web", "command": RUN, "watch": watch},
            {"name": "bell", "command": RUN, "watch": ["bell"]},
        ]))
        .await?;
    services.started("web").await?;
    services.started("bell").await?;
    Ok(services)
}

/// Rings the bell. Changes are told in the order in which they happened, so after its restart nothing that
/// happened before is still under way.
async fn ring(sandbox: &Sandbox, services: &mut Services) -> Result<()> {
    sandbox.write_app("bell", "ring")?;
    services.started("bell").await.map(drop)
}

/// Creates the files that exist before the service starts.
fn prepare(app: &Path) -> Result<()> {
    fs::create_dir_all(app.join("src/a/b/c"))?;
    fs::create_dir_all(app.join("src/node_modules/x"))?;
    fs::create_dir_all(app.join("src/.git"))?;
    fs::create_dir_all(app.join("src.new"))?;
    fs::create_dir_all(app.join("srcs"))?;
    fs::write(app.join("src/main.ts"), "1")?;
    fs::write(app.join("package.json"), "{}")?;
    let owned = Command::new("chown").args(["-R", "1000:1000"]).arg(app).status()?;
    ensure!(owned.success(), "chown: {owned}");
    Ok(())
}

#[tokio::test]
async fn a_watched_path_restarts_its_service_once_however_it_is_changed() -> Result<()> {
    // The watched paths, and the commands of the user in the app directory.
    let table = [
        ("package.json", "echo 1 > package.json"),
        (
            "package.json",
            "echo 1 >> package.json; echo 2 >> package.json; rm package.json; echo 3 > package.json",
        ),
        ("package.json", "echo 1 > .p.tmp; mv .p.tmp package.json"),
        ("package.json", "mv package.json package.json~; echo 1 > package.json; rm package.json~"),
        ("package.json", "sed -i s/{/[/ package.json"),
        ("package.json", "touch package.json"),
        ("package.json", "rm package.json"),
        ("./package.json", "ln -sf /dev/null package.json"),
        ("missing.json", "echo 1 > missing.json"),
        ("not/yet/there.json", "mkdir -p not/yet; echo 1 > not/yet/there.json"),
        ("src", "echo 1 > src/main.ts"),
        ("src/", "echo 1 > src/a/b/c/new.ts"),
        ("./src", "mkdir -p src/x/y/z; echo 1 > src/x/y/z/w.ts"),
        ("src", "rm -r src"),
        ("src", "rm -r src; mv src.new src"),
        ("src/a/b", "mv src/a src/q; mv src/q src/a"),
        ("src", "for i in $(seq 300); do echo $i > src/f$i; done"),
        (".", "echo 1 > any"),
    ];
    for_each(table, async |(path, change), sandbox: Sandbox| {
        prepare(&sandbox.app())?;
        let mut services = watched(&sandbox, &[path]).await?;
        let began = Instant::now();
        shell(sandbox.client(), change).await?;
        // A change that took its time may be told twice, and no oftener than every second.
        let most = 2 + began.elapsed().as_secs();
        services.started("web").await.with_context(|| format!("{path}: {change}"))?;
        ring(&sandbox, &mut services).await?;
        let view = services.view("web").await?;
        ensure!((1..=most).contains(&view.restarts), "{path}: {change}: {view:?}");
        Ok(sandbox)
    })
    .await
}

#[tokio::test]
async fn a_burst_of_changes_is_one_restart() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    prepare(&sandbox.app())?;
    let mut services = watched(&sandbox, &["src", "package.json"]).await?;
    sandbox.signal(Signal::SIGSTOP)?;
    for i in 0..500 {
        fs::create_dir(sandbox.app().join(format!("src/d{i}")))?;
        sandbox.write_app(&format!("src/d{i}/f"), "1")?;
        sandbox.write_app("package.json", "1")?;
    }
    sandbox.signal(Signal::SIGCONT)?;
    services.started("web").await?;
    ring(&sandbox, &mut services).await?;
    ensure!(services.view("web").await?.restarts == 1);
    sandbox.stop().await
}

#[tokio::test]
async fn what_is_not_watched_restarts_nobody() -> Result<()> {
    let table = [
        (
            "src",
            "mkdir src/dist; echo 1 > src/dist/out.js; rm -r src/dist; mkdir src/a/build; rm -r src/.git",
        ),
        ("src", "echo 1 > src/node_modules/x/index.js; mkdir src/node_modules/y; rm -r src/node_modules/x"),
        ("src", "echo 1 > src/.git/index.lock; mv src/.git/index.lock src/.git/index"),
        ("src", "echo 1 > srcs/main.ts; mkdir srcs/x; echo 1 > src.ts; echo 1 > package.json"),
        ("src", "cat src/main.ts; ls -R src; chmod 600 src/main.ts; touch -r src src/a"),
        ("package.json", "echo 1 > package.json.swp; echo 1 > package-lock.json; rm package-lock.json"),
        ("package.json", "mkdir new; mv new newer; rmdir newer"),
    ];
    for_each(table, async |(path, change), sandbox: Sandbox| {
        prepare(&sandbox.app())?;
        let mut services = watched(&sandbox, &[path]).await?;
        shell(sandbox.client(), change).await?;
        ring(&sandbox, &mut services).await?;
        let told: Vec<_> = services.told("web").await?.iter().map(word).collect();
        ensure!(told.is_empty(), "{path}: {change}: {told:?}");
        Ok(sandbox)
    })
    .await
}

#[tokio::test]
async fn a_change_starts_nothing_that_was_stopped_and_tries_at_once_what_failed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut services = watched(&sandbox, &["file"]).await?;
    services.drive("web", "stop").await?;
    services.state("web", "stopped").await?;
    sandbox.write_app("file", "1")?;
    ring(&sandbox, &mut services).await?;
    ensure!(services.told("web").await?.is_empty());

    // Both watch the same file; one fails until the file says otherwise.
    services
        .put(json!([
            {"name": "fails", "command": format!("grep -q good file && {RUN}; exit 1"), "watch": ["file"]},
            {"name": "runs", "command": RUN, "watch": ["file"]},
        ]))
        .await?;
    services.started("runs").await?;
    services.state("fails", "backoff").await?;
    sandbox.write_app("file", "good")?;
    services.started("runs").await?;
    let settled = |view: &protocol::ServiceView| kind(&view.state) == "ready";
    services.state("fails", "ready").await?;
    services.view_until("fails", settled).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_tree_stays_watched_while_it_grows_goes_and_comes_back() -> Result<()> {
    let grows = vec![
        "mkdir -p src/new/deeper",
        "echo 1 > src/new/deeper/file",
        "mv src/new src/renamed",
        "echo 2 > src/renamed/deeper/file",
    ];
    let goes = vec![
        "rm -r src",
        "mkdir src",
        "echo 1 > src/file",
        "mv src.new src/moved",
        "echo 1 > src/moved/file",
    ];
    for_each([grows, goes], async |steps: Vec<&str>, sandbox: Sandbox| {
        prepare(&sandbox.app())?;
        let mut services = watched(&sandbox, &["src"]).await?;
        for change in steps {
            shell(sandbox.client(), change).await?;
            services.started("web").await.with_context(|| change.to_owned())?;
            ring(&sandbox, &mut services).await?;
            services.told("web").await?;
        }
        Ok(sandbox)
    })
    .await
}

/// Waits until the warnings are as wanted: what took its time is seen in more than one look.
async fn warned(client: &Client, wanted: impl Fn(&[String]) -> bool) -> Result<()> {
    let asking = async {
        while !wanted(&client.status().await?.warnings) {}
        anyhow::Ok(())
    };
    tokio::time::timeout(tests::sandbox::PATIENCE, asking).await.context("other warnings")?
}

#[tokio::test]
async fn hundreds_of_directories_are_watched_and_too_many_are_said() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let (many, more) = ("mkdir -p many/{1..30}/{1..30}", "mkdir -p many/more/{1..100}");
    shell(sandbox.client(), many).await?;
    let mut services = watched(&sandbox, &["many"]).await?;
    sandbox.write_app("many/30/30/file", "1")?;
    services.started("web").await?;
    ensure!(sandbox.client().status().await?.warnings.is_empty());

    shell(sandbox.client(), more).await?;
    services.started("web").await?;
    let too_many = |warnings: &[String]| warnings.iter().any(|warning| warning.contains("1024 directories"));
    warned(sandbox.client(), too_many).await?;
    sandbox.write_app("sandbox.yaml", "services: { other: { command: exec sleep 1000 } }")?;
    services.started("other").await?;

    fs::remove_dir_all(sandbox.app().join("many/more"))?;
    services.started("web").await?;
    warned(sandbox.client(), <[String]>::is_empty).await?;
    sandbox.stop().await
}

/// Runs its arguments in a user namespace in which no inotify instance may be created; instances of other
/// users are not affected.
const WITHOUT_INOTIFY: &str = r#"
import ctypes, os, sys
me, (asked, ask), (done, finish) = os.getpid(), os.pipe(), os.pipe()
if os.fork() == 0:
    os.read(asked, 1)
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{me}/{name}", "w") as f: f.write("0 0 65536")
    os.write(finish, b"x")
    os._exit(0)
CLONE_NEWUSER = 0x10000000
assert ctypes.CDLL(None).unshare(CLONE_NEWUSER) == 0
os.write(ask, b"x")
os.read(done, 1)
with open("/proc/sys/user/max_inotify_instances", "w") as f: f.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[tokio::test]
async fn without_inotify_everything_else_works_and_what_was_missed_is_seen_later() -> Result<()> {
    let dir = launch::directory()?;
    let app = dir.path().join("home/workspace/app");
    fs::create_dir_all(&app)?;
    fs::write(dir.path().join("without.py"), WITHOUT_INOTIFY)?;
    let manifest = |name: &str| {
        fs::write(app.join("sandbox.yaml"), format!("services: {{ {name}: {{ command: {RUN} }} }}"))
    };
    manifest("first")?;
    let mut command = tokio::process::Command::new("python3");
    command.arg(dir.path().join("without.py")).arg(launch::script("pid1")?).arg(dir.path());
    let launched = Launched::start(dir, command, "control/sock").await?;
    let client = launched.client();
    let mut services = Services::at(client.clone()).await?;
    services.started("first").await?;
    let warnings = client.status().await?.warnings;
    ensure!(warnings.iter().any(|warning| warning.contains("max_user_instances")), "{warnings:?}");
    services.put(json!([{"name": "web", "command": RUN, "watch": ["file"]}])).await?;
    services.started("web").await?;
    services.drive("web", "restart").await?;
    services.started("web").await?;
    manifest("second")?;

    let raise = "echo 10 > /proc/sys/user/max_inotify_instances";
    let init =
        processes::below(launched.pid()?).into_iter().find(|seen| seen.inner_pid == 1).context("PID 1")?;
    let mut enter = Command::new("nsenter");
    enter.args(["--user", "--preserve-credentials", "--target", &init.pid.to_string(), "sh", "-c", raise]);
    ensure!(enter.status()?.success());
    warned(client, <[String]>::is_empty).await.context("it stays blind")?;
    services.started("second").await?;
    services.removed("first").await?;
    fs::write(app.join("file"), "1")?;
    services.started("web").await?;
    launched.stop().await
}
