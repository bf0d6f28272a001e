//! The end: in order, inside its budget, and with everybody told. And the ends that should not be.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ErrorCode, Event, Exit, Fact};
use serde_json::json;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tests::events::{EventStream, events_so_far};
use tests::launch::{self, Launched};
use tests::output::Follower;
use tests::processes::{self, ProcessEntry};
use tests::programs::{self, FORKER};
use tests::sandbox::PATIENCE;
use tests::shell::{shell, started};
use tests::{Client, Sandbox, scaled};
use tokio::process::Command;

/// Obeys SIGTERM, and says so in a file of this name. Its child says that both are there: one that is not yet what
/// it is to be loses a signal.
fn obedient(name: &str) -> String {
    format!("trap 'echo {name} >>order; exit 0' TERM; sh -c 'echo here; exec sleep 1000' & wait")
}

/// How each exec ended, as the log says.
fn ends(events: &[Event]) -> Vec<(&str, &Exit)> {
    events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::ExecEnded { exec, exit, .. } => Some((exec.as_str(), exit)),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn sigterm_and_sigint_end_every_job_and_the_log_says_so() -> Result<()> {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut sandbox = Sandbox::start().await?;
        let client = sandbox.client();
        for id in ["a", "b"] {
            started(client, id, json!({"shell": obedient(id)}), "here").await?;
        }
        let left = "(setsid sh -c 'echo here; exec sleep 1000 >/dev/null 2>&1' &) ; exit 4";
        started(client, "left", json!({"shell": left}), "here").await?;
        client.ended("left").await?;
        sandbox.signal(signal)?;
        let status = sandbox.wait().await?;
        ensure!(status.code() == Some(0), "{signal}: {status}\n{}", sandbox.stderr());
        let sandbox = sandbox.boot_again().await?;
        let events = events_so_far(sandbox.client()).await?;
        let told = |fact: &Fact| matches!(fact, Fact::Shutdown { reason } if reason == signal.as_str());
        ensure!(events.iter().filter(|event| told(&event.fact)).count() == 1, "{events:?}");
        let mut ended = ends(&events);
        ended.sort_by_key(|(exec, _)| *exec);
        let expected =
            [("a", &Exit::Cancelled), ("b", &Exit::Cancelled), ("left", &Exit::Exited { code: 4 })];
        ensure!(ended == expected, "{ended:?}");
        let gone = |event: &&Event| matches!(&event.fact, Fact::ExecGone { exec } if exec.as_str() == "left");
        ensure!(events.iter().filter(gone).count() == 1, "{events:?}");
        let mut order: Vec<String> =
            std::fs::read_to_string(sandbox.app().join("order"))?.lines().map(str::to_owned).collect();
        order.sort();
        ensure!(order == ["a", "b"], "{order:?}");
        sandbox.stop().await?;
    }
    Ok(())
}

/// A sandbox may be stopped right after its creation. PID 1 receives only signals that it has blocked or has
/// a handler for, so its first action is to block this one.
#[tokio::test]
async fn a_sigterm_that_comes_before_it_is_up_is_not_lost() -> Result<()> {
    let binary = std::fs::canonicalize(launch::binary()?)?;
    for round in 0..scaled(10, 300) {
        let dir = launch::directory()?;
        let mut command = Command::new(launch::script("pid1")?);
        command.arg(dir.path()).stderr(Stdio::null()).kill_on_drop(true);
        let mut script = command.spawn()?;
        let booting = async {
            loop {
                let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap_or_default();
                let pid = pid.trim().to_owned();
                let is_up = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary);
                if is_up && takes_sigterm(&pid).is_some_and(|takes| takes) {
                    return anyhow::Ok(Pid::from_raw(pid.parse()?));
                }
                tokio::task::yield_now().await;
            }
        };
        let pid = tokio::time::timeout(PATIENCE, booting).await.context("it never boots")??;
        kill(pid, Signal::SIGTERM)?;
        let ended = tokio::time::timeout(PATIENCE, script.wait());
        let status = ended.await.with_context(|| format!("round {round}: SIGTERM was lost"))?;
        let status = status?;
        ensure!(status.code() == Some(0), "round {round}: {status}");
    }
    Ok(())
}

/// Whether a process would be sent a SIGTERM though it is PID 1.
fn takes_sigterm(pid: &str) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bits = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    };
    Some((bits("SigBlk:")? | bits("SigCgt:")?) & 1 << (Signal::SIGTERM as i32 - 1) != 0)
}

#[tokio::test]
async fn jobs_that_are_deaf_do_not_make_it_late() -> Result<()> {
    // More than it would have without being told.
    let budget = Duration::from_millis(12_000);
    let mut sandbox = Sandbox::start_with(&["RUNTIMED_SHUTDOWN_MS=12000"]).await?;
    programs::build(FORKER, &sandbox.app().join("forker")).await?;
    for kind in ["refork", "chain", "stopped"] {
        let request = json!({"argv": ["./forker", kind, "4"]});
        started(sandbox.client(), kind, request, "here").await?;
    }
    let service = json!({"name": "deaf", "command": "exec ./forker wide 4"});
    sandbox.client().put("/v1/services", &json!({"services": [service]})).await?;
    let begun = Instant::now();
    sandbox.signal(Signal::SIGTERM)?;
    let status = sandbox.wait().await?;
    let took = begun.elapsed();
    ensure!(status.code() == Some(0), "{status}\n{}", sandbox.stderr());
    // Generous, because the machine may be busy.
    ensure!(took >= budget * 3 / 4 && took < budget * 3, "took {took:?}");
    let sandbox = sandbox.boot_again().await?;
    let events = events_so_far(sandbox.client()).await?;
    let cancelled = ends(&events).iter().filter(|(_, exit)| **exit == Exit::Cancelled).count();
    ensure!(cancelled == 3, "{events:?}\n{}", sandbox.stderr());
    sandbox.stop().await
}

#[tokio::test]
async fn a_shim_that_does_not_answer_does_not_make_it_late() -> Result<()> {
    let mut sandbox = Sandbox::start_with(&["RUNTIMED_SHUTDOWN_MS=400"]).await?;
    started(sandbox.client(), "job", json!({"shell": obedient("job")}), "here").await?;
    let shim = processes::below(sandbox.pid()?).into_iter().find(ProcessEntry::is_shim).context("a shim")?;
    kill(shim.pid, Signal::SIGSTOP)?;
    sandbox.signal(Signal::SIGTERM)?;
    let status = sandbox.wait().await?;
    ensure!(status.code() == Some(0), "{status}\n{}", sandbox.stderr());
    ensure!(shim.is_gone(), "{shim:?}");
    Ok(())
}

#[tokio::test]
async fn a_reader_that_does_not_read_does_not_make_it_late() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let line = "echo here; head -c 20000000 /dev/zero; exec sleep 1000";
    started(sandbox.client(), "much", json!({"shell": line}), "here").await?;
    let mut follower = Follower::open(sandbox.client(), "/v1/execs/much/output?follow=1").await?;
    follower.next().await?;
    let _events = EventStream::open(sandbox.client()).await?;
    sandbox.stop().await
}

const LAYERS: &str = r#"
services:
  db: {command: "CMD", health: {log: here}}
  api: {command: "CMD", health: {log: here}, depends_on: [db]}
  web: {command: "CMD", health: {log: here}, depends_on: [api]}
  free: {command: "CMD", health: {log: here}}
"#;

#[tokio::test]
async fn services_stop_before_what_they_depend_on() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut events = EventStream::open(sandbox.client()).await?;
    let mut manifest = LAYERS.to_owned();
    for name in ["db", "api", "web", "free"] {
        manifest = manifest.replacen("CMD", &obedient(name), 1);
    }
    sandbox.write_app("sandbox.yaml", &manifest)?;
    let mut ready = Vec::new();
    while ready.len() < 4 {
        let event = events.until(|fact| is_ready(fact).is_some()).await?;
        ready.extend(is_ready(&event.fact).map(str::to_owned));
    }
    ready.retain(|name| name != "free");
    ensure!(ready == ["db", "api", "web"], "{ready:?}");
    sandbox.signal(Signal::SIGTERM)?;
    let status = sandbox.wait().await?;
    ensure!(status.code() == Some(0), "{status}\n{}", sandbox.stderr());
    let order = std::fs::read_to_string(sandbox.app().join("order"))?;
    let order: Vec<&str> = order.lines().filter(|name| *name != "free").collect();
    ensure!(order == ["web", "api", "db"], "{order:?}");
    let ended = std::fs::read_to_string(sandbox.app().join("order"))?.lines().count();
    ensure!(ended == 4, "{ended} of 4 were told");
    Ok(())
}

fn is_ready(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::ServiceState { service, state: protocol::ServiceState::Ready { .. } } => Some(service.as_str()),
        _ => None,
    }
}

/// Takes as long to obey as the test wants.
const SLOW: &str =
    "mkfifo gate; trap 'read line <gate; exit 0' TERM; sh -c 'echo here; exec sleep 1000' & wait";

#[tokio::test]
async fn during_a_shutdown_nothing_new_begins_and_everything_can_be_read() -> Result<()> {
    let mut sandbox = Sandbox::start_with(&["RUNTIMED_SHUTDOWN_MS=60000"]).await?;
    let client = sandbox.client().clone();
    started(&client, "slow", json!({"shell": SLOW}), "here").await?;
    let service = json!({"name": "web", "command": "exec sleep 1000"});
    client.put("/v1/services", &json!({"services": [service]})).await?;
    let mut events = EventStream::open(&client).await?;
    sandbox.signal(Signal::SIGTERM)?;
    events.until(|fact| matches!(fact, Fact::Shutdown { .. })).await?;
    for (path, answer) in [
        ("POST /v1/execs", client.post("/v1/execs", &json!({"shell": "true"})).await?),
        ("PUT /v1/services", client.put("/v1/services", &json!({"services": []})).await?),
        ("start", client.post("/v1/services/web/start", &json!({})).await?),
        ("restart", client.post("/v1/services/web/restart", &json!({})).await?),
    ] {
        ensure!(answer.code()? == ErrorCode::ShuttingDown && answer.status == 503, "{path}: {answer:?}");
        ensure!(answer.error()?.error.retryable, "{path}: {answer:?}");
    }
    for path in
        ["/healthz", "/v1/status", "/v1/execs", "/v1/execs/slow", "/v1/services", "/v1/events?follow=0"]
    {
        let answer = client.get(path).await?;
        ensure!(matches!(answer.status, 200 | 202), "{path}: {} {}", answer.status, answer.text());
    }
    // Once more changes nothing: there is one shutdown.
    sandbox.signal(Signal::SIGTERM)?;
    sandbox.signal(Signal::SIGINT)?;
    ensure!(client.get("/healthz").await?.status == 200);
    let gate = sandbox.app().join("gate");
    tokio::task::spawn_blocking(move || std::fs::write(gate, "go\n")).await??;
    let status = sandbox.wait().await?;
    ensure!(status.code() == Some(0), "{status}\n{}", sandbox.stderr());
    let sandbox = sandbox.boot_again().await?;
    let shutdowns = events_so_far(sandbox.client()).await?;
    let shutdowns = shutdowns.iter().filter(|event| event.fact.kind() == "shutdown").count();
    ensure!(shutdowns == 1, "{shutdowns} shutdowns");
    sandbox.stop().await
}

#[tokio::test]
async fn whoever_waits_for_an_exec_hears_of_its_end_even_in_a_shutdown() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let client = sandbox.client().clone();
    started(&client, "job", json!({"shell": obedient("job")}), "here").await?;
    let waiting = tokio::spawn(async move { client.ended("job").await });
    // The wait is on its way when the first answer came, and at the server when the second one did.
    for _ in 0..2 {
        sandbox.client().status().await?;
    }
    sandbox.signal(Signal::SIGTERM)?;
    let view = waiting.await?.context("the waiting caller")?;
    ensure!(view.exit == Some(Exit::Cancelled), "{view:?}");
    ensure!(sandbox.wait().await?.code() == Some(0), "{}", sandbox.stderr());
    Ok(())
}

#[tokio::test]
async fn a_panic_in_a_handler_is_an_answer_and_everything_goes_on() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_FAULTS=1"]).await?;
    let client = sandbox.client();
    started(client, "job", json!({"shell": "echo here; read line; exit 3", "stdin_open": true}), "here")
        .await?;
    let mut events = EventStream::open(client).await?;
    for _ in 0..20 {
        let answer = client.post("/v1/faults/panic-handler", &json!({})).await?;
        ensure!(answer.status == 500 && answer.code()? == ErrorCode::Internal, "{answer:?}");
    }
    ensure!(shell(client, "echo on").await? == "on\n");
    let line = bytes::Bytes::from_static(b"go\n");
    client.send(Method::POST, "/v1/execs/job/stdin", line).await?;
    let view = client.ended("job").await?;
    ensure!(view.exit == Some(Exit::Exited { code: 3 }), "{view:?}");
    let ended = |fact: &Fact| matches!(fact, Fact::ExecEnded { exec, .. } if exec.as_str() == "job");
    events.until(ended).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_panic_of_the_supervisor_kills_everything_and_exits_70() -> Result<()> {
    let mut sandbox = Sandbox::start_with(&["RUNTIMED_FAULTS=1"]).await?;
    programs::build(FORKER, &sandbox.app().join("forker")).await?;
    for kind in ["wide", "refork"] {
        started(sandbox.client(), kind, json!({"argv": ["./forker", kind, "4"]}), "here").await?;
    }
    let inside = processes::in_namespace_of(sandbox.pid()?)?;
    panic_the_supervisor(sandbox.client()).await;
    let status = sandbox.wait().await?;
    ensure!(status.code() == Some(70), "{status}\n{}", sandbox.stderr());
    ensure!(inside.iter().all(ProcessEntry::is_gone), "{inside:?}");
    let sandbox = sandbox.boot_again().await?;
    let events = events_so_far(sandbox.client()).await?;
    ensure!(ends(&events).iter().all(|(_, exit)| **exit == Exit::Lost), "{events:?}");
    ensure!(ends(&events).len() == 2, "{events:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn without_a_namespace_a_panic_of_the_supervisor_kills_its_own_and_nobody_else() -> Result<()> {
    let mut command = Command::new("env");
    command.arg("RUNTIMED_FAULTS=1").arg(launch::binary()?);
    let mut runtimed = Launched::without_namespace(command).await?;
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn()?;
    let line = "(setsid sleep 1000 &); echo here; exec sleep 1000";
    started(runtimed.client(), "job", json!({"shell": line}), "here").await?;
    let jobs = processes::below(runtimed.pid()?);
    panic_the_supervisor(runtimed.client()).await;
    let status = runtimed.wait().await?;
    let lives = bystander.try_wait()?.is_none();
    bystander.kill()?;
    bystander.wait()?;
    ensure!(status.code() == Some(70) && lives, "{status}\n{}", runtimed.stderr());
    ensure!(jobs.len() >= 3 && jobs.iter().all(ProcessEntry::is_gone), "{jobs:?}");
    Ok(())
}

/// The answer may be lost with the process.
async fn panic_the_supervisor(client: &Client) {
    let _ = client.post("/v1/faults/panic-supervisor", &json!({})).await;
}

#[tokio::test]
async fn there_are_no_faults_where_none_are_configured() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for fault in ["panic-handler", "panic-supervisor"] {
        let answer = sandbox.client().post(&format!("/v1/faults/{fault}"), &json!({})).await?;
        ensure!(answer.status == 404 && answer.code()? == ErrorCode::NotFound, "{answer:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_wrong_configuration_is_one_line_that_names_the_variable() -> Result<()> {
    let long = format!("/tmp/{}", "x".repeat(120));
    for (name, value) in [
        ("RUNTIMED_UID", b"0".to_vec()),
        ("RUNTIMED_UID", b"-1".to_vec()),
        ("RUNTIMED_UID", b"root".to_vec()),
        ("RUNTIMED_GID", b"4294967295".to_vec()),
        ("RUNTIMED_GID", b"\xff".to_vec()),
        ("RUNTIMED_DIR", b"relative".to_vec()),
        ("RUNTIMED_DIR", b"".to_vec()),
        ("RUNTIMED_DIR", b"\xff".to_vec()),
        ("RUNTIMED_DIR", b"/tmp/\xff".to_vec()),
        ("RUNTIMED_PUBLIC_SOCKET", b"x".to_vec()),
        ("RUNTIMED_HOME", b"~".to_vec()),
        ("RUNTIMED_APP_DIR", b"app".to_vec()),
        ("RUNTIMED_LOG_BUDGET_MB", b"1".to_vec()),
        ("RUNTIMED_LOG_BUDGET_MB", b"many".to_vec()),
        ("RUNTIMED_SHUTDOWN_MS", b"99".to_vec()),
        ("RUNTIMED_SHUTDOWN_MS", b"8 s".to_vec()),
    ] {
        let value = std::ffi::OsString::from_vec(value);
        let said = refused(|command| command.env(name, &value)).await?;
        ensure!(said.contains(name), "{name}={value:?}: {said}");
    }
    for (what, value) in
        [("/proc/version", "/proc/version"), ("/etc/passwd", "/etc/passwd/x"), (&long, &long)]
    {
        let said = refused(|command| command.env("RUNTIMED_DIR", value)).await?;
        ensure!(said.contains(what), "{value}: {said}");
    }
    let said = refused(|command| command.arg("--no-such")).await?;
    ensure!(said.contains("--no-such"), "{said}");
    let _ = std::fs::remove_dir_all(long);
    Ok(())
}

/// Starts runtimed with something wrong. It must exit 64 and say one line, which is given back.
async fn refused(wrong: impl FnOnce(&mut Command) -> &mut Command) -> Result<String> {
    let dir = launch::directory()?;
    let mut command = Command::new(launch::binary()?);
    command.env_clear().env("RUNTIMED_DIR", dir.path().join("control")).kill_on_drop(true);
    command.env("RUNTIMED_PUBLIC_SOCKET", dir.path().join("public/sock")).env("RUNTIMED_HOME", dir.path());
    wrong(&mut command);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.context("it serves")??;
    let said = String::from_utf8(output.stderr)?;
    let lines = said.lines().filter(|line| line.starts_with("runtimed: ")).count();
    ensure!(output.status.code() == Some(64), "{}: {said}", output.status);
    ensure!(lines == 1 && output.stdout.is_empty(), "{said}");
    Ok(said)
}

#[tokio::test]
async fn it_says_what_it_is_and_how_it_is_configured() -> Result<()> {
    for (argument, expected) in [("--version", "runtimed 0."), ("--help", "RUNTIMED_SHUTDOWN_MS")] {
        let output = Command::new(launch::binary()?).arg(argument).output().await?;
        let said = String::from_utf8(output.stdout)?;
        ensure!(output.status.success() && said.contains(expected), "{argument}: {said}");
    }
    Ok(())
}
