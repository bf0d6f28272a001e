//! A key and its echo: through hostd's WebSocket, against the same terminal on runtimed's own socket.

use crate::{
    host::{spec, start_with},
    row::{Goal, Row, ms, ratio},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::viewer::Viewer;
use tests::{Client, scaled};

/// Samples of the alternative between fifty of ours.
const SAMPLES_PLAIN: usize = 50;

pub async fn rows() -> Result<Vec<Row>> {
    let hostd = start_with(&[("SLIPWAY_LOG", "warn")]).await?;
    let caller = hostd.operator()?;
    let id = caller.create(&spec()).await?;
    let body = json!({"id": "t", "shell": "stty raw -echo; printf up; exec cat", "tty": true});
    caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let mut screen = caller.attach(&id, "t", "").await?;
    screen.sees("up").await?;
    let runtimed = Client::new(hostd.data().join("oci").join(&id).join("control/sock"));
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for sample in 0..scaled(500, 5000) {
        // Sequentially, so that neither waits for the other's viewer.
        let (key, other) = (format!("<{sample}>"), format!("[{sample}]"));
        let started = Instant::now();
        screen.types(&key).await?;
        screen.sees(&key).await?;
        ours.push(started.elapsed());
        if sample % SAMPLES_PLAIN == 0 {
            plain.extend(without_hostd(&runtimed, &other, SAMPLES_PLAIN).await?);
        }
    }
    hostd.stop().await?;
    ours.sort_unstable();
    plain.sort_unstable();
    let row = |what: &'static str, percent: usize, goal| -> Result<Row> {
        let at = |samples: &[Duration]| samples.get(samples.len() * percent / 100).copied();
        let (ours, plain) = (at(&ours).context("samples")?, at(&plain).context("samples")?);
        let other = format!("runtimed's own socket {}", ms(plain));
        Ok(Row { what: what.into(), ours: ms(ours), other, ratio: ratio(ours, plain), goal })
    };
    Ok(vec![
        row("terminal, key to echo p50", 50, Goal::AtMost(2.0))?,
        row("terminal, key to echo p99", 99, Goal::AtMost(3.0))?,
    ])
}

async fn without_hostd(runtimed: &Client, key: &str, samples: usize) -> Result<Vec<Duration>> {
    let mut viewer = Viewer::attach(runtimed, "t", "?replay=0").await?;
    let mut times = Vec::new();
    for _ in 0..samples {
        let started = Instant::now();
        viewer.types(key).await?;
        viewer.sees(key).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}
