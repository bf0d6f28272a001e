//! How fast output gets into the log, against the same command writing a file.

use crate::row::{Goal, Row, mb_per_s, median, ratio};
use anyhow::{Result, ensure};
use protocol::Exit;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{Sandbox, scaled};

pub async fn rows() -> Result<Vec<Row>> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=4096"]).await?;
    let bytes = 1u64 << 30;
    let (mut logged, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..scaled(3, 9) {
        logged.push(run(&sandbox, &format!("head -c {bytes} /dev/zero")).await?);
        plain.push(run(&sandbox, &format!("head -c {bytes} /dev/zero > file")).await?);
        run(&sandbox, "rm file").await?;
    }
    let (logged, plain) = (median(logged), median(plain));
    sandbox.stop().await?;
    Ok(vec![Row {
        what: "output of one exec, 1 GiB".into(),
        ours: mb_per_s(bytes, logged),
        other: format!("the same into a file {}", mb_per_s(bytes, plain)),
        ratio: ratio(plain, logged),
        goal: Goal::AtLeast(0.6),
    }])
}

async fn run(sandbox: &Sandbox, line: &str) -> Result<Duration> {
    let started = Instant::now();
    let view = sandbox.client().exec(json!({"shell": line})).await?;
    ensure!(view.exit == Some(Exit::Exited { code: 0 }), "{line}: {:?}", view.exit);
    Ok(started.elapsed())
}
