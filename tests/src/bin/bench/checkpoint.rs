//! Checkpoints of a large app directory against `git status` of the same tree, and a revert of it. The process is started as
//! a task starts it, without the sandbox around.

use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use tests::launch::program;
use tests::scaled;

const FILES: usize = 20_000;
const FILES_PER_DIRECTORY: usize = 100;
/// A checkpoint runs git seven times, and lists, records and keeps; a status runs it once.
const UNCHANGED_GOAL: f64 = 3.0;

pub async fn rows() -> Result<Vec<Row>> {
    tokio::task::spawn_blocking(measure).await?
}

fn measure() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let app = home.path().join("app");
    for number in 0..FILES {
        let directory = app.join(format!("d{}", number / FILES_PER_DIRECTORY));
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join(format!("f{number}")), format!("{number}\n").repeat(200))?;
    }
    git(&app, &["init", "-q"])?;
    git(&app, &["add", "-A"])?;
    git(&app, &["-c", "user.name=u", "-c", "user.email=u@localhost", "commit", "-q", "-m", "all"])?;
    let (first, reply) = checkpoint(home.path(), &json!("take"))?;
    let since = reply["taken"]["id"].as_str().context("a checkpoint")?.to_owned();
    // Git reads files again that are as new as its index: once for each of both.
    checkpoint(home.path(), &json!("take"))?;
    git(&app, &["status", "--porcelain"])?;
    let revert = json!({"revert": {"since": since, "dry_run": false}});
    let (mut ours, mut status, mut reverts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scaled(5, 15) {
        ours.push(checkpoint(home.path(), &json!("take"))?.0);
        status.push(git(&app, &["status", "--porcelain"])?);
        std::fs::write(app.join("d0/f0"), "changed\n")?;
        let (took, reply) = checkpoint(home.path(), &revert)?;
        ensure!(reply["reverted"]["restored"] == 1, "{reply}");
        reverts.push(took);
    }
    let (ours, status, reverts) = (median(ours), median(status), median(reverts));
    let row = |what: &'static str, time: Duration, goal| Row {
        what: what.into(),
        ours: ms(time),
        other: format!("git status {}", ms(status)),
        ratio: ratio(time, status),
        goal,
    };
    Ok(vec![
        row("checkpoint of 20,000 unchanged files", ours, Goal::AtMost(UNCHANGED_GOAL)),
        row("  the first, which stores all of them", first, Goal::Shown),
        row("  a revert of one of them", reverts, Goal::Shown),
    ])
}

/// Runs a verb of the checkpoint process; how long it took, and its reply.
fn checkpoint(home: &Path, verb: &Value) -> Result<(Duration, Value)> {
    let request = json!({
        "repository": home.join(".slipway/checkpoints.git"),
        "work_tree": home.join("app"),
        "task": "t1",
        "verb": verb,
    });
    let mut command = Command::new(program("runtimed")?);
    let begun = Instant::now();
    let output = command.arg("checkpoint").arg(request.to_string()).output()?;
    let took = begun.elapsed();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok((took, serde_json::from_slice(line)?))
}

fn git(app: &Path, arguments: &[&str]) -> Result<Duration> {
    let begun = Instant::now();
    let output = Command::new("git").args(arguments).current_dir(app).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(begun.elapsed())
}
