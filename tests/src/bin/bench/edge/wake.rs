//! The time from a request for the preview of a sleeping sandbox to the app's response.

use super::ours::Ours;
use super::probe;
use crate::{
    docker::Docker,
    docker_port::Published,
    idle_machine::calm,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::Result;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::sandbox::PATIENCE;
use tests::scaled;
use tokio::time::timeout;

/// Together, for one sandbox.
const CROWD: usize = 1_000;

pub async fn rows() -> Result<Vec<Row>> {
    let docker = Docker::start()?;
    let published = docker.publish()?;
    let ours = Ours::start().await?;
    let (mut stopped, mut start) = (Vec::new(), Vec::new());
    let (mut paused, mut unpause) = (Vec::new(), Vec::new());
    for _ in 0..scaled(9, 50) {
        stopped.push(woken(&ours, "stop").await?);
        start.push(docker_woken(&docker, &published, "kill", "start").await?);
        paused.push(woken(&ours, "pause").await?);
        unpause.push(docker_woken(&docker, &published, "pause", "unpause").await?);
    }
    let (stopped, start) = (median(stopped), median(start));
    let (paused, unpause) = (median(paused), median(unpause));
    let row = |what: &'static str, ours: Duration, verb: &str, theirs: Duration, goal| Row {
        what: what.into(),
        ours: ms(ours),
        other: format!("{verb} and poll {}", ms(theirs)),
        ratio: ratio(ours, theirs),
        goal,
    };
    let mut rows = vec![
        row("stopped until the first byte", stopped, "docker start", start, Goal::AtMost(0.1)),
        row("paused until the first byte", paused, "docker start", start, Goal::AtMost(0.01)),
        row("paused until the first byte", paused, "docker unpause", unpause, Goal::Shown),
    ];
    rows.extend(crowd(&ours).await?);
    ours.hostd.stop().await?;
    Ok(rows)
}

async fn woken(ours: &Ours, verb: &str) -> Result<Duration> {
    ours.told(verb).await?;
    calm().await?;
    probe::first_byte(&ours.target.address, &ours.target.host).await
}

/// Runs the command to its end and then polls, as a client without an edge would.
async fn docker_woken(docker: &Docker, published: &Published, sleep: &str, wake: &str) -> Result<Duration> {
    docker.told(sleep, &published.id)?;
    calm().await?;
    let started = Instant::now();
    docker.told(wake, &published.id)?;
    docker.until_it_answers(published)?;
    Ok(started.elapsed())
}

async fn crowd(ours: &Ours) -> Result<Vec<Row>> {
    ours.told("stop").await?;
    let before = ours.attempts().await?;
    let ask = |_| timeout(PATIENCE, probe::get(&ours.target.address, &ours.target.host));
    let answers = join_all((0..CROWD).map(ask)).await;
    let served = answers.iter().filter(|answer| matches!(answer, Ok(Ok(200)))).count();
    let starts = ours.attempts().await? - before;
    Ok(vec![
        Row {
            what: format!("{CROWD} at once to one asleep: served").into(),
            ours: served.to_string(),
            other: format!("asked {CROWD} times"),
            ratio: served as f64 / CROWD as f64,
            goal: Goal::AtLeast(1.0),
        },
        Row {
            what: "  and started for them".into(),
            ours: format!("{starts} times"),
            other: "bound 1".to_owned(),
            ratio: starts as f64,
            goal: Goal::AtMost(1.0),
        },
    ])
}
