//! Where events are kept: rows of many events in SQLite, against one shared segment file with the same
//! frames, both on the disk when they are counted.

use crate::row::{Goal, Row, median, ratio};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use hostd_core::{Blueprint, State, TaskFrames, TaskLine};
use hostd_store::{NewSandbox, NewTask, Secret, Store, TaskBegun};
use protocol::TaskId;
use protocol::api::{AttemptRelation, Label, Limits, Owner, SandboxId};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::scaled;

const EVENTS: u64 = 200_000;
/// About as many as come while one commit is under way.
const TOGETHER: u64 = 1_000;

pub async fn rows() -> Result<Vec<Row>> {
    let (mut ours, mut segment) = (Vec::new(), Vec::new());
    for _ in 0..scaled(3, 9) {
        ours.push(sqlite().await?);
        segment.push(file()?);
    }
    let (ours, segment) = (median(ours), median(segment));
    let rate = |time: Duration| format!("{:.0}k/s", EVENTS as f64 / time.as_secs_f64() / 1e3);
    Ok(vec![Row {
        what: "durable events, 1,000 at a time".into(),
        ours: rate(ours),
        other: format!("segment file, fdatasync {}", rate(segment)),
        ratio: ratio(segment, ours),
        goal: Goal::Shown,
    }])
}

fn lines(from: u64) -> Result<Vec<TaskLine>> {
    let line = |number: u64| {
        let text = format!(
            "{{\"seq\":{number},\"time_ms\":1,\"type\":\"message\",\"text\":\"a line that is about as long as those that agents print\"}}"
        );
        TaskLine::parse(&Bytes::from(text)).context("a line")
    };
    (from..from + TOGETHER).map(line).collect()
}

/// A database with a task that has begun, and the row of that.
async fn store_with_task(path: &Path) -> Result<(Store, i64)> {
    let store = Store::open(path)?;
    let id: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().ok().context("an id")?;
    let label = |text| Label::parse(text).ok().context("a label");
    let owner = Owner { tenant: label("t")?, principal: label("p")?, project: label("q")? };
    let limits = Limits { memory_mb: 1, cpus: 1.0, pids: 1, disk_mb: None };
    let blueprint = Blueprint::bare("oci", limits);
    let sandbox = NewSandbox {
        id,
        name: "log".to_owned(),
        owner,
        scope: None,
        blueprint: blueprint.into(),
        metadata: BTreeMap::new(),
        env: Secret::default(),
        dotfiles: None,
        provisioning: hostd_core::Provisioning::default(),
        state: State::new(1),
        created_ms: 1,
        expires_ms: None,
    };
    store.insert_sandbox(sandbox, AttemptRelation::Create).await?;
    let request = serde_json::json!({"prompt": "", "agent": {"kind": "command", "argv": ["true"]}});
    let task = NewTask {
        sandbox: id,
        id: TaskId::parse("01jb9xyzabcdefghjkmnpqrstv")?,
        agent: "command".to_owned(),
        created_by: "ann".to_owned(),
        prompt: String::new(),
        request: Secret(serde_json::from_value(request)?),
        request_hash: [0; 32],
        grant: None,
        created_ms: 1,
    };
    match store.begin_task(task).await? {
        TaskBegun::New(task) => Ok((store, task.number)),
        other => bail!("{other:?}"),
    }
}

async fn sqlite() -> Result<Duration> {
    let dir = tempfile::Builder::new().prefix("bench-log-").tempdir_in("/var/tmp")?;
    let (store, task) = store_with_task(&dir.path().join("db")).await?;
    let batches: Vec<_> = (1..=EVENTS).step_by(TOGETHER as usize).map(lines).collect::<Result<_>>()?;
    let keeper = {
        let store = store.clone();
        tokio::spawn(async move { store.maintain_wal().await })
    };
    let started = Instant::now();
    for batch in batches {
        store.append_task(task, batch).await?;
    }
    let took = started.elapsed();
    keeper.abort();
    store.close().await;
    Ok(took)
}

fn file() -> Result<Duration> {
    let dir = tempfile::Builder::new().prefix("bench-log-").tempdir_in("/var/tmp")?;
    let mut file = std::fs::File::create(dir.path().join("segment"))?;
    let batches: Vec<_> = (1..=EVENTS).step_by(TOGETHER as usize).map(lines).collect::<Result<_>>()?;
    let started = Instant::now();
    let mut frames = TaskFrames::new("01jb9xyzabcdefghjkmnpqrstv", "01jb9xyzabcdefghjkmnpqrstv");
    for line in batches {
        for line in &line {
            frames.push(line.number, line);
        }
        file.write_all(&frames.take())?;
        file.sync_data()?;
    }
    Ok(started.elapsed())
}
