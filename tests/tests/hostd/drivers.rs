//! The drivers of a hostd: selected by configuration and listed by the API; sandboxes that a driver cannot
//! reach; and programs that run beside a hostd without touching it.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tests::host::{OWN_PID_NAMESPACE, until};
use tests::launch::{directory, program, script};
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, Reply};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

async fn driver(caller: &Caller, name: &str) -> Result<Value> {
    let drivers: Value = caller.get("/v1/drivers").await?.expect(200)?;
    let items = drivers["items"].as_array().context("items")?;
    items.iter().find(|driver| driver["name"] == name).cloned().with_context(|| format!("{name} is listed"))
}

#[tokio::test]
async fn a_docker_that_is_away_at_the_start_is_told_and_the_rest_works() -> Result<()> {
    let nowhere = [("SLIPWAY_DRIVER", "docker"), ("SLIPWAY_DOCKER_SOCKET", "unix:///there/is/none.sock")];
    let hostd = Hostd::start_with(&nowhere).await?;
    let operator = hostd.operator()?;
    let docker = driver(&operator, "docker").await?;
    ensure!(docker["default"] == true && docker["usable"] == false && docker["present"] == false, "{docker}");
    ensure!(docker["missing"][0].as_str().is_some_and(|why| why.contains("/there/is/none.sock")), "{docker}");
    let ready = operator.get("/readyz").await?;
    ensure!((ready.status, ready.code()?) == (503, ApiErrorCode::DriverUnavailable), "{}", ready.text());
    let refused = operator.post("/v1/sandboxes", &json!({})).await?;
    let error = refused.error()?;
    ensure!(error.code == ApiErrorCode::DriverUnavailable && error.retryable, "{error:?}");
    // No request waits for it, and another driver works as before.
    ensure!(operator.get("/v1/sandboxes").await?.status == 200);
    let made = operator.post("/v1/sandboxes", &json!({"driver": "oci"})).await?.expect::<Value>(201)?;
    ensure!(made["driver"] == "oci" && made["status"] == "running", "{made}");
    let doctor = hostd.ran(&["doctor"]).await?;
    ensure!(doctor.code == Some(1) && doctor.out.contains("docker cannot be used"), "{doctor:?}");
    Ok(())
}

#[tokio::test]
async fn with_oci_an_engine_is_left_alone_unless_it_is_named() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let docker = driver(&operator, "docker").await?;
    ensure!(docker["usable"] == false && docker["default"] == false, "{docker}");
    let error = operator.post("/v1/sandboxes", &json!({"driver": "docker"})).await?.error()?;
    ensure!(error.code == ApiErrorCode::Unsupported && error.detail.supported == ["oci"], "{error:?}");
    ensure!(error.message.contains("SLIPWAY_DOCKER_SOCKET"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn the_command_shows_drivers_and_what_is_stale() -> Result<()> {
    let hostd = Hostd::start().await?;
    let shown = hostd.ran(&["drivers"]).await?;
    ensure!(shown.code == Some(0), "{shown:?}");
    for words in ["oci *", "docker", "kubernetes", "not supported", "none, proxy"] {
        ensure!(shown.out.contains(words), "{words} in {}", shown.out);
    }
    let stale = hostd.ran(&["stale"]).await?;
    ensure!(stale.out == "nothing stale was found\n", "{stale:?}");
    // A directory that no badge explains is reported, and stays.
    let strange = hostd.data().join("oci/01jb9xyzabcdefghjkmnpqrstv");
    std::fs::create_dir(&strange)?;
    let stale: Value = hostd.operator()?.get("/v1/host/stale").await?.expect(200)?;
    ensure!(
        stale["items"][0]["name"] == "01jb9xyzabcdefghjkmnpqrstv" && stale["items"][0]["driver"] == "oci"
    );
    ensure!(hostd.ran(&["stale"]).await?.out.contains("01jb9xyzabcdefghjkmnpqrstv"));
    ensure!(strange.exists());
    Ok(())
}

#[tokio::test]
async fn sandboxes_of_another_pid_namespace_are_left_alone_and_go_on_when_hostd_is_back() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let up = operator.create(&json!({"name": "up", "idle_policy": "always_on"})).await?;
    let paused = operator.create(&json!({"name": "paused"})).await?;
    operator.post(&format!("/v1/sandboxes/{paused}/pause"), &json!({})).await?.expect::<Value>(200)?;
    let stopped = operator.create(&json!({"name": "stopped"})).await?;
    operator.post(&format!("/v1/sandboxes/{stopped}/stop"), &json!({})).await?.expect::<Value>(200)?;
    operator.prints(&up, "echo kept > /tmp/note").await?;
    let inits = inits(&hostd, [&up, &paused])?;

    hostd.again_through(OWN_PID_NAMESPACE).await?;
    let operator = hostd.operator()?;
    for (id, status) in [(&up, "running"), (&paused, "paused")] {
        for (verb, body) in [("stop", json!({})), ("pause", json!({})), ("execs", json!({"shell": "true"}))] {
            left_alone(&operator.post(&format!("/v1/sandboxes/{id}/{verb}"), &body).await?, id)?;
        }
        let task = json!({"prompt": "x", "command": ["true"]});
        left_alone(&operator.post(&format!("/v1/sandboxes/{id}/tasks"), &task).await?, id)?;
        left_alone(&operator.delete(&format!("/v1/sandboxes/{id}")).await?, id)?;
        let view = operator.sandbox(id).await?;
        ensure!(view["status"] == status && view["phase"].is_null(), "{view}");
        ensure!(view["problem"]["code"] == "driver_unavailable", "{view}");
        ensure!(hostd.said().contains("sandbox left alone") && hostd.said().contains(id.as_str()));
    }
    ensure!(inits == self::inits(&hostd, [&up, &paused])?);
    let doctor = hostd.ran(&["doctor"]).await?;
    ensure!(
        doctor.out.contains("in another PID namespace than hostd, which leaves them alone: 2"),
        "{doctor:?}"
    );
    // A stopped sandbox works as before.
    ensure!(operator.prints(&stopped, "echo here").await? == "here\n");
    operator.delete(&format!("/v1/sandboxes/{stopped}")).await?.expect::<Value>(200)?;

    hostd.crash().await?;
    let operator = hostd.operator()?;
    ensure!(inits == self::inits(&hostd, [&up, &paused])?);
    for id in [&up, &paused] {
        let view = operator.sandbox(id).await?;
        ensure!(view["problem"].is_null() && view["attempt"] == 1, "{view}");
    }
    ensure!(operator.prints(&up, "cat /tmp/note").await? == "kept\n");
    ensure!(operator.prints(&paused, "echo thawed").await? == "thawed\n");
    for id in [&up, &paused] {
        operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    }
    ensure!(hostd.processes()?.is_empty());
    Ok(())
}

/// The kernel has no number for such a hostd, and a signal to 0 would end the caller's own process group.
#[tokio::test]
async fn a_hostd_of_another_pid_namespace_is_not_stopped_and_nobody_else_is() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (first, rest) = OWN_PID_NAMESPACE.split_first().context("a program")?;
    for arguments in [&["down"][..], &["down", "--all"]] {
        let mut command = Command::new(first);
        command.args(rest).arg(program("slipway")?).args(arguments);
        hostd.address(&mut command).process_group(0);
        let output =
            timeout(PATIENCE, command.kill_on_drop(true).output()).await.context("it does not end")??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
        ensure!(said.contains("hostd runs in another PID namespace"), "{said}");
    }
    ensure!(hostd.operator()?.get("/healthz").await?.status == 200);
    hostd.stop().await
}

/// The PID 1 of each, which must run.
fn inits(hostd: &Hostd, sandboxes: [&String; 2]) -> Result<Vec<i32>> {
    let processes = hostd.processes()?;
    let mut inits = Vec::new();
    for id in sandboxes {
        let pid = std::fs::read_to_string(hostd.data().join("oci").join(id).join("pid"))?.trim().parse()?;
        ensure!(processes.contains(&pid), "{id} does not run");
        inits.push(pid);
    }
    Ok(inits)
}

/// A typed refusal that names the sandbox and says what to do.
fn left_alone(reply: &Reply, sandbox: &str) -> Result<()> {
    let error = reply.error()?;
    ensure!(error.code == ApiErrorCode::DriverUnavailable, "{error:?}");
    let words = [sandbox, "another PID namespace", "start hostd in the namespace"];
    ensure!(words.iter().all(|word| error.message.contains(word)), "{error:?}");
    Ok(())
}

/// On a machine of its own (a `scripts/apart`): as after `scripts/up`, with what a person did then.
const USED_MACHINE: &str = r#"
    set -euo pipefail
    slipway up >/dev/null 2>&1
    slipway exec up -- sh -c 'echo mine > /tmp/note'
    look() {
      slipway ls --json | jq -c '[.items[] | [.id, .name, .status, .attempt]]'
      pgrep --exact hostd
      cat /var/lib/slipway/oci/*/pid
      slipway exec up -- cat /tmp/note
      curl --silent --fail http://127.0.0.1:9090/healthz
    }
    look >before
    "$1" "$2" >said 2>&1 || { cat said; exit 1; }
    look >after
    diff before after
    cat said
"#;

/// The README under test takes the default ports, paths and names, and stops everything that it finds.
const README: &str = r#"# Test

```sh
slipway up
slipway ls --json | jq --exit-status '.items | length == 1'
slipway exec up -- sh -c '[ ! -e /tmp/note ]'
curl --silent --fail http://127.0.0.1:9090/healthz
slipway down --all
```
"#;

#[tokio::test]
async fn the_commands_of_a_readme_run_beside_a_slipway_that_is_in_use_and_leave_it_alone() -> Result<()> {
    let dir = directory()?;
    let readme = dir.path().join("README.md");
    std::fs::write(&readme, README)?;
    let programs = program("hostd")?.parent().context("a directory")?.display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH")?);
    let mut command = Command::new(script("apart")?);
    command.args(["bash", "-c", USED_MACHINE, "machine"]).arg(script("readme")?).arg(&readme);
    // Settings of the caller have no effect inside.
    command.env("SLIPWAY_URL", "http://127.0.0.1:1").env("PATH", path).current_dir(dir.path());
    let output =
        timeout(PATIENCE, command.kill_on_drop(true).output()).await.context("it does not end")??;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success() && said.contains("1 of 1 blocks run, all passed"), "{said}");
    Ok(())
}

/// However it is ended, what it ran ends and what it made is gone: at once, or where it was killed with the next one.
#[tokio::test]
async fn a_command_that_runs_apart_leaves_nothing_when_its_script_is_ended() -> Result<()> {
    for (signal, status) in [(Signal::SIGTERM, Some(143)), (Signal::SIGKILL, None)] {
        let line = "slipway up >/dev/null 2>&1 && cat /var/lib/slipway/instance && exec sleep infinity";
        let mut command = apart(&["bash", "-c", line])?;
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let instance = timeout(PATIENCE, lines.next_line()).await??.context("the name of its hostd")?;
        let scratch = instance.strip_suffix("-apart").map(|name| format!("/var/tmp/apart-{name}"));
        let scratch = scratch.with_context(|| format!("a name: {instance}"))?;
        ensure!(Path::new(&scratch).exists() && !groups(&instance)?.is_empty(), "{instance}");
        kill(Pid::from_raw(i32::try_from(child.id().context("it runs")?)?), signal)?;
        let ended = timeout(PATIENCE, child.wait()).await.context("it does not end")??;
        ensure!(ended.code() == status, "{ended}");
        until("nothing is left", async || {
            if signal == Signal::SIGKILL {
                ensure!(apart(&["true"])?.status().await?.success());
            }
            let left = Path::new(&scratch).exists() || !groups(&instance)?.is_empty();
            ensure!(!(left && signal == Signal::SIGTERM), "{instance} left something");
            Ok((!left).then_some(()))
        })
        .await?;
        // The started processes held the other end.
        ensure!(timeout(PATIENCE, lines.next_line()).await??.is_none());
    }
    Ok(())
}

fn apart(command: &[&str]) -> Result<Command> {
    let programs = program("hostd")?.parent().context("a directory")?.display().to_string();
    let mut apart = Command::new(script("apart")?);
    apart.args(command).env("PATH", format!("{programs}:{}", std::env::var("PATH")?)).kill_on_drop(true);
    Ok(apart)
}

/// The control groups of a hostd, by its name.
fn groups(instance: &str) -> Result<Vec<PathBuf>> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup")?.flatten().map(|entry| entry.path());
    let all = hierarchies.chain(["/sys/fs/cgroup".into()]).map(|at| at.join(format!("slipway-{instance}")));
    Ok(all.filter(|group| group.exists()).collect())
}
