//! The output of an agent: every line once, in order, to every reader, whatever its content and amount.

use anyhow::{Context, Result, ensure};
use http_body_util::BodyExt;
use protocol::{ErrorCode, Exit, Fact, FailureReason, Stream, TaskEvent, TaskFact, TaskStatus};
use serde_json::json;
use tests::events::events_so_far;
use tests::sandbox::PATIENCE;
use tests::tasks::{TaskStream, cancel, run, said, story, submit, task, task_with, view};
use tests::{Random, Sandbox, raw_output, scaled};
use tokio::time::timeout;

#[tokio::test]
async fn a_line_of_100_megabytes_and_bytes_that_are_no_text_come_unaltered() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let before = client.status().await?.runtimed_rss_bytes;
    let line = "head -c 100000000 /dev/zero | tr '\\0' x; printf '\\nnext\\n\\xff\\xfe\\x00\\n\\xc3'; printf 'err\\xff' >&2";
    let result = run(client, task("t", line)).await?;
    ensure!(result.status == TaskStatus::Succeeded && result.hints.is_empty(), "{result:?}");
    let events = story(client, "t").await?;
    let lines = said(&events, Stream::Stdout)?;
    let lengths: Vec<usize> = lines.iter().map(Vec::len).collect();
    ensure!(lengths == [100_000_000, 4, 3, 1], "{lengths:?}");
    ensure!(lines[0].iter().all(|byte| *byte == b'x') && lines[2] == b"\xff\xfe\0" && lines[3] == b"\xc3");
    ensure!(said(&events, Stream::Stderr)? == [b"err\xff".to_vec()]);
    let after = client.status().await?.runtimed_rss_bytes;
    ensure!(after < before + (8 << 20), "memory grew from {before} to {after}");
    sandbox.stop().await
}

#[tokio::test]
async fn a_hundred_thousand_lines_are_a_hundred_thousand_messages() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let began = std::time::Instant::now();
    let result = run(client, task("t", "seq 100000")).await?;
    eprintln!("100,000 lines in {:?}", began.elapsed());
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    let lines = said(&story(client, "t").await?, Stream::Stdout)?;
    ensure!(lines.len() == 100_000);
    ensure!(lines.iter().enumerate().all(|(at, line)| *line == (at + 1).to_string().into_bytes()));
    sandbox.stop().await
}

/// Readers that hang up at random and come back after what they have.
#[tokio::test]
async fn followers_that_break_off_lose_nothing_and_see_nothing_twice() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client().clone();
    let line = "for i in $(seq 3000); do echo line $i; [ $((i % 100)) = 0 ] && sleep 0.02; done; true";
    submit(&client, task_with("t", line, json!({"build": {"command": "seq 500"}}))).await?;
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..scaled(6, 40) {
        let client = client.clone();
        readers.spawn(async move {
            let mut random = Random::seeded();
            let mut seen: Vec<TaskEvent> = Vec::new();
            loop {
                let after = seen.last().map_or(0, |event| event.seq);
                let mut stream = TaskStream::open(&client, "t", after, reader % 2 == 0).await?;
                let many = 1 + random.below(400);
                for _ in 0..many {
                    let Some(event) = stream.next().await? else { break };
                    let done = matches!(event.fact, TaskFact::Done { .. });
                    seen.push(event);
                    if done {
                        ensure!(stream.next().await?.is_none(), "something after done");
                        return Ok(seen);
                    }
                }
            }
        });
    }
    let mut stories = Vec::new();
    while let Some(read) = readers.join_next().await {
        stories.push(read??);
    }
    let whole = story(&client, "t").await?;
    ensure!(stories.iter().all(|seen| *seen == whole), "a reader saw something else");
    ensure!(whole.len() > 3500);
    let last = whole.last().context("events")?.seq;
    let over = client.get(&format!("/v1/tasks/t/events?after={last}&follow=1")).await?;
    ensure!(over.status == 200 && over.body.is_empty(), "{} {}", over.status, over.text());
    let beyond = client.get(&format!("/v1/tasks/t/events?after={}", last + 1)).await?;
    ensure!(beyond.code()? == ErrorCode::InvalidRequest, "{}", beyond.text());
    sandbox.stop().await
}

#[tokio::test]
async fn trimmed_events_are_said_to_be_gone_and_the_end_is_always_kept() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=16"]).await?;
    let client = sandbox.client();
    for id in ["old", "new"] {
        let result = run(client, task(id, "seq 250000")).await?;
        ensure!(result.status == TaskStatus::Succeeded && result.hints.is_empty(), "{result:?}");
    }
    let old = view(client, "old").await?;
    ensure!(old.oldest_seq == old.last_seq && old.result.is_some(), "{old:?}");
    let gone = client.get("/v1/tasks/old/events?after=0").await?.error()?.error;
    ensure!(gone.code == ErrorCode::HistoryGone, "{gone:?}");
    ensure!(gone.detail.oldest == Some(old.oldest_seq.to_string()), "{gone:?}");
    let rest = client.get("/v1/tasks/old/events").await?;
    ensure!(rest.text().lines().count() == 1 && rest.text().contains("\"type\":\"done\""), "{}", rest.text());
    let told = events_so_far(client).await?;
    ensure!(told.iter().any(|event| matches!(&event.fact, Fact::TaskTrimmed { .. })), "{told:?}");
    let mut bytes = 0;
    for entry in std::fs::read_dir(sandbox.control_dir().join("tasks/new"))? {
        bytes += entry?.metadata()?.len();
    }
    ensure!(bytes <= 24 << 20, "{bytes} bytes are kept");
    let sandbox = sandbox.crash_and_boot().await?;
    ensure!(view(sandbox.client(), "old").await?.result == old.result, "the result survives");
    sandbox.stop().await
}

#[tokio::test]
async fn an_agent_that_closes_its_output_is_waited_for() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let line = "echo first; exec >&- 2>&- <&-; sleep 0.5; echo later > made; exit 7";
    let result = run(sandbox.client(), task("t", line)).await?;
    ensure!(result.exit == Some(Exit::Exited { code: 7 }), "{result:?}");
    ensure!(
        result.failure_reason == Some(FailureReason::AgentFailed) && result.hints.is_empty(),
        "{result:?}"
    );
    ensure!(result.files_changed.as_ref().is_some_and(|changes| changes.added == 1), "{result:?}");
    ensure!(result.final_message.as_ref().is_some_and(|text| text.data == "first"), "{result:?}");
    // Silent for too long is silent for too long, with an open output or without.
    let fields = json!({"idle_timeout_ms": 300});
    let silent = run(sandbox.client(), task_with("silent", "exec >&- 2>&-; sleep 1000", fields)).await?;
    ensure!(silent.failure_reason == Some(FailureReason::IdleTimedOut), "{silent:?}");
    sandbox.stop().await
}

/// Readers that never read, and eight that read all of it: PID 1 answers others meanwhile, and stays small.
#[tokio::test]
async fn a_reader_that_never_reads_hurts_nobody() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut stuck = Vec::new();
    submit(client, task("t", "sleep 0.5; seq 300000")).await?;
    for at in 0..20 {
        stuck.push(TaskStream::open(client, "t", 0, at % 2 == 0).await?);
    }
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = client.clone();
        readers.spawn(async move {
            let mut read =
                raw_output::open(&client, "/v1/tasks/t/events?follow=1", "application/x-ndjson").await?;
            let mut lines = 0;
            while let Some(frame) = read.frame().await {
                lines += frame?.data_ref().map_or(0, |data| data.iter().filter(|b| **b == b'\n').count());
            }
            Ok::<usize, anyhow::Error>(lines)
        });
    }
    while let Some(read) = readers.join_next().await {
        let lines = read??;
        ensure!(lines > 300_000, "{lines} events");
    }
    ensure!(client.get("/healthz").await?.status == 200);
    let peak = peak_bytes(&sandbox)?;
    ensure!(peak < 24 << 20, "PID 1 needed {peak} bytes");
    // A reader that begins late gets all of it.
    let mut late = stuck.pop().context("one of them")?;
    let done = late.until(|fact| matches!(fact, TaskFact::Done { .. })).await?;
    ensure!(done.seq > 300_000 && late.next().await?.is_none());
    drop(stuck);
    sandbox.stop().await
}

fn peak_bytes(sandbox: &Sandbox) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid()?))?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).context("no peak")?;
    Ok(line.split_whitespace().nth(1).context("no number")?.parse::<u64>()? << 10)
}

/// An empty line tells a reader that the stream is alive, and lets PID 1 detect a lost reader.
#[tokio::test]
async fn silence_is_broken_by_an_empty_line() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    submit(client, task("t", "sleep 1000")).await?;
    let mut read = raw_output::open(client, "/v1/tasks/t/events?follow=1", "application/x-ndjson").await?;
    loop {
        let frame = timeout(PATIENCE, read.frame()).await.context("silence")?.context("an end")??;
        if frame.data_ref().is_some_and(|data| data.as_ref() == b"\n") {
            break;
        }
    }
    cancel(client, "t", 0).await?;
    sandbox.stop().await
}
