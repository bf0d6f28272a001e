//! From exec of the binary to the first answered request, against starting `true`.

use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::{Client, scaled};

pub async fn rows() -> Result<Vec<Row>> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    // Removed all at once at the end: ext4 is slow to make files right after it removed others.
    let dir = tempfile::tempdir()?;
    for round in 0..scaled(30, 300) {
        ours.push(boot(&dir.path().join(round.to_string())).await?);
        plain.push(start_true()?);
    }
    let (ours, plain) = (median(ours), median(plain));
    Ok(vec![Row {
        what: "exec of the binary to first answer".into(),
        ours: ms(ours),
        other: format!("fork+exec of true {}", ms(plain)),
        ratio: ratio(ours, plain),
        goal: Goal::AtMost(5.0),
    }])
}

/// Not in namespaces: their making is not ours to measure here.
async fn boot(dir: &Path) -> Result<Duration> {
    let bin = tests::launch::binary()?;
    let socket = dir.join("control/sock");
    let mut command = Command::new(Path::new(&bin));
    command.env_clear().env("RUNTIMED_DIR", dir.join("control"));
    command.env("RUNTIMED_PUBLIC_SOCKET", dir.join("public/sock")).env("RUNTIMED_HOME", dir);
    let client = Client::new(socket);
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    while client.get("/healthz").await.is_err() {
        ensure!(started.elapsed() < tests::sandbox::PATIENCE, "runtimed does not answer");
        std::hint::spin_loop();
    }
    let time = started.elapsed();
    child.kill()?;
    child.wait()?;
    Ok(time)
}

fn start_true() -> Result<Duration> {
    let started = Instant::now();
    ensure!(Command::new("/bin/true").status()?.success(), "true failed");
    Ok(started.elapsed())
}
