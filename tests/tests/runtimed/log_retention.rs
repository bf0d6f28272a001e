//! The budget of all logs together: what goes first, what is kept, and how that is said.

use anyhow::{Context, Result, ensure};
use protocol::{ErrorCode, ExecView, Exit, Fact};
use serde_json::json;
use tests::events::{EventStream, events_so_far};
use tests::output::Follower;
use tests::raw_output::raw;
use tests::sandbox::PATIENCE;
use tests::{Client, Followed, Sandbox, seq, type_in};
use tokio::time::timeout;

/// One file of a log.
const SEGMENT_BYTES: u64 = 4 << 20;
const EXITED_0: Option<Exit> = Some(Exit::Exited { code: 0 });

async fn view(client: &Client, id: &str) -> Result<ExecView> {
    client.get(&format!("/v1/execs/{id}")).await?.json()
}

/// The kept output of an exec must be the end of what it printed, and the rest must be reported as trimmed.
async fn check_kept(client: &Client, id: &str, printed: &[u8]) -> Result<u64> {
    let oldest = view(client, id).await?.output_oldest;
    let kept = raw(client, &format!("/v1/execs/{id}/output?after={oldest}")).await?;
    ensure!(kept == printed[oldest as usize..], "{id}: {} bytes kept from {oldest} on", kept.len());
    ensure!(raw(client, &format!("/v1/execs/{id}/output")).await? == kept, "{id}: the default is the oldest");
    if oldest > 0 {
        let gone = client.get(&format!("/v1/execs/{id}/output?after={}", oldest - 1)).await?.error()?.error;
        ensure!(gone.code == ErrorCode::HistoryGone, "{id}: {gone:?}");
        ensure!(gone.detail.oldest == Some(oldest.to_string()), "{id}: {gone:?}");
    }
    Ok(kept.len() as u64)
}

async fn trimmed(client: &Client) -> Result<Vec<(String, u64)>> {
    let trimmed = events_so_far(client).await?.into_iter().filter_map(|event| match event.fact {
        Fact::ExecTrimmed { exec, oldest } => Some((exec.as_str().to_owned(), oldest)),
        _ => None,
    });
    Ok(trimmed.collect())
}

#[tokio::test]
async fn over_the_budget_the_oldest_finished_output_goes_first() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=16"]).await?;
    let client = sandbox.client();
    let printed = seq(6 << 20);
    let names: Vec<String> = (0..6).map(|i| format!("e{i}")).collect();
    for name in &names {
        let line = format!("seq 1 100000000 | head -c {}", printed.len());
        ensure!(client.exec(json!({"id": name, "shell": line})).await?.exit == EXITED_0);
    }
    let mut kept = Vec::new();
    for name in &names {
        kept.push(check_kept(client, name, &printed).await?);
    }
    ensure!(kept.iter().sum::<u64>() <= 16 << 20, "{kept:?}");
    ensure!(kept.is_sorted() && kept[0] == 0 && kept[5] == 6 << 20, "{kept:?}");
    let told = trimmed(client).await?;
    ensure!(told.is_sorted() && told.iter().any(|(exec, _)| exec == "e0"), "{told:?}");
    let partly = client.ended("e0").await?;
    ensure!(partly.truncated && partly.stdout.is_some_and(|out| out.data.is_empty()), "{:?}", partly.exit);
    // Trimmed output stays trimmed after a boot, and kept output stays.
    let sandbox = sandbox.crash_and_boot().await?;
    for (name, kept) in names.iter().zip(kept) {
        ensure!(check_kept(sandbox.client(), name, &printed).await? == kept, "{name}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn a_running_exec_that_prints_more_than_the_budget_keeps_its_newest() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=16"]).await?;
    let client = sandbox.client();
    let printed = seq(40 << 20);
    // It prints only when a follower is there: one that comes later begins with what is kept.
    let line = format!("read x; seq 1 100000000 | head -c {}; read x", printed.len());
    client.exec(json!({"id": "old", "shell": "echo old"})).await?;
    client.start(json!({"id": "runs", "shell": line, "stdin_open": true})).await?;
    let mut follower = Follower::open(client, "/v1/execs/runs/output?follow=1").await?;
    let mut events = EventStream::open(client).await?;
    let mut oldest = 0;
    let trimmed_to = |fact: &Fact| match fact {
        Fact::ExecTrimmed { exec, oldest } if exec.as_str() == "runs" => Some(*oldest),
        _ => None,
    };
    type_in(client, "runs", "\n").await?;
    // The first file may be open in the follower. Of those behind it one is gone now, and the follower, whose client
    // does not read yet, cannot have come that far.
    events
        .until(|fact| {
            oldest = trimmed_to(fact).unwrap_or(oldest);
            oldest >= 2 * SEGMENT_BYTES
        })
        .await?;
    // It is told about output that was trimmed before it was read.
    let mut seen = Followed::default();
    while seen.cursor < printed.len() as u64 {
        seen.add(&timeout(PATIENCE, follower.next()).await.context("hangs")??.context("the log ended")?)?;
    }
    ensure!(seen.lost > 0 && seen.stdout.len() as u64 + seen.lost == printed.len() as u64, "{}", seen.lost);
    type_in(client, "runs", "\n").await?;
    ensure!(client.ended("runs").await?.exit == EXITED_0);
    // Everything was counted when its end was told, so this is what was kept while it ran.
    let runs_ended = |fact: &Fact| matches!(fact, Fact::ExecEnded { exec, .. } if exec.as_str() == "runs");
    events
        .until(|fact| {
            oldest = trimmed_to(fact).unwrap_or(oldest);
            runs_ended(fact)
        })
        .await?;
    let kept = printed.len() as u64 - oldest;
    ensure!((8 << 20..=20 << 20).contains(&kept), "{kept} bytes kept");
    ensure!(view(client, "old").await?.output_oldest == 4, "the finished one went first");
    let kept = check_kept(client, "runs", &printed).await?;
    ensure!((8 << 20..=16 << 20).contains(&kept), "{kept} bytes kept in the end");
    let told: Vec<u64> = trimmed(client).await?.into_iter().filter(|t| t.0 == "runs").map(|t| t.1).collect();
    ensure!(told.is_sorted() && told.last() == Some(&view(client, "runs").await?.output_oldest), "{told:?}");
    sandbox.stop().await
}
