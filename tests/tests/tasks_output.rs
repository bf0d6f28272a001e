//! What an agent prints: every line once, in order, to every reader, whatever it is and however much.

use anyhow::{Context, Result, ensure};
use protocol::{ErrorCode, Fact, Stream, TaskEvent, TaskFact, TaskStatus};
use serde_json::json;
use tests::events::events_so_far;
use tests::tasks::{TaskStream, run, said, story, submit, task, task_with, view};
use tests::{Random, Sandbox, scaled};

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
