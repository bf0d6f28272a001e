//! Task events on a full disk: delivered events stay, missing ones are counted, and the end comes, late if
//! necessary.

use anyhow::{Context, Result, ensure};
use protocol::{TaskEvent, TaskFact, TaskStatus};
use serde_json::json;
use std::path::Path;
use tests::launch::{Launched, directory, script};
use tests::shell::shell;
use tests::small_disk::SmallDisk;
use tests::tasks::{TaskStream, ended, story, submit, task, view};
use tests::{Client, Random};
use tokio::process::Command;

/// A sandbox whose control directory is on a disk of its own.
struct SmallDiskSandbox {
    launched: Launched,
    disk: SmallDisk,
    outer: tempfile::TempDir,
}

impl SmallDiskSandbox {
    async fn start(megabytes: usize) -> Result<Self> {
        let outer = directory()?;
        let disk = SmallDisk::mount(&outer.path().join("disk"), megabytes)?;
        let dir = directory()?;
        let control = outer.path().join("disk/control");
        let mut command = Command::new(script("pid1")?);
        command.arg(dir.path()).arg(format!("RUNTIMED_DIR={}", control.display()));
        let socket = control.join("sock");
        let launched = Launched::start(dir, command, socket.to_str().context("a path")?).await?;
        Ok(Self { launched, disk, outer })
    }

    fn client(&self) -> &Client {
        self.launched.client()
    }

    /// Takes all space but so much.
    fn fill_but(&self, bytes: u64) -> Result<()> {
        self.disk.fill()?;
        let filler = std::fs::OpenOptions::new().write(true).open(self.outer.path().join("disk/filler"))?;
        let length = filler.metadata()?.len();
        Ok(filler.set_len(length.saturating_sub(bytes))?)
    }

    fn touch(&self, name: &str) -> Result<()> {
        Ok(std::fs::write(self.launched.path().join("home/workspace/app").join(name), "")?)
    }

    async fn until_there(&self, name: &str) -> Result<()> {
        shell(self.client(), &format!("until [ -e {name} ]; do sleep 0.01; done")).await.map(drop)
    }
}

fn messages(events: &[TaskEvent]) -> u64 {
    events.iter().filter(|event| event.fact.kind() == "message").count() as u64
}

fn lost(events: &[TaskEvent]) -> u64 {
    let lost = |event: &TaskEvent| match &event.fact {
        TaskFact::Log { lost_events, .. } => *lost_events,
        _ => None,
    };
    events.iter().filter_map(lost).sum()
}

async fn to_the_end(mut stream: TaskStream) -> Result<Vec<TaskEvent>> {
    let mut seen = Vec::new();
    while let Some(event) = stream.next().await? {
        seen.push(event);
    }
    Ok(seen)
}

#[tokio::test]
async fn what_a_follower_saw_stays_true_and_the_rest_is_counted() -> Result<()> {
    const ROUNDS: u64 = 25;
    const LINES: u64 = 6_000;
    let small = SmallDiskSandbox::start(32).await?;
    let line = format!(
        "for r in $(seq {ROUNDS}); do until [ -e go$r ]; do sleep 0.01; done; \
         seq -f \"$r %g 0123456789012345678901234567890123456789\" {LINES}; touch printed$r; done; \
         until [ -e last ]; do sleep 0.01; done"
    );
    submit(small.client(), task("t", &line)).await?;
    let stream = TaskStream::open(small.client(), "t", 0, false).await?;
    let follower = tokio::spawn(to_the_end(stream));
    let mut random = Random::seeded();
    for round in 1..=ROUNDS {
        small.fill_but((16 + random.below(400)) << 10)?;
        small.touch(&format!("go{round}"))?;
        small.until_there(&format!("printed{round}")).await?;
        small.disk.empty()?;
    }
    small.touch("last")?;
    ensure!(ended(small.client(), "t").await?.status == TaskStatus::Succeeded);
    let seen = follower.await??;
    let events = story(small.client(), "t").await?;
    let differs = seen.iter().zip(&events).find(|(seen, event)| seen != event);
    ensure!(differs.is_none() && seen.len() == events.len(), "{} {} {differs:?}", seen.len(), events.len());
    let (messages, lost) = (messages(&events), lost(&events));
    ensure!(lost > 0 && messages + lost == ROUNDS * LINES, "{messages} and {lost} lost");
    small.launched.stop().await
}

#[tokio::test]
async fn what_fits_of_many_events_is_kept() -> Result<()> {
    const LINES: u64 = 1_000;
    let small = SmallDiskSandbox::start(8).await?;
    let line = format!(
        "until [ -e go ]; do sleep 0.01; done; seq -f 'line %g 01234567890123456789' {LINES} > lines; \
         cat lines; touch printed; until [ -e last ]; do sleep 0.01; done"
    );
    submit(small.client(), task("t", &line)).await?;
    let mut stream = TaskStream::open(small.client(), "t", 0, false).await?;
    stream.until(|fact| matches!(fact, TaskFact::Status { checkpoint: Some(_), .. })).await?;
    small.fill_but(40 << 10)?;
    small.touch("go")?;
    // Events arrive at once, and some of them are stored.
    stream.until(|fact| fact.kind() == "message").await?;
    small.until_there("printed").await?;
    small.disk.empty()?;
    small.touch("last")?;
    ended(small.client(), "t").await?;
    let events = story(small.client(), "t").await?;
    let (messages, lost) = (messages(&events), lost(&events));
    ensure!(messages > 0 && lost > 0 && messages + lost == LINES, "{messages} and {lost} lost");
    small.launched.stop().await
}

/// Takes away what was set aside for the end of a task, but so much.
fn take_room(small: &SmallDiskSandbox, id: &str, bytes: usize) -> Result<()> {
    let tasks: &Path = &small.outer.path().join("disk/control/tasks");
    Ok(std::fs::write(tasks.join(id).join("done.room"), vec![b'x'; bytes])?)
}

/// A task that said much, on a full disk, where so much room is left for its end.
async fn cancelled_without_room(small: &SmallDiskSandbox, room_bytes: usize) -> Result<TaskStream> {
    let line = "head -c 16000 /dev/zero | tr '\\0' x | fold -w 1000; echo; echo here; sleep 1000";
    submit(small.client(), task("t", line)).await?;
    let mut stream = TaskStream::open(small.client(), "t", 0, false).await?;
    stream.until(|fact| matches!(fact, TaskFact::Message(text) if text.text == "here")).await?;
    take_room(small, "t", room_bytes)?;
    small.disk.fill()?;
    let answer = small.client().post("/v1/tasks/t/cancel", &json!({"grace_ms": 0})).await?;
    ensure!(answer.status == 202, "{}", answer.text());
    Ok(stream)
}

#[tokio::test]
async fn a_task_is_not_done_before_that_is_written() -> Result<()> {
    let small = SmallDiskSandbox::start(8).await?;
    let mut stream = cancelled_without_room(&small, 0).await?;
    // Longer than its shim takes to end.
    let waited: protocol::TaskView = small.client().get("/v1/tasks/t?wait_ms=2500").await?.json()?;
    ensure!(!waited.status.is_final() && waited.result.is_none(), "{waited:?}");
    small.disk.empty()?;
    let done = stream.until(|fact| fact.kind() == "done").await?;
    let result = ended(small.client(), "t").await?;
    ensure!(result.status == TaskStatus::Cancelled && result.final_message.is_some(), "{result:?}");
    ensure!(view(small.client(), "t").await?.last_seq == done.seq);
    ensure!(stream.next().await?.is_none());
    story(small.client(), "t").await?;
    // The next task begins.
    let next = tests::tasks::run(small.client(), task("u", "echo out")).await?;
    ensure!(next.status == TaskStatus::Succeeded, "{next:?}");
    small.launched.stop().await
}

#[tokio::test]
async fn an_end_with_little_room_says_less() -> Result<()> {
    let small = SmallDiskSandbox::start(8).await?;
    let mut stream = cancelled_without_room(&small, 8 << 10).await?;
    stream.until(|fact| fact.kind() == "done").await?;
    let result = ended(small.client(), "t").await?;
    ensure!(result.status == TaskStatus::Cancelled && result.final_message.is_none(), "{result:?}");
    small.disk.empty()?;
    small.launched.stop().await
}
