//! A process tree dies whole, and alone: every process that a job forks dies with it, and no other does.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{ExecState, Exit, Fact, Hint};
use serde_json::{Value, json};
use tests::events::EventStream;
use tests::processes::{self, ProcessEntry};
use tests::programs::{self, FORKER, SPY, SPY_TRIES};
use tests::shell::{cancel, cancel_now, shell, started, stdout};
use tests::{Client, Sandbox, scaled};
use tokio::task::JoinSet;

/// A sandbox with the forker in its app directory and a bystander that must not be affected.
async fn prepared() -> Result<Sandbox> {
    let sandbox = Sandbox::start().await?;
    programs::build(FORKER, &sandbox.app().join("forker")).await?;
    let request = json!({"shell": "echo here; read line; exit 5", "stdin_open": true});
    started(sandbox.client(), "bystander", request, "here").await?;
    Ok(sandbox)
}

/// The processes of jobs, seen from outside, including the bystander.
fn jobs(sandbox: &Sandbox) -> Result<Vec<ProcessEntry>> {
    Ok(processes::in_namespace_of(sandbox.pid()?)?.into_iter().filter(|seen| seen.uid == 1000).collect())
}

/// Checks that only the bystander is left, inside and outside, and unharmed.
async fn only_the_bystander_is_left(sandbox: &Sandbox) -> Result<()> {
    let client = sandbox.client();
    let outside = jobs(sandbox)?;
    ensure!(outside.len() == 1 && outside[0].command.contains("read line"), "left: {outside:?}");
    // runtimed, and the bystander with its shim.
    processes::settles(client, 3).await?;
    let status = client.status().await?;
    let view = status.execs.iter().find(|exec| exec.id.as_str() == "bystander").context("the bystander")?;
    ensure!(view.state == ExecState::Running && view.background.is_empty(), "{view:?}");
    Ok(())
}

/// Lets the bystander end by itself, as it would have without all this.
async fn finish(sandbox: Sandbox) -> Result<()> {
    only_the_bystander_is_left(&sandbox).await?;
    release(sandbox.client(), "bystander", 5).await?;
    sandbox.stop().await
}

/// Gives an exec that waits for a line this line; it must then exit with this code.
async fn release(client: &Client, id: &str, code: i32) -> Result<()> {
    let line = bytes::Bytes::from_static(b"go\n");
    let answer = client.send(hyper::Method::POST, &format!("/v1/execs/{id}/stdin"), line).await?;
    ensure!(answer.status == 204, "{}", answer.text());
    let view = client.ended(id).await?;
    ensure!(view.exit == Some(Exit::Exited { code }) && view.hints.is_empty(), "{view:?}");
    Ok(())
}

#[tokio::test]
async fn a_cancelled_tree_dies_whole_and_alone() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    for round in 0..scaled(3, 200) {
        for (kind, count) in [("refork", 8), ("chain", 50), ("wide", 200), ("stopped", 20)] {
            let id = format!("{kind}-{round}");
            started(client, &id, json!({"argv": ["./forker", kind, count.to_string()]}), "here").await?;
            let view = cancel_now(client, &id).await?;
            ensure!(view.exit == Some(Exit::Cancelled) && view.hints.is_empty(), "{view:?}");
            only_the_bystander_is_left(&sandbox).await.context(id)?;
        }
    }
    finish(sandbox).await
}

#[tokio::test]
async fn a_tree_that_is_deaf_to_sigterm_is_killed_when_its_grace_is_over() -> Result<()> {
    let sandbox = prepared().await?;
    for kind in ["refork", "chain", "stopped"] {
        started(sandbox.client(), kind, json!({"argv": ["./forker", kind, "8"]}), "here").await?;
        let view = cancel(sandbox.client(), kind, 100).await?;
        ensure!(view.exit == Some(Exit::Cancelled) && view.hints.is_empty(), "{view:?}");
        ensure!(view.duration_ms.is_some_and(|ms| ms >= 100), "{kind} had no grace: {view:?}");
        only_the_bystander_is_left(&sandbox).await.context(kind)?;
    }
    finish(sandbox).await
}

#[tokio::test]
async fn a_tree_that_obeys_sigterm_needs_no_more_of_its_grace() -> Result<()> {
    let sandbox = prepared().await?;
    // Said by the child: one that is not yet what it is to be loses a signal.
    let line = "trap 'echo bye; exit 0' TERM; sh -c 'echo here; exec sleep 1000' & wait";
    started(sandbox.client(), "obeys", json!({"shell": line}), "here").await?;
    let view = cancel(sandbox.client(), "obeys", 60_000).await?;
    ensure!(view.exit == Some(Exit::Cancelled) && stdout(&view)? == "here\nbye\n", "{view:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn a_tree_that_was_stopped_is_woken_to_obey_sigterm() -> Result<()> {
    let sandbox = prepared().await?;
    let line = "trap 'echo bye; exit 0' TERM; echo here; kill -STOP $$; sleep 1000 & wait";
    let view = started(sandbox.client(), "stopped", json!({"shell": line}), "here").await?;
    let leader = processes::from_inside(sandbox.pid()?, view.pid.context("it runs")?)?;
    let stops = async {
        while ProcessEntry::at(leader.pid).is_some_and(|seen| seen.state != 'T') {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(tests::sandbox::PATIENCE, stops).await.context("it never stops")?;
    let view = cancel(sandbox.client(), "stopped", 60_000).await?;
    ensure!(view.exit == Some(Exit::Cancelled) && stdout(&view)? == "here\nbye\n", "{view:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn a_second_cancel_without_grace_ends_the_grace_of_the_first() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    started(client, "deaf", json!({"argv": ["./forker", "wide", "5"]}), "here").await?;
    let first = client.post("/v1/execs/deaf/cancel", &json!({"grace_ms": 60_000})).await?;
    ensure!(first.status == 204, "{}", first.text());
    let view = cancel_now(client, "deaf").await?;
    ensure!(view.exit == Some(Exit::Cancelled), "{view:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn a_tree_whose_time_is_up_dies_whole() -> Result<()> {
    let sandbox = prepared().await?;
    let line = "setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000";
    let view = sandbox.client().exec(json!({"shell": line, "timeout_ms": 200})).await?;
    ensure!(view.exit == Some(Exit::TimedOut), "{view:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn what_an_exec_left_running_dies_whole_when_asked_for_by_its_id() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    let view = client.exec(json!({"id": "left", "argv": ["./forker", "orphans", "30"]})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 0 }) && view.hints == [Hint::Leaky], "{view:?}");
    ensure!(view.background.len() == 30, "{:?}", view.background);
    cancel_now(client, "left").await?;
    events.until(|fact| matches!(fact, Fact::ExecGone { .. })).await?;
    finish(sandbox).await
}

#[tokio::test]
async fn a_job_in_namespaces_of_its_own_dies_whole() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    // PID 1 of its own namespace, which no signal from inside ends, and root of its own users.
    let line = "exec unshare --user --map-root-user --pid --fork ./forker wide 20";
    started(client, "nested", json!({"shell": line}), "here").await?;
    let nested: Vec<ProcessEntry> =
        processes::below(sandbox.pid()?).into_iter().filter(|seen| seen.command.contains("forker")).collect();
    ensure!(nested.len() == 22, "{nested:?}");
    let view = cancel_now(client, "nested").await?;
    ensure!(view.exit == Some(Exit::Cancelled) && view.hints.is_empty(), "{view:?}");
    ensure!(nested.iter().all(ProcessEntry::is_gone), "{nested:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn a_job_cannot_signal_its_shim_or_pid_1() -> Result<()> {
    let sandbox = prepared().await?;
    let line =
        "for pid in 1 $PPID; do for signal in 0 TERM KILL STOP; do kill -$signal $pid; done; done 2>&1";
    let view = sandbox.client().exec(json!({"shell": line})).await?;
    let refusals = stdout(&view)?.matches("Operation not permitted").count();
    ensure!(refusals == 8, "{}", stdout(&view)?);
    finish(sandbox).await
}

#[tokio::test]
async fn a_job_that_kills_everybody_kills_jobs_only_and_each_is_told() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    let victims: Vec<String> = (0..10).map(|n| format!("victim-{n}")).collect();
    for id in &victims {
        // Only the leader holds the output, and no process that dies after it.
        let line = "(setsid sleep 1000 >/dev/null 2>&1 &); echo here; sleep 1000 >/dev/null 2>&1; true";
        started(client, id, json!({"shell": line}), "here").await?;
    }
    let killer = client.exec(json!({"shell": "kill -9 -1; exit 6"})).await?;
    ensure!(killer.exit == Some(Exit::Exited { code: 6 }), "{killer:?}");
    for id in victims.iter().map(String::as_str).chain(["bystander"]) {
        let view = client.ended(id).await?;
        ensure!(view.exit == Some(Exit::Signalled { signal: 9 }) && view.hints.is_empty(), "{view:?}");
        let printed = stdout(&view)?;
        ensure!(printed == "here\n", "{id} printed {printed:?}");
    }
    ensure!(shell(client, "echo on").await? == "on\n");
    let status = sandbox.public().get("/v1/status").await?;
    ensure!(status.status == 200, "{}", status.text());
    // Descendants of the leaders die in their own time.
    processes::settles(client, 1).await?;
    ensure!(jobs(&sandbox)?.is_empty(), "{:?}", jobs(&sandbox)?);
    sandbox.stop().await
}

/// Stops everybody it may stop, again and again.
const STOPPER: &str = r#"
import os, signal
print("here", flush=True)
while True:
    try: os.kill(-1, signal.SIGSTOP)
    except ProcessLookupError: pass
"#;

/// Between its change of user and its exec a job can be stopped by other jobs, and its shim waits for it.
#[tokio::test]
async fn a_job_that_is_stopped_before_it_begins_can_be_cancelled_and_not_be_looked_into() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    sandbox.write_app("stopper.py", STOPPER)?;
    sandbox.write_app("spy.py", SPY)?;
    started(client, "stopper", json!({"argv": ["/usr/bin/python3", "stopper.py"]}), "here").await?;
    let mut callers = JoinSet::new();
    let mut victims = 0;
    while frozen(&sandbox)?.len() < 3 && victims < 100 {
        let (caller, id) = (client.clone(), format!("victim-{victims}"));
        // Answered once the job has begun, which may be when it is cancelled.
        callers.spawn(async move { caller.start(json!({"id": id, "shell": "exit 3"})).await });
        victims += 1;
        while client.get("/v1/execs?limit=1000").await?.json::<Vec<Value>>()?.len() <= victims {}
    }
    cancel_now(client, "stopper").await?;
    for seen in frozen(&sandbox)? {
        let printed = shell(client, &format!("/usr/bin/python3 spy.py {}", seen.inner_pid)).await?;
        let allowed: Vec<&str> = printed.lines().filter(|line| *line != "EPERM").collect();
        ensure!(printed.lines().count() == SPY_TRIES && allowed.is_empty(), "{allowed:?}");
    }
    for number in 0..victims {
        let id = format!("victim-{number}");
        // Some were not caught in time and have ended by themselves.
        client.post(&format!("/v1/execs/{id}/cancel"), &json!({"grace_ms": 0})).await?;
        let view = client.ended(&id).await?;
        ensure!(matches!(view.exit, Some(Exit::Cancelled | Exit::Exited { code: 3 })), "{view:?}");
    }
    while let Some(answered) = callers.join_next().await {
        answered??;
    }
    processes::settles(client, 1).await?;
    sandbox.stop().await
}

/// Stopped children of shims that are still what their shim is.
fn frozen(sandbox: &Sandbox) -> Result<Vec<ProcessEntry>> {
    Ok(jobs(sandbox)?.into_iter().filter(|seen| seen.is_shim() && seen.state == 'T').collect())
}

#[tokio::test]
async fn a_cancel_that_comes_as_the_job_ends_is_never_a_loss() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for number in 0..scaled(100, 5_000) {
        let id = format!("short-{number}");
        client.start(json!({"id": id, "shell": "exit 3"})).await?;
        for _ in 0..3 {
            let answer = client.post(&format!("/v1/execs/{id}/cancel"), &json!({"grace_ms": 0})).await?;
            ensure!(matches!(answer.status, 204 | 409), "{}", answer.text());
        }
        let view = client.ended(&id).await?;
        let fine = matches!(view.exit, Some(Exit::Exited { code: 3 } | Exit::Cancelled));
        ensure!(fine && view.hints.is_empty(), "{view:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_shim_that_dies_before_it_has_a_job_is_not_missed() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for _ in 0..10 {
        ensure!(shell(sandbox.client(), "echo on").await? == "on\n");
        for shim in processes::below(sandbox.pid()?).into_iter().filter(ProcessEntry::is_shim) {
            // The one that had the job may be gone by now.
            let _ = kill(shim.pid, Signal::SIGKILL);
            processes::gone(&shim).await?;
        }
    }
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

/// A process that the first version of control groups has frozen does not even die. Its end is waited for as
/// long as it takes to give up, so only in a soak.
#[tokio::test]
async fn what_sigkill_does_not_end_is_told_as_such() -> Result<()> {
    let group =
        std::path::PathBuf::from(format!("/sys/fs/cgroup/freezer/slipway-test-{}", std::process::id()));
    if scaled(0, 1) == 0 || std::fs::create_dir(&group).is_err() {
        return Ok(());
    }
    let sandbox = prepared().await?;
    let client = sandbox.client();
    started(client, "frozen", json!({"shell": "echo here; exec sleep 1000"}), "here").await?;
    let leader = processes::from_inside(sandbox.pid()?, leader_of(client, "frozen").await?)?;
    std::fs::write(group.join("cgroup.procs"), leader.pid.to_string())?;
    std::fs::write(group.join("freezer.state"), "FROZEN")?;
    let view = cancel_now(client, "frozen").await;
    std::fs::write(group.join("freezer.state"), "THAWED")?;
    let view = view?;
    processes::gone(&leader).await?;
    std::fs::remove_dir(&group)?;
    ensure!(view.exit == Some(Exit::Cancelled), "{view:?}");
    ensure!(view.hints == [Hint::Unkillable { processes: 1 }], "{view:?}");
    all_but_the_bystander_go(&sandbox).await?;
    finish(sandbox).await
}

/// The shim of an exec, from outside: the parent of its leader.
fn shim_of(sandbox: &Sandbox, leader: i32) -> Result<Pid> {
    let leader = processes::from_inside(sandbox.pid()?, leader)?;
    let shim = ProcessEntry::at(leader.parent).context("the parent of the leader")?;
    ensure!(shim.is_shim(), "{shim:?}");
    Ok(shim.pid)
}

async fn leader_of(client: &Client, id: &str) -> Result<i32> {
    let view: protocol::ExecView = client.get(&format!("/v1/execs/{id}")).await?.json()?;
    view.pid.context("it does not run")
}

#[tokio::test]
async fn the_death_of_a_shim_is_told_and_takes_its_job_along_and_no_other() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    for (kind, count) in [("wide", 30), ("chain", 30), ("stopped", 5), ("refork", 4)] {
        started(client, kind, json!({"argv": ["./forker", kind, count.to_string()]}), "here").await?;
        kill(shim_of(&sandbox, leader_of(client, kind).await?)?, Signal::SIGKILL)?;
        let view = client.ended(kind).await?;
        ensure!(view.exit == Some(Exit::Lost) && view.hints == [Hint::ShimDied], "{view:?}");
        ensure!(stdout(&view)? == "here\n", "what was printed before is kept");
        all_but_the_bystander_go(&sandbox).await.context(kind)?;
    }
    finish(sandbox).await
}

#[tokio::test]
async fn the_death_of_a_shim_takes_what_its_exec_left_running_along() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    client.exec(json!({"id": "left", "argv": ["./forker", "orphans", "3"]})).await?;
    let view: protocol::ExecView = client.get("/v1/execs/left").await?.json()?;
    kill(shim_of(&sandbox, view.background[0].pid)?, Signal::SIGKILL)?;
    events.until(|fact| matches!(fact, Fact::ExecGone { .. })).await?;
    all_but_the_bystander_go(&sandbox).await?;
    let view = client.ended("left").await?;
    ensure!(view.exit == Some(Exit::Exited { code: 0 }) && view.background.is_empty(), "{view:?}");
    finish(sandbox).await
}

#[tokio::test]
async fn a_service_whose_shim_dies_is_started_anew_without_a_trace_of_the_old_one() -> Result<()> {
    let sandbox = prepared().await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    let service = json!({"name": "web", "command": "setsid sleep 1000 & echo up; exec sleep 2000"});
    let answer = client.put("/v1/services", &json!({"services": [service]})).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    let first = leader_of_service(&mut events).await?;
    let old: Vec<ProcessEntry> =
        jobs(&sandbox)?.into_iter().filter(|seen| !seen.command.contains("read line")).collect();
    kill(shim_of(&sandbox, first)?, Signal::SIGKILL)?;
    let ended = events.until(|fact| matches!(fact, Fact::ServiceEnded { .. })).await?;
    ensure!(matches!(ended.fact, Fact::ServiceEnded { exit: Exit::Lost, .. }), "{ended:?}");
    for seen in &old {
        processes::gone(seen).await?;
    }
    leader_of_service(&mut events).await?;
    client.put("/v1/services", &json!({"services": []})).await?;
    events.until(|fact| matches!(fact, Fact::ServiceRemoved { .. })).await?;
    all_but_the_bystander_go(&sandbox).await?;
    finish(sandbox).await
}

async fn leader_of_service(events: &mut EventStream) -> Result<i32> {
    let event = events.until(|fact| matches!(fact, Fact::ServiceStarted { .. })).await?;
    match event.fact {
        Fact::ServiceStarted { pid, .. } => Ok(pid),
        other => anyhow::bail!("{other:?}"),
    }
}

/// The dead of a shim are told of before their orphans are gone, so their end is waited for. One look can miss
/// those who fork and go, so that it takes some of them in a row.
async fn all_but_the_bystander_go(sandbox: &Sandbox) -> Result<()> {
    let going = async {
        let mut alone = 0;
        while alone < 20 {
            alone = if jobs(sandbox)?.len() > 1 { 0 } else { alone + 1 };
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(tests::sandbox::PATIENCE, going).await.context("orphans stay")?
}
