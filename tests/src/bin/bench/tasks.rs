//! The rate at which lines of an agent reach a follower of its task, and the memory this takes.

use crate::row::{Goal, Row, median};
use anyhow::{Result, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::tasks::{submit, task_with};
use tests::{Sandbox, scaled};

const EVENTS: u64 = 1_000_000;
const FOLLOWERS: usize = 8;
const EVENTS_PER_S_GOAL: f64 = 400_000.0;
const PEAK_GOAL_MB: f64 = 8.0;
const REST_GOAL_MB: f64 = 3.0;

pub async fn rows() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=4096"]).await?;
    let (mut live, mut again) = (Vec::new(), Vec::new());
    for round in 0..scaled(3, 9) {
        let id = format!("lines{round}");
        let line =
            format!("yes 'a line that is about as long as those that agents print' | head -n {EVENTS}");
        submit(sandbox.client(), task_with(&id, &line, json!({"build": {"command": ""}}))).await?;
        live.push(follow(&sandbox, &id).await?);
        again.push(follow(&sandbox, &id).await?);
    }
    let followers: Vec<_> = (0..FOLLOWERS).map(|_| follow(&sandbox, "lines0")).collect();
    let all = futures_util::future::try_join_all(followers).await?;
    let (peak_mb, rest_mb) = (memory_mb(&sandbox, "VmHWM:")?, memory_mb(&sandbox, "VmRSS:")?);
    sandbox.stop().await?;
    let row = |what: &'static str, time: Duration, goal| {
        let rate = EVENTS as f64 / time.as_secs_f64();
        Row {
            what: what.into(),
            ours: format!("{:.0}k/s", rate / 1e3),
            other: format!("bound {:.0}k/s", EVENTS_PER_S_GOAL / 1e3),
            ratio: rate / EVENTS_PER_S_GOAL,
            goal,
        }
    };
    Ok(vec![
        row("lines of an agent to a follower", median(live), Goal::AtLeast(1.0)),
        row("the same again from the log", median(again), Goal::AtLeast(1.0)),
        row("  each of 8 at once", median(all), Goal::Shown),
        memory("  most resident memory meanwhile", peak_mb, PEAK_GOAL_MB),
        memory("  resident memory afterwards", rest_mb, REST_GOAL_MB),
    ])
}

/// From the first line of the agent to the end.
async fn follow(sandbox: &Sandbox, id: &str) -> Result<Duration> {
    let request = Request::get(format!("/v1/tasks/{id}/events?follow=1")).body(Empty::new())?;
    let mut body = sandbox.client().open(request).await?.into_body();
    let (mut lines, mut started) = (0, None);
    while let Some(frame) = body.frame().await {
        let data = frame?.into_data().unwrap_or_default();
        if started.is_none() && data.windows(9).any(|window| window == b"\"message\"") {
            started = Some(Instant::now());
        }
        lines += data.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    ensure!(lines > EVENTS, "{lines} events of {EVENTS}");
    Ok(started.map(|at| at.elapsed()).unwrap_or_default())
}

fn memory(what: &'static str, mb: f64, bound_mb: f64) -> Row {
    Row {
        what: what.into(),
        ours: format!("{mb:.2} MB"),
        other: format!("bound {bound_mb} MB"),
        ratio: mb / bound_mb,
        goal: Goal::AtMost(1.0),
    }
}

fn memory_mb(sandbox: &Sandbox, field: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", sandbox.pid()?))?;
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kb: f64 = line.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(kb * 1024.0 / 1e6)
}
