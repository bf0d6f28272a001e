//! PID 1 for real: exit codes, signals, orphans, crowds. After tini's own list of tests.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use protocol::{ExecState, Exit, Fact, ServiceState};
use serde_json::json;
use tests::events::EventStream;
use tests::launch::{self, Launched};
use tests::processes::{self, ProcessEntry};
use tests::shell::{shell, started};
use tests::{Client, Followed, Sandbox, follow, scaled};
use tokio::process::Command;
use tokio::task::JoinSet;

/// The memory bound of every sandbox.
const IDLE_MAX_BYTES: u64 = 2_500_000;

#[tokio::test]
async fn an_idle_one_takes_little_memory() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    // As hostd does: code that was needed once stays mapped.
    sandbox.client().status().await?;
    let bytes = processes::memory_bytes(sandbox.pid()?, "Rss")?;
    ensure!(bytes <= IDLE_MAX_BYTES, "{bytes} bytes are resident");
    sandbox.stop().await
}

#[tokio::test]
async fn every_exit_code_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for code in 0..=255 {
        let view = sandbox.client().exec(json!({"shell": format!("exit {code}")})).await?;
        ensure!(view.exit == Some(Exit::Exited { code }), "exit {code} was told as {:?}", view.exit);
    }
    sandbox.stop().await
}

/// Signals whose default is not the end of a process.
const HARMLESS: [i32; 8] = [17, 18, 19, 20, 21, 22, 23, 28];

#[tokio::test]
async fn every_signal_that_ends_a_process_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    for signal in (1..=64).filter(|signal| !HARMLESS.contains(signal)) {
        let line =
            format!("ulimit -c 0; exec perl -e '$SIG{{FPE}} = q(DEFAULT); kill {signal}, $$; sleep 60'");
        let view = sandbox.client().exec(json!({"shell": line, "timeout_ms": 30_000})).await?;
        ensure!(view.exit == Some(Exit::Signalled { signal }), "{signal} was told as {:?}", view.exit);
    }
    sandbox.stop().await
}

#[tokio::test]
async fn orphans_leave_no_zombie_and_change_no_exit_code() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let orphans = scaled(500, 10_000);
    let script = format!("i=0; while [ $i -lt {orphans} ]; do (true &) ; i=$((i+1)); done; exit 42");
    let storm = sandbox.client().exec(json!({"shell": script, "timeout_ms": 600_000})).await?;
    ensure!(storm.exit == Some(Exit::Exited { code: 42 }), "{:?}", storm.exit);
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn exit_codes_are_right_while_orphans_storm() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let storm = "while :; do for i in 1 2 3 4 5 6 7 8 9 10; do (setsid true &); done; wait; echo round; done";
    for id in ["storm-1", "storm-2"] {
        started(client, id, json!({"shell": storm}), "round").await?;
    }
    for code in 0..scaled(50, 2_000) as i32 {
        let code = code % 256;
        let view = client.exec(json!({"shell": format!("(true &); exit {code}")})).await?;
        ensure!(view.exit == Some(Exit::Exited { code }), "exit {code} was told as {:?}", view.exit);
    }
    for id in ["storm-1", "storm-2"] {
        let view = tests::shell::cancel_now(client, id).await?;
        ensure!(view.exit == Some(Exit::Cancelled), "{view:?}");
    }
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

/// Waits on a FIFO that the test opens when the orphans may go.
const LATE_ORPHANS: &str =
    "mkfifo gate; for i in $(seq 20); do (setsid sh -c 'read line <gate' >/dev/null 2>&1 &); done; exit 7";

#[tokio::test]
async fn orphans_that_exit_long_after_their_exec_are_reaped_and_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    let view = client.exec(json!({"id": "late", "shell": LATE_ORPHANS})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 7 }), "{view:?}");
    ensure!(view.background.len() == 20, "{:?}", view.background);
    // The gate stays open until all are gone, so that latecomers find a line too.
    let opens = "exec 3<>gate; for i in $(seq 20); do echo >&3; done; echo open; exec sleep 1000";
    started(client, "opens", json!({"shell": opens}), "open").await?;
    let gone = |fact: &Fact| matches!(fact, Fact::ExecGone { exec } if exec.as_str() == "late");
    events.until(gone).await?;
    tests::shell::cancel_now(client, "opens").await?;
    let view = client.ended("late").await?;
    ensure!(view.background.is_empty() && view.exit == Some(Exit::Exited { code: 7 }), "{view:?}");
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn a_daemon_outlives_its_exec_and_is_killed_by_its_id() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    let daemon =
        "mkfifo up; (setsid nohup sh -c 'echo >up; exec sleep 12345' >/dev/null 2>&1 &); read up <up; exit 3";
    let view = client.exec(json!({"id": "daemon", "shell": daemon})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 3 }) && view.hints.is_empty(), "{view:?}");
    // A process has no command line for a moment while it becomes another program.
    shell(client, "until pgrep -fx 'sleep 12345' >/dev/null; do :; done").await?;
    let status = client.status().await?;
    let left: Vec<_> = status.execs.iter().flat_map(|exec| &exec.background).collect();
    ensure!(left.len() == 1 && left[0].command.contains("sleep 12345"), "{left:?}");
    ensure!(status.execs.iter().all(|exec| exec.state == ExecState::Ended), "{:?}", status.execs);
    let answer = client.post("/v1/execs/daemon/cancel", &json!({"grace_ms": 0})).await?;
    ensure!(answer.status == 204, "{}", answer.text());
    events.until(|fact| matches!(fact, Fact::ExecGone { .. })).await?;
    let view = client.ended("daemon").await?;
    ensure!(view.exit == Some(Exit::Exited { code: 3 }) && view.background.is_empty(), "{view:?}");
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

#[tokio::test]
async fn hundreds_of_execs_at_once_are_all_told_right_while_others_stream() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut streams = JoinSet::new();
    for id in ["stream-1", "stream-2"] {
        let client = sandbox.client().clone();
        let lines = scaled(50_000, 2_000_000);
        let request = json!({"id": id, "shell": format!("seq {lines}; seq {lines} >&2")});
        client.start(request).await?;
        streams.spawn(async move {
            let seen = follow(&client, id, Followed::default()).await?;
            let expected: String = (1..=lines).map(|n| format!("{n}\n")).collect();
            ensure!(seen.stdout == expected.as_bytes() && seen.stderr == expected.as_bytes(), "{id}");
            anyhow::Ok(())
        });
    }
    let mut execs = JoinSet::new();
    for number in 0..scaled(300, 400) as i32 {
        execs.spawn(counted(sandbox.client().clone(), number));
    }
    while let Some(done) = execs.join_next().await {
        done??;
    }
    while let Some(done) = streams.join_next().await {
        done??;
    }
    processes::settles(sandbox.client(), 1).await?;
    sandbox.stop().await
}

async fn counted(client: Client, number: i32) -> Result<()> {
    let view = client.exec(json!({"shell": format!("echo {number}; exit {}", number % 256)})).await?;
    let (code, printed) = (number % 256, tests::shell::stdout(&view)?);
    ensure!(view.exit == Some(Exit::Exited { code }), "{number}: {:?}", view.exit);
    ensure!(printed == format!("{number}\n"), "{number}: {printed:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_stays_open_after_many_jobs_of_every_sort() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut open = Vec::new();
    for _ in 0..3 {
        for number in 0..scaled(15, 1_000) {
            let id = format!("{}-{number}", open.len());
            client.exec(json!({"shell": "true"})).await?;
            client.exec(json!({"shell": "cat", "stdin": "x"})).await?;
            client
                .exec(json!({"shell": "(setsid sleep 0 &); exit 1", "tty": {"cols": 80, "rows": 24}}))
                .await?;
            client.exec(json!({"argv": ["/no/such/program"]})).await?;
            started(client, &id, json!({"shell": "echo here; sleep 1000", "stdin_open": true}), "here")
                .await?;
            tests::shell::cancel_now(client, &id).await?;
            drop(EventStream::open(client).await?);
        }
        processes::settles(client, 1).await?;
        open.push(std::fs::read_dir(format!("/proc/{}/fd", sandbox.pid()?))?.count());
    }
    // The spare shim and the last connection may come or go; nothing grows.
    ensure!(open[2] <= open[0] + 4, "{open:?} descriptors");
    sandbox.stop().await
}

#[tokio::test]
async fn signals_that_are_not_for_it_change_nothing() -> Result<()> {
    use Signal::{SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    let sandbox = Sandbox::start().await?;
    for signal in [SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM, SIGPIPE, SIGWINCH, SIGCONT, SIGCHLD] {
        sandbox.signal(signal)?;
        ensure!(sandbox.client().get("/healthz").await?.status == 200, "{signal}");
    }
    ensure!(shell(sandbox.client(), "echo on").await? == "on\n");
    sandbox.stop().await
}

// ---- without a namespace of its own: the machine's processes are around, so nothing here kills by name ----

async fn not_pid1() -> Result<Launched> {
    Launched::without_namespace(Command::new(launch::binary()?)).await
}

#[tokio::test]
async fn without_a_namespace_it_is_a_subreaper_and_says_so() -> Result<()> {
    let runtimed = not_pid1().await?;
    let status = runtimed.client().status().await?;
    ensure!(!status.pid1 && runtimed.stderr().contains("not PID 1"), "{}", runtimed.stderr());
    processes::settles(runtimed.client(), 1).await?;
    let view = runtimed.client().exec(json!({"shell": "(true &); id -u; exit 9"})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 9 }), "{view:?}");
    ensure!(tests::shell::stdout(&view)? == "1000\n", "{view:?}");
    runtimed.stop().await
}

#[tokio::test]
async fn without_a_namespace_orphans_are_still_adopted_and_reaped() -> Result<()> {
    let runtimed = not_pid1().await?;
    let (client, pid) = (runtimed.client(), runtimed.pid()?);
    let mut events = EventStream::open(client).await?;
    let line = "for i in 1 2 3; do (setsid sleep 1000 >/dev/null 2>&1 &); done; echo here; sleep 1000";
    started(client, "orphans", json!({"shell": line}), "here").await?;
    let shim = processes::below(pid).into_iter().find(ProcessEntry::is_shim).context("a shim")?;
    // Its death makes runtimed the parent of everybody below it.
    kill(shim.pid, Signal::SIGKILL)?;
    let ended = events.until(|fact| matches!(fact, Fact::ExecEnded { .. })).await?;
    ensure!(matches!(ended.fact, Fact::ExecEnded { exit: Exit::Lost, .. }), "{ended:?}");
    nobody_below(pid).await?;
    ensure!(shell(client, "echo on").await? == "on\n");
    runtimed.stop().await
}

#[tokio::test]
async fn without_a_namespace_sigterm_ends_every_job_and_nothing_else() -> Result<()> {
    let runtimed = not_pid1().await?;
    let (client, pid) = (runtimed.client(), runtimed.pid()?);
    let mut bystander = std::process::Command::new("sleep").arg("1000").spawn()?;
    started(client, "obeys", json!({"shell": "echo here; exec sleep 1000"}), "here").await?;
    let left = "(setsid sh -c 'echo here; exec sleep 1000 >/dev/null 2>&1' &)";
    started(client, "left", json!({"shell": left}), "here").await?;
    client.ended("left").await?;
    let jobs: Vec<ProcessEntry> = processes::below(pid).into_iter().filter(|seen| !seen.is_shim()).collect();
    ensure!(jobs.len() == 2, "{jobs:?}");
    runtimed.stop().await?;
    let left: Vec<ProcessEntry> = jobs.into_iter().filter(|job| !job.is_gone()).collect();
    let lives = bystander.try_wait()?.is_none();
    bystander.kill()?;
    bystander.wait()?;
    ensure!(left.is_empty() && lives, "left {left:?}");
    Ok(())
}

#[tokio::test]
async fn without_a_namespace_its_death_takes_every_job_along() -> Result<()> {
    let mut runtimed = not_pid1().await?;
    let line = "for i in 1 2 3; do (setsid sleep 1000 >/dev/null 2>&1 &); done; echo here; sleep 1000";
    started(runtimed.client(), "orphans", json!({"shell": line}), "here").await?;
    let jobs = processes::below(runtimed.pid()?);
    kill(runtimed.pid()?, Signal::SIGKILL)?;
    runtimed.wait().await?;
    for job in jobs {
        tests::processes::gone(&job).await?;
    }
    Ok(())
}

/// An entrypoint may start something before it becomes runtimed.
#[tokio::test]
async fn what_was_there_before_runtimed_is_left_alone_whatever_jobs_do() -> Result<()> {
    let mut command = Command::new("sh");
    let line = "sleep 1000 & until grep -qa ^sleep /proc/$!/cmdline; do :; done; exec \"$0\"";
    command.args(["-c", line]).arg(launch::binary()?);
    let runtimed = Launched::without_namespace(command).await?;
    let client = runtimed.client();
    let helper = processes::below(runtimed.pid()?).into_iter().find(|seen| seen.command == "sleep 1000");
    let helper = helper.context("the helper")?;
    let mut events = EventStream::open(client).await?;
    let health = json!({"command": "true", "interval_ms": 500});
    let service = json!({"name": "web", "command": "exec sleep 2000", "health": health});
    client.put("/v1/services", &json!({"services": [service]})).await?;
    let ready = |fact: &Fact| matches!(fact, Fact::ServiceState { state: ServiceState::Ready { .. }, .. });
    events.until(ready).await?;
    for _ in 0..20 {
        shell(client, "(setsid true &)").await?;
    }
    ensure!(!helper.is_gone(), "{helper:?}");
    kill(helper.pid, Signal::SIGKILL)?;
    runtimed.stop().await
}

/// Waits until all descendants are gone, zombies included. The kernel sends no notification, so this polls.
async fn nobody_below(pid: nix::unistd::Pid) -> Result<()> {
    for seen in processes::below(pid).into_iter().filter(|seen| !seen.is_shim()) {
        tests::processes::gone(&seen).await?;
    }
    Ok(())
}
