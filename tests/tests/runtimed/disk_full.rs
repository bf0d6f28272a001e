//! A full disk: costs output, said as such, and never a job, an exit code or PID 1.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::{Chunk, ErrorCode, ExecState, Exit, Fact, Hint};
use serde_json::json;
use std::path::PathBuf;
use tempfile::TempDir;
use tests::events::events_so_far;
use tests::launch::{Launched, directory, script};
use tests::output::{Follower, bytes_of};
use tests::sandbox::PATIENCE;
use tests::shell::{shell, stdout};
use tests::small_disk::SmallDisk;
use tests::{scaled, seq, type_in};
use tokio::process::Command;
use tokio::time::timeout;

const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

/// A small disk for the control directory. It outlives the runtimed on it, so that another can boot there.
struct Fixture {
    disk: SmallDisk,
    outer: TempDir,
}

impl Fixture {
    fn new(megabytes: usize) -> Result<Self> {
        let outer = directory()?;
        Ok(Self { disk: SmallDisk::mount(&outer.path().join("disk"), megabytes)?, outer })
    }

    fn control(&self) -> PathBuf {
        self.outer.path().join("disk/control")
    }

    async fn boot(&self) -> Result<Launched> {
        let dir = directory()?;
        let mut command = Command::new(script("pid1")?);
        command.arg(dir.path()).arg(format!("RUNTIMED_DIR={}", self.control().display()));
        let socket = self.control().join("sock");
        Launched::start(dir, command, socket.to_str().context("a path")?).await
    }
}

/// Bytes stored and lost as a reader of the log is told, each stored one held against what was printed.
async fn account(mut follower: Follower, printed: &[u8]) -> Result<(u64, u64)> {
    let (mut stored, mut lost, mut at) = (0, 0, 0);
    while let Some(chunk) = timeout(PATIENCE, follower.next()).await.context("a follower hangs")?? {
        match chunk {
            Chunk::Output { cursor, offset, payload, .. } => {
                let bytes = bytes_of(&payload)?;
                ensure!(
                    offset == at && bytes == printed[at as usize..][..bytes.len()],
                    "other bytes at {at}"
                );
                stored += bytes.len() as u64;
                at = cursor;
            }
            Chunk::Gap { cursor, lost: bytes } => {
                ensure!(cursor == at + bytes, "a gap of {bytes} from {at} to {cursor}");
                lost += bytes;
                at = cursor;
            }
            Chunk::End { cursor, ended } => {
                ensure!(ended && cursor == at && at == printed.len() as u64, "ends at {cursor}, seen {at}");
                return Ok((stored, lost));
            }
        }
    }
    anyhow::bail!("the log was cut off at {at}")
}

fn output_lost(hints: &[Hint]) -> u64 {
    hints.iter().map(|hint| if let Hint::OutputLost { bytes } = hint { *bytes } else { 0 }).sum()
}

#[tokio::test]
async fn a_job_that_prints_more_than_fits_goes_on_and_says_how_much_is_lost() -> Result<()> {
    let place = Fixture::new(6)?;
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    let printed = seq(scaled(20, 200) << 20);
    let line = format!("read x; seq 1 1000000000 | head -c {}", printed.len());
    client.start(json!({"id": "much", "shell": line, "stdin_open": true})).await?;
    let live = Follower::open(client, "/v1/execs/much/output?follow=1").await?;
    type_in(client, "much", "\n").await?;
    let (stored, lost) = account(live, &printed).await?;
    ensure!(stored > 1 << 20 && lost > 1 << 20, "{stored} stored, {lost} lost");
    let view = client.ended("much").await?;
    ensure!(view.exit == EXITED_0 && view.truncated, "{:?} {:?}", view.exit, view.hints);
    ensure!(
        output_lost(&view.hints) == lost && view.output_end == Some(printed.len() as u64),
        "{:?}",
        view.hints
    );
    // A later reader gets the same.
    let later = Follower::open(client, "/v1/execs/much/output?after=0").await?;
    ensure!(account(later, &printed).await? == (stored, lost));
    sandbox.stop().await
}

/// Follows until the log is `end` bytes long; how many of them were stored and how many lost.
async fn up_to(follower: &mut Follower, end: u64) -> Result<(u64, u64)> {
    let (mut stored, mut lost) = (0, 0);
    loop {
        let chunk =
            timeout(PATIENCE, follower.next()).await.context("nothing comes")??.context("it ended")?;
        let cursor = match chunk {
            Chunk::Output { cursor, payload, .. } => {
                stored += bytes_of(&payload)?.len() as u64;
                cursor
            }
            Chunk::Gap { cursor, lost: bytes } => {
                lost += bytes;
                cursor
            }
            Chunk::End { .. } => anyhow::bail!("it ended"),
        };
        if cursor >= end {
            return Ok((stored, lost));
        }
    }
}

#[tokio::test]
async fn output_is_kept_again_as_soon_as_there_is_room() -> Result<()> {
    let place = Fixture::new(6)?;
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    let line = "read x; echo kept; read x; printf %10000s; read x; echo again";
    client.start(json!({"id": "words", "shell": line, "stdin_open": true})).await?;
    let mut follower = Follower::open(client, "/v1/execs/words/output?follow=1").await?;
    type_in(client, "words", "\n").await?;
    ensure!(up_to(&mut follower, 5).await? == (5, 0));
    place.disk.fill()?;
    type_in(client, "words", "\n").await?;
    // The page that was begun takes some of it still.
    let (stored, lost) = up_to(&mut follower, 10_005).await?;
    ensure!(stored < 4096 && stored + lost == 10_000, "{stored} stored, {lost} lost");
    place.disk.empty()?;
    type_in(client, "words", "\n").await?;
    ensure!(up_to(&mut follower, 10_011).await? == (6, 0));
    let view = client.ended("words").await?;
    ensure!(view.exit == EXITED_0 && stdout(&view)?.ends_with("again\n"), "{view:?}");
    ensure!(output_lost(&view.hints) == lost && view.truncated, "{:?}", view.hints);
    sandbox.stop().await
}

#[tokio::test]
async fn a_job_that_starts_on_a_full_disk_is_kept_from_where_there_is_room() -> Result<()> {
    let place = Fixture::new(6)?;
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    place.disk.fill()?;
    let line = "echo lost; echo lost >&2; read x; echo kept; echo oops >&2";
    client.start(json!({"id": "late", "shell": line, "stdin_open": true})).await?;
    let mut follower = Follower::open(client, "/v1/execs/late/output?follow=1").await?;
    let mut lost = 0;
    while lost < 10 {
        match timeout(PATIENCE, follower.next()).await.context("nothing comes")??.context("ended")? {
            Chunk::Gap { lost: bytes, .. } => lost += bytes,
            other => anyhow::bail!("{other:?}"),
        }
    }
    place.disk.empty()?;
    type_in(client, "late", "\n").await?;
    let view = client.ended("late").await?;
    ensure!(view.exit == EXITED_0 && stdout(&view)? == "kept\n", "{view:?}");
    ensure!(output_lost(&view.hints) == 10 && view.truncated && view.output_end == Some(20), "{view:?}");
    // Each stream counts what it printed, not what was kept of it.
    let mut offsets = Vec::new();
    while let Some(chunk) = timeout(PATIENCE, follower.next()).await.context("a follower hangs")?? {
        if let Chunk::Output { offset, .. } = chunk {
            offsets.push(offset);
        }
    }
    ensure!(offsets == [5, 5], "{offsets:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn execs_on_a_full_disk_run_or_are_refused_and_run_again_when_there_is_room() -> Result<()> {
    let place = Fixture::new(6)?;
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    client.exec(json!({"id": "before", "shell": "echo before; exit 3"})).await?;
    place.disk.fill()?;
    // The reserved space is enough for a few commands that free space again.
    let first = client.exec(json!({"id": "first", "shell": "exit 4"})).await?;
    ensure!(first.exit == Some(Exit::Exited { code: 4 }), "{first:?}");
    let mut refused = None;
    for i in 0..2000 {
        let request = json!({"id": format!("e{i}"), "shell": "exit 5"});
        let answer = client.post("/v1/execs?wait_ms=60000", &request).await?;
        if answer.status != 200 {
            ensure!(answer.code()? == ErrorCode::Internal, "{}", answer.text());
            ensure!(answer.text().contains("No space left"), "{}", answer.text());
            refused = Some(request);
            break;
        }
        ensure!(answer.json::<protocol::ExecView>()?.exit == Some(Exit::Exited { code: 5 }));
    }
    let refused = refused.context("room for ever")?;
    ensure!(client.get("/healthz").await?.status == 200);
    ensure!(client.ended("before").await?.exit == Some(Exit::Exited { code: 3 }));
    place.disk.empty()?;
    // The one that was refused was not run, and its id is not used up.
    let view = client.exec(refused).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 5 }), "{view:?}");
    ensure!(shell(client, "echo back").await? == "back\n");
    sandbox.stop().await
}

#[tokio::test]
async fn the_event_log_says_how_many_events_a_full_disk_cost() -> Result<()> {
    let place = Fixture::new(6)?;
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    place.disk.fill()?;
    let take = |name: String| async move {
        let answer = client.put(&format!("/v1/holds/{name}"), &json!({"ttl_s": 600})).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        let answer = client.send(Method::DELETE, &format!("/v1/holds/{name}"), Bytes::new()).await?;
        ensure!(answer.status == 204, "{}", answer.text());
        Ok(())
    };
    let holds = 600;
    for i in 0..holds {
        take(format!("h{i}")).await?;
    }
    place.disk.empty()?;
    take("last".to_owned()).await?;
    let events = events_so_far(client).await?;
    let told = events.iter().filter(|e| matches!(e.fact, Fact::HoldTaken { .. } | Fact::HoldReleased { .. }));
    let gap = |(at, event): (usize, &protocol::Event)| match event.fact {
        Fact::Gap { lost_events, .. } => Some((at, lost_events)),
        _ => None,
    };
    let gaps: Vec<(usize, u64)> = events.iter().enumerate().filter_map(gap).collect();
    let lost: u64 = gaps.iter().map(|(_, lost)| lost).sum();
    ensure!(lost > 0, "nothing was lost: {} events", events.len());
    ensure!(told.count() as u64 + lost == 2 * (holds + 1), "{lost} of {} events", events.len());
    // The hole in the numbers is as large as it is said to be.
    for (at, lost) in gaps {
        let (before, gap) = (events[at - 1].cursor, events[at].cursor);
        ensure!(gap.seq - before.seq - 1 == lost, "{before} to {gap}, {lost} said to be lost");
    }
    ensure!(
        matches!(events.last().map(|e| &e.fact), Some(Fact::HoldReleased { hold, .. }) if hold.as_str() == "last")
    );
    sandbox.stop().await
}

/// The process id of PID 1, which the script may write later than runtimed answers.
async fn pid1(sandbox: &Launched) -> Result<Pid> {
    let written = async {
        loop {
            let text = std::fs::read_to_string(sandbox.path().join("pid")).unwrap_or_default();
            if let Ok(pid) = text.trim().parse() {
                return Pid::from_raw(pid);
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, written).await.context("the script does not say the pid")
}

#[tokio::test]
async fn a_sandbox_boots_on_a_full_disk() -> Result<()> {
    let place = Fixture::new(6)?;
    let mut sandbox = place.boot().await?;
    sandbox.client().exec(json!({"id": "ended", "shell": "echo kept; exit 3"})).await?;
    let ran = sandbox.client().start(json!({"id": "ran", "shell": "sleep 600"})).await?;
    ensure!(ran.state == ExecState::Running);
    place.disk.fill()?;
    kill(pid1(&sandbox).await?, Signal::SIGKILL)?;
    sandbox.wait().await?;
    drop(sandbox);
    let sandbox = place.boot().await?;
    let client = sandbox.client();
    let ended = client.ended("ended").await?;
    ensure!(ended.exit == Some(Exit::Exited { code: 3 }) && stdout(&ended)? == "kept\n", "{ended:?}");
    ensure!(client.ended("ran").await?.exit == Some(Exit::Lost));
    place.disk.empty()?;
    ensure!(shell(client, "echo back").await? == "back\n");
    sandbox.stop().await
}

#[tokio::test]
async fn a_log_of_its_own_that_cannot_be_written_does_not_stop_runtimed() -> Result<()> {
    let dir = directory()?;
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$0\" \"$1\" RUNTIMED_DEBUG=1 2>/dev/full"])
        .arg(script("pid1")?)
        .arg(dir.path());
    let sandbox = Launched::start(dir, command, "control/sock").await?;
    ensure!(shell(sandbox.client(), "echo here").await? == "here\n");
    sandbox.stop().await
}

#[tokio::test]
async fn a_full_workspace_is_a_hint_beside_the_true_exit() -> Result<()> {
    let outer = directory()?;
    let home = outer.path().join("home");
    let _disk = SmallDisk::mount(&home, 1)?;
    std::fs::create_dir_all(home.join("workspace/app"))?;
    for path in ["", "workspace", "workspace/app"] {
        std::os::unix::fs::chown(home.join(path), Some(1000), Some(1000))?;
    }
    let dir = directory()?;
    let mut command = Command::new(script("pid1")?);
    command.arg(dir.path()).arg(format!("RUNTIMED_HOME={}", home.display()));
    let sandbox = Launched::start(dir, command, "control/sock").await?;
    let client = sandbox.client();
    let before = client.exec(json!({"shell": "exit 6"})).await?;
    ensure!(before.hints.is_empty(), "{before:?}");
    let full = client.exec(json!({"shell": "head -c 9000000 /dev/zero >file; exit 7"})).await?;
    ensure!(full.exit == Some(Exit::Exited { code: 7 }) && full.hints == [Hint::DiskFull], "{full:?}");
    let freed = client.exec(json!({"shell": "rm file"})).await?;
    ensure!(freed.exit == EXITED_0 && freed.hints.is_empty(), "{freed:?}");
    sandbox.stop().await
}
