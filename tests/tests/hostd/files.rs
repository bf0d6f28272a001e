//! Hostile files of a sandbox: whatever they contain, tasks get an end, the sandbox can be destroyed, and
//! others are not touched.

use anyhow::{Context, Result, ensure};
use protocol::{Cursor, Event, Fact, log_line};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use tests::host::until;
use tests::{Hostd, Job, TaskFeed, complete, messages, shell};

fn control(hostd: &Hostd, sandbox: &str) -> PathBuf {
    hostd.data().join("oci").join(sandbox).join("control")
}

/// The newest file of a log.
fn newest(dir: &PathBuf) -> Result<PathBuf> {
    let names = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    names.filter(|path| path.extension().is_some_and(|end| end == "log")).max().context("a log file")
}

/// A task that has printed some lines and goes on.
async fn printing(hostd: &Hostd, spec: &Value) -> Result<(String, Job, TaskFeed)> {
    let caller = hostd.local();
    let sandbox = caller.create(spec).await?;
    let job = caller.submit(&sandbox, &shell("seq 1000; sleep 1000")).await?;
    let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.fact.get("text").is_some_and(|text| text == "1000")).await?;
    Ok((sandbox, job, feed))
}

#[tokio::test]
async fn a_log_that_lost_its_tail_with_the_power_does_not_keep_a_task_from_ending() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    for cancelled in [false, true] {
        let (sandbox, job, feed) = printing(&hostd, &json!({"idle_policy": "always_on"})).await?;
        hostd.kill().await?;
        hostd.kill_init(&sandbox)?;
        let log = newest(&control(&hostd, &sandbox).join("tasks").join(&job.id))?;
        File::options().write(true).open(log)?.set_len(500)?;
        hostd.crash().await?;
        if cancelled {
            hostd.local().post(&format!("{}/cancel", job.path()), &json!({})).await?;
        }
        let events = hostd.local().events_of(&job).await?;
        complete(&events)?;
        ensure!(events.starts_with(&feed.events), "what was told is told again");
        let result = &events.last().context("done")?.fact["result"];
        ensure!(result["failure_reason"] == "lost", "{result}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_sandbox_wrote_before_it_died_is_taken_over_though_nobody_listened() -> Result<()> {
    for destroyed in [false, true] {
        let mut hostd = Hostd::start().await?;
        let caller = hostd.local();
        let sandbox = caller.create(&json!({})).await?;
        let line = "until [ -e ../go ]; do sleep 0.01; done; seq 1000; sleep 1000";
        let job = caller.submit(&sandbox, &shell(line)).await?;
        caller.reaches(&job, "agent").await?;
        hostd.kill().await?;
        let home = hostd.workspace(&sandbox);
        std::fs::write(home.join("workspace/go"), "")?;
        let log = control(&hostd, &sandbox).join("tasks").join(&job.id);
        until("all lines are in the files", async || {
            let text = std::fs::read_to_string(newest(&log)?)?;
            Ok(text.contains("\"text\":\"1000\"").then_some(()))
        })
        .await?;
        hostd.kill_init(&sandbox)?;
        hostd.crash().await?;
        let caller = hostd.local();
        if destroyed {
            caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
        }
        let events = caller.events_of(&job).await?;
        let said: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
        ensure!(messages(&events) == said, "{} of 1000", messages(&events).len());
    }
    Ok(())
}

#[tokio::test]
async fn nonsense_in_the_logs_neither_stops_a_destroy_nor_hides_what_is_sound() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (sandbox, job, mut feed) = printing(&hostd, &json!({})).await?;
    hostd.kill_init(&sandbox)?;
    feed.rest().await?;
    hostd.local().becomes(&sandbox, "error").await?;
    let events = control(&hostd, &sandbox).join("events");
    let mut file = OpenOptions::new().append(true).open(newest(&events)?)?;
    let epoch = log_line::parse_file_name(
        newest(&events)?.file_name().and_then(|name| name.to_str()).context("a name")?,
    );
    let epoch = epoch.context("a cursor")?.epoch;
    for seq in [u64::MAX, 1 << 63] {
        let fact = Fact::Shutdown { reason: "x".to_owned() };
        let event = Event { cursor: Cursor { epoch, seq }, time_ms: u64::MAX, fact };
        file.write_all(log_line::encode(&event)?.as_bytes())?;
    }
    file.write_all(b"garbage\n\xff\xff")?;
    let caller = hostd.local();
    caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
    complete(&feed.events)?;
    ensure!(messages(&caller.events_of(&job).await?).len() == 1000);
    // The log as a whole is still there for everybody.
    caller.get("/v1/events?follow=0&limit=1000").await?.expect::<Value>(200)?;
    Ok(())
}
