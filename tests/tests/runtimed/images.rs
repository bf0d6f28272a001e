//! The static binary as PID 1 of images that have little or nothing, with every path at its default.

use anyhow::{Context, Result, ensure};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use protocol::{ErrorCode, ExecView, Exit};
use serde_json::json;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use tempfile::TempDir;
use tests::events::EventStream;
use tests::launch::{self, Launched};
use tests::shell::{shell, stdout};
use tests::{Client, processes};
use tokio::process::Command;

/// A directory with a root that holds runtimed and nothing else.
fn nothing() -> Result<TempDir> {
    let dir = launch::directory()?;
    let root = dir.path().join("root");
    std::fs::create_dir(&root)?;
    std::fs::copy(launch::binary()?, root.join("runtimed"))?;
    Ok(dir)
}

/// The same with what every container gets, a static busybox and a home.
fn busybox() -> Result<TempDir> {
    let dir = nothing()?;
    let root = dir.path().join("root");
    for directory in ["proc", "dev", "tmp", "bin", "home/sandbox/workspace/app"] {
        std::fs::create_dir_all(root.join(directory))?;
    }
    std::fs::set_permissions(root.join("tmp"), std::fs::Permissions::from_mode(0o1777))?;
    for home in ["home/sandbox", "home/sandbox/workspace", "home/sandbox/workspace/app"] {
        chown(root.join(home), Some(1000), Some(1000))?;
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    for applet in ["sh", "true", "id", "echo", "cat", "sleep", "env", "pwd", "nc", "touch"] {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    device(&root.join("dev/null"), 3)?;
    Ok(dir)
}

fn device(path: &Path, minor: u64) -> Result<()> {
    mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(1, minor))?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?)
}

/// Makes runtimed PID 1 of a root directory. `prepare` runs in the new mount namespace before, with the root
/// in `$1`.
async fn boot(dir: TempDir, prepare: &str) -> Result<Launched> {
    let root = dir.path().join("root");
    let caps = "--bounding-set=-all,+setuid,+setgid,+kill,+sys_chroot --inh-caps=-all --clear-groups";
    let line =
        format!("set -e; {prepare}\nexec env -i $(which setpriv) {caps} $(which chroot) \"$1\" /runtimed");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--net", "--uts", "--ipc", "--"]);
    command.args(["sh", "-c", &line, "sh"]).arg(root);
    Launched::start_seen_from(dir, command, "run/runtimed/sock").await
}

const PROC: &str = "mount -t proc proc $1/proc";

async fn spawn_failed(client: &Client, request: serde_json::Value) -> Result<String> {
    let view: ExecView = client.exec(request).await?;
    match view.exit {
        Some(Exit::SpawnFailed { message }) => Ok(message),
        other => anyhow::bail!("it ended as {other:?}"),
    }
}

#[tokio::test]
async fn an_image_with_a_static_busybox_is_a_sandbox() -> Result<()> {
    let runtimed = boot(busybox()?, PROC).await?;
    let client = runtimed.client();
    ensure!(client.status().await?.pid1, "{}", runtimed.stderr());
    ensure!(shell(client, "id -u; pwd; echo $0").await? == "1000\n/home/sandbox/workspace/app\n/bin/sh\n");
    let view = client.exec(json!({"argv": ["sh", "-c", "cat; exit 7"], "stdin": "through"})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 7 }) && stdout(&view)? == "through", "{view:?}");
    let storm = "i=0; while [ $i -lt 50 ]; do (sleep 0 &); i=$((i+1)); done";
    shell(client, storm).await?;
    processes::settles(client, 1).await?;

    let mut events = EventStream::open(client).await?;
    let service =
        json!({"name": "web", "command": "nc -l -p 8080 -s 127.0.0.1", "health": {"command": "true"}});
    client.put("/v1/services", &json!({"services": [service]})).await?;
    let ready = |fact: &protocol::Fact| {
        matches!(fact, protocol::Fact::ServiceState { state: protocol::ServiceState::Ready { .. }, .. })
    };
    events.until(ready).await?;
    let own = Client::new(runtimed.path().join("root/run/slipway/sock")).get("/v1/status").await?;
    ensure!(own.status == 200, "{}", own.text());
    runtimed.stop().await
}

#[tokio::test]
async fn a_read_only_image_with_the_mounts_of_the_design_is_a_sandbox() -> Result<()> {
    let dir = busybox()?;
    for directory in ["run/runtimed", "run/slipway"] {
        std::fs::create_dir_all(dir.path().join("root").join(directory))?;
    }
    let mounts = "mount --bind $1 $1; mount -o remount,bind,ro $1; mount -t proc proc $1/proc;
        mount -t tmpfs -o mode=0700 none $1/run/runtimed; mount -t tmpfs -o mode=0755 none $1/run/slipway;
        mount -t tmpfs -o uid=1000,gid=1000,mode=0700 none $1/home/sandbox; mount -t tmpfs none $1/tmp";
    let runtimed = boot(dir, mounts).await?;
    let client = runtimed.client();
    ensure!(shell(client, "touch $HOME/x /tmp/x && echo done; pwd").await? == "done\n/home/sandbox\n");
    let view = client.exec(json!({"shell": "touch /x"})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 1 }), "{view:?}");
    let used = client.status().await?.workspace;
    ensure!(used.files == 1 && !used.partial, "{used:?}");
    runtimed.stop().await
}

#[tokio::test]
async fn an_image_with_nothing_boots_and_says_what_it_cannot_run() -> Result<()> {
    let dir = nothing()?;
    std::fs::create_dir(dir.path().join("root/proc"))?;
    let runtimed = boot(dir, PROC).await?;
    let client = runtimed.client();
    let message = spawn_failed(client, json!({"argv": ["true"]})).await?;
    ensure!(message.contains("true") && message.contains("No such file"), "{message}");
    let message = spawn_failed(client, json!({"shell": "true"})).await?;
    ensure!(message.contains("/bin/sh") && message.contains("No such file"), "{message}");
    let message = spawn_failed(client, json!({"argv": ["/runtimed"], "cwd": "/no/where"})).await?;
    ensure!(message.contains("/no/where"), "{message}");
    let tty = json!({"cols": 80, "rows": 24});
    let message = spawn_failed(client, json!({"argv": ["/runtimed", "--version"], "tty": tty})).await?;
    ensure!(!message.is_empty(), "{message}");
    // The program runs without a loader, a shell or /dev.
    let view = client.exec(json!({"argv": ["/runtimed", "--version"]})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 0 }), "{view:?}");
    ensure!(stdout(&view)?.starts_with("runtimed "), "{view:?}");
    processes::settles(client, 1).await?;
    runtimed.stop().await
}

#[tokio::test]
async fn an_image_without_proc_boots_and_refuses_to_run_what_it_could_not_end() -> Result<()> {
    let runtimed = boot(nothing()?, ":").await?;
    let client = runtimed.client();
    let answer = client.post("/v1/execs?wait_ms=60000", &json!({"argv": ["/runtimed", "--version"]})).await?;
    let said = match answer.json::<ExecView>() {
        Ok(view) => match view.exit.clone() {
            Some(Exit::SpawnFailed { message }) => message,
            other => anyhow::bail!("it ended as {other:?}"),
        },
        Err(_) => {
            let error = answer.error()?.error;
            ensure!(error.code == ErrorCode::Internal, "{error:?}");
            error.message
        }
    };
    ensure!(said.contains("/proc"), "{said}");
    client.status().await.context("the status is told all the same")?;
    runtimed.stop().await
}
