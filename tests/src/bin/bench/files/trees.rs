//! 20,000 files listed, packed and watched, against find, tar and inotify.

use super::Fixture;
use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{Method, Request};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tests::scaled;

const FILES: usize = 20_000;
const FILES_OF_DIRECTORY: usize = 100;
const LIST_MAX: f64 = 4.0;
const ARCHIVE_MAX: f64 = 1.5;

pub async fn rows(fixture: &Fixture) -> Result<Vec<Row>> {
    let line = format!(
        "import os\nos.makedirs('tree'); os.chdir('tree')\nfor d in range({}):\n  os.mkdir(str(d))\n  for f in range({FILES_OF_DIRECTORY}): open(f'{{d}}/{{f}}', 'w').write('x' * 2000)",
        FILES / FILES_OF_DIRECTORY
    );
    let exec = serde_json::json!({"argv": ["python3", "-c", line], "cwd": "/home/sandbox"});
    let made: serde_json::Value = fixture
        .files
        .post(&format!("/v1/sandboxes/{}/execs", fixture.files.sandbox), &exec)
        .await?
        .expect(200)?;
    ensure!(made["exit"]["code"] == 0, "{made}");
    let tree = fixture.workspace().join("tree");
    let (mut lists, mut archives) = ((vec![], vec![]), (vec![], vec![]));
    for _ in 0..scaled(5, 15) {
        lists.0.push(list(fixture).await?);
        lists.1.push(run(Command::new("find").arg(&tree).args(["-printf", "%p %y %s %m %T@\\n"]))?);
        archives.0.push(archive(fixture).await?);
        archives.1.push(run(Command::new("tar").arg("-C").arg(&tree).args(["-cf", "-", "."]))?);
    }
    let row = |what: &'static str, against: &str, (ours, other), goal| {
        let (ours, other) = (median(ours), median(other));
        Row {
            what: what.into(),
            ours: ms(ours),
            other: format!("{against} {}", ms(other)),
            ratio: ratio(ours, other),
            goal,
        }
    };
    let watched = watch(fixture).await?;
    Ok(vec![
        row("20,000 files, listed", "find", lists, Goal::AtMost(LIST_MAX)),
        row("20,000 files, packed", "tar", archives, Goal::AtMost(ARCHIVE_MAX)),
        row("change of a file, seen", "inotify", watched, Goal::Shown),
    ])
}

async fn list(fixture: &Fixture) -> Result<Duration> {
    let started = Instant::now();
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = fixture.files.list(&format!("path=tree&recursive=true&limit=10000{after}")).await?;
        seen += page.items.len();
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    ensure!(seen == FILES + FILES / FILES_OF_DIRECTORY, "{seen} entries");
    Ok(started.elapsed())
}

async fn archive(fixture: &Fixture) -> Result<Duration> {
    let started = Instant::now();
    let reply = fixture.files.request(Method::GET, "archive?path=tree", &[], b"").await?;
    ensure!(reply.status == 200 && reply.body.len() > FILES * 2000, "{} bytes", reply.body.len());
    Ok(started.elapsed())
}

/// The time of a program whose output goes through a pipe: GNU tar writes nothing at all to /dev/null.
fn run(command: &mut Command) -> Result<Duration> {
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success() && !output.stdout.is_empty());
    Ok(started.elapsed())
}

/// From a write to its event, through the API and by inotify itself.
async fn watch(fixture: &Fixture) -> Result<(Vec<Duration>, Vec<Duration>)> {
    let directory = fixture.workspace().join("tree/0");
    let request = Request::builder().uri(fixture.files.path("watch?path=tree"));
    let request = request.body(http_body_util::Empty::<Bytes>::new())?;
    let mut events = fixture.files.open(request).await?.into_body();
    events.frame().await.context("ready")??;
    let own = Inotify::init(InitFlags::IN_CLOEXEC)?;
    own.add_watch(&directory, AddWatchFlags::IN_CLOSE_WRITE)?;
    let (mut ours, mut other) = (vec![], vec![]);
    for number in 0..scaled(20, 100) {
        let started = Instant::now();
        change(&directory.join("changed"), number)?;
        own.read_events()?;
        other.push(started.elapsed());
        loop {
            let frame = events.frame().await.context("an event")??;
            let text = String::from_utf8_lossy(frame.data_ref().context("data")?).into_owned();
            if text.contains("tree/0/changed") {
                break;
            }
        }
        ours.push(started.elapsed());
    }
    Ok((ours, other))
}

fn change(path: &Path, number: usize) -> Result<()> {
    Ok(fs::write(path, number.to_string())?)
}
