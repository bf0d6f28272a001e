//! Tasks and the death of everything around them.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use protocol::{Checkpoint, Fact, FailureReason, Hint, TaskEvent, TaskFact, TaskStatus};
use serde_json::json;
use std::time::Duration;
use tests::events::events_so_far;
use tests::launch::{Launched, directory, script};
use tests::shell::shell;
use tests::small_disk::SmallDisk;
use tests::tasks::{TaskStream, cancel, ended, run, story, submit, task, task_with, view};
use tests::{Client, Random, Sandbox, processes, scaled};
use tokio::process::Command;

/// The time limit of an orderly stop: 8 s by default, plus the delays of a busy machine.
const SHUTDOWN_MAX: Duration = Duration::from_secs(24);

/// The events of a task until it says something.
async fn until_it_says(client: &Client, id: &str, word: &str) -> Result<Vec<TaskEvent>> {
    let mut stream = TaskStream::open(client, id, 0, true).await?;
    let mut seen = Vec::new();
    loop {
        let event = stream.next().await?.context("the stream ended")?;
        let said = matches!(&event.fact, TaskFact::Message(text) if text.text == word);
        seen.push(event);
        if said {
            return Ok(seen);
        }
    }
}

fn ends(events: &[protocol::Event], id: &str) -> Vec<(TaskStatus, Option<FailureReason>)> {
    let end = |event: &protocol::Event| match &event.fact {
        Fact::TaskEnded { task, status, failure_reason } if task.as_str() == id => {
            Some((*status, *failure_reason))
        }
        _ => None,
    };
    events.iter().filter_map(end).collect()
}

#[tokio::test]
async fn a_crash_loses_the_task_and_no_event() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let finished = run(sandbox.client(), task("finished", "echo out")).await?;
    submit(sandbox.client(), task("running", "seq 1000; echo here; sleep 1000")).await?;
    submit(sandbox.client(), task("queued", "touch never")).await?;
    let seen = until_it_says(sandbox.client(), "running", "here").await?;
    for boot in 0..2 {
        sandbox = sandbox.crash_and_boot().await?;
        let client = sandbox.client();
        let events = story(client, "running").await?;
        ensure!(events[..seen.len()] == seen[..] && events.len() == seen.len() + 1, "boot {boot}");
        for id in ["running", "queued"] {
            let result = ended(client, id).await?;
            ensure!(result.status == TaskStatus::Failed, "{result:?}");
            ensure!(result.failure_reason == Some(FailureReason::Lost), "{result:?}");
            let told = events_so_far(client).await?;
            ensure!(ends(&told, id) == [(TaskStatus::Failed, Some(FailureReason::Lost))], "{told:?}");
        }
        let running = ended(client, "running").await?;
        ensure!(matches!(running.checkpoint, Checkpoint::Taken { .. }), "{running:?}");
        ensure!(ended(client, "finished").await? == finished, "what had ended is as it was");
        // The id stays taken: repeating the request does not run it again.
        let again = submit(client, task("queued", "touch never")).await?;
        ensure!(again.status == TaskStatus::Failed, "{again:?}");
    }
    ensure!(!sandbox.app().join("never").exists());
    ensure!(run(sandbox.client(), task("next", "true")).await?.status == TaskStatus::Succeeded);
    sandbox.stop().await
}

#[tokio::test]
async fn killed_at_any_moment_every_task_ends_once() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    for round in 0..scaled(6, 200) {
        let mut taken = Vec::new();
        for n in 0..3 {
            let id = format!("t{round}-{n}");
            submit(sandbox.client(), task(&id, "seq 200")).await?;
            taken.push(id);
        }
        // A moment to be killed at, not something that is waited for.
        tokio::time::sleep(std::time::Duration::from_micros(random.below(400_000))).await;
        sandbox = sandbox.crash_and_boot().await?;
        let told = events_so_far(sandbox.client()).await?;
        for id in &taken {
            let result = ended(sandbox.client(), id).await.with_context(|| format!("round {round}"))?;
            let events = story(sandbox.client(), id).await.with_context(|| format!("round {round} {id}"))?;
            ensure!(ends(&told, id) == [(result.status, result.failure_reason)], "{id}: {result:?}");
            if result.status == TaskStatus::Succeeded {
                ensure!(events.iter().filter(|event| event.fact.kind() == "message").count() == 200);
            }
        }
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_shim_that_dies_takes_its_agent_along_and_no_event() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    submit(client, task("t", "echo here; trap '' TERM; sleep 4321")).await?;
    let seen = until_it_says(client, "t", "here").await?;
    let shim = processes::below(sandbox.pid()?)
        .into_iter()
        .find(|seen| !processes::below(seen.pid).is_empty())
        .context("a shim with something below it")?;
    kill(shim.pid, Signal::SIGKILL)?;
    let result = ended(client, "t").await?;
    ensure!(result.failure_reason == Some(FailureReason::Lost), "{result:?}");
    ensure!(result.hints == [Hint::ShimDied], "{result:?}");
    ensure!(story(client, "t").await?[..seen.len()] == seen[..]);
    // Its orphans are killed, and die in their own time.
    shell(client, "while pgrep -f '^sleep 4321' >/dev/null; do :; done")
        .await
        .context("the agent lives on")?;
    sandbox.stop().await
}

#[tokio::test]
async fn an_orderly_stop_ends_what_runs_and_what_waits() -> Result<()> {
    let mut sandbox = Sandbox::start().await?;
    // An agent that ignores SIGTERM.
    submit(
        sandbox.client(),
        task("running", "trap '' TERM HUP; seq 1000; echo here; sleep 1000; sleep 1000"),
    )
    .await?;
    submit(sandbox.client(), task("queued", "touch never")).await?;
    let seen = until_it_says(sandbox.client(), "running", "here").await?;
    let asked = std::time::Instant::now();
    sandbox.signal(Signal::SIGTERM)?;
    ensure!(sandbox.wait().await?.success());
    ensure!(asked.elapsed() < SHUTDOWN_MAX, "it took {:?}", asked.elapsed());
    let sandbox = sandbox.boot_again().await?;
    let events = story(sandbox.client(), "running").await?;
    ensure!(seen.len() > 1000 && events[..seen.len()] == seen[..], "{} events", events.len());
    let started = view(sandbox.client(), "running").await?.started_ms;
    ensure!(started.is_some() && view(sandbox.client(), "queued").await?.started_ms.is_none());
    for id in ["running", "queued"] {
        let result = ended(sandbox.client(), id).await?;
        ensure!(result.failure_reason == Some(FailureReason::Lost), "{result:?}");
        ensure!(result.message.as_deref() == Some("the sandbox was stopped"), "{result:?}");
        let told = events_so_far(sandbox.client()).await?;
        ensure!(ends(&told, id).len() == 1, "{told:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_full_disk_costs_events_said_as_such_and_never_the_end() -> Result<()> {
    let outer = directory()?;
    let disk = SmallDisk::mount(&outer.path().join("disk"), 8)?;
    let dir = directory()?;
    let mut command = Command::new(script("pid1")?);
    let control = outer.path().join("disk/control");
    command.arg(dir.path()).arg(format!("RUNTIMED_DIR={}", control.display()));
    let socket = control.join("sock");
    let launched = Launched::start(dir, command, socket.to_str().context("a path")?).await?;
    let client = launched.client();
    let app = launched.path().join("home/workspace/app");
    // More than a pipe holds: when it is printed, some of it was taken while there was no room.
    let line = "echo before; touch full; until [ -e go ]; do sleep 0.01; done; \
                head -c 3000000 /dev/zero | tr '\\0' x | fold -w 1000; \
                touch printed; until [ -e free ]; do sleep 0.01; done; echo after";
    submit(client, task("t", line)).await?;
    until_it_says(client, "t", "before").await?;
    disk.fill()?;
    std::fs::write(app.join("go"), "")?;
    shell(client, "until [ -e printed ]; do sleep 0.01; done").await?;
    // A task that ends while the disk is full.
    disk.empty()?;
    std::fs::write(app.join("free"), "")?;
    let result = ended(client, "t").await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    ensure!(result.hints.iter().any(|hint| matches!(hint, Hint::OutputLost { .. })), "{result:?}");
    let events = story(client, "t").await?;
    let lost = events.iter().find_map(|event| match &event.fact {
        TaskFact::Log { lost_events, .. } => *lost_events,
        _ => None,
    });
    ensure!(lost.is_some_and(|lost| lost > 0), "no word about what is lost");
    submit(client, task_with("u", "echo here; sleep 1000", json!({}))).await?;
    until_it_says(client, "u", "here").await?;
    disk.fill()?;
    ensure!(cancel(client, "u", 0).await?.status == TaskStatus::Cancelled);
    let view = view(client, "u").await?;
    ensure!(view.result.is_some(), "the end is kept: {view:?}");
    story(client, "u").await?;
    disk.empty()?;
    launched.stop().await
}
