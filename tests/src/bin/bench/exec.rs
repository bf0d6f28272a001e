//! The round trip of a short exec against starting the same program oneself.

use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::client::Connection;
use tests::{Sandbox, scaled};

pub async fn rows() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start().await?;
    let mut connection = sandbox.client().connect().await?;
    let samples = scaled(300, 3000);
    let (mut ours, mut printing, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..samples {
        ours.push(exec(&mut connection, &["true"]).await?);
        plain.push(fork_and_exec()?);
        printing.push(exec(&mut connection, &["echo", "hello"]).await?);
    }
    let (ours, printing, plain) = (median(ours), median(printing), median(plain));
    sandbox.stop().await?;
    let against = format!("fork+exec {}", ms(plain));
    let row = |what: &'static str, time, goal| Row {
        what: what.into(),
        ours: ms(time),
        other: against.clone(),
        ratio: ratio(time, plain),
        goal,
    };
    Ok(vec![
        row("exec true, round trip p50", ours, Goal::AtMost(3.0)),
        row("exec echo, with its output p50", printing, Goal::AtMost(5.0)),
    ])
}

async fn exec(connection: &mut Connection, argv: &[&str]) -> Result<Duration> {
    let started = Instant::now();
    let answer = connection.post("/v1/execs?wait_ms=60000", &json!({"argv": argv})).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(started.elapsed())
}

fn fork_and_exec() -> Result<Duration> {
    let started = Instant::now();
    let status = std::process::Command::new("/bin/true").status()?;
    ensure!(status.success(), "true failed");
    Ok(started.elapsed())
}
