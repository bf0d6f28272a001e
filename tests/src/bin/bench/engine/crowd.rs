//! Many containers: how long a new hostd takes to have them all again, and what they cost when nothing happens.

use super::Overheard;
use crate::{
    edge::target::{children, cpu_of},
    host::{exec_true, parallel, remove, spec},
    idle_machine::calm,
    row::{Goal, Row},
};
use anyhow::Result;
use std::time::{Duration, Instant};
use tests::engines::Engine;
use tests::scaled;

/// As long as the longest time between two things that hostd does by itself.
const IDLE: Duration = Duration::from_secs(60);
const TOGETHER: usize = 4;

pub async fn rows(engine: &Engine) -> Result<Vec<Row>> {
    let mut overheard = Overheard::start(engine).await?;
    let caller = overheard.hostd.local();
    let many = scaled(12, 200);
    let ids = parallel(TOGETHER, many, |_| async { caller.create(&spec()).await }).await?;
    let mut rows = again(&mut overheard, &ids).await?;
    rows.extend(idle(&overheard, engine, many).await?);
    remove(&overheard.hostd.local(), ids).await?;
    overheard.hostd.stop().await?;
    Ok(rows)
}

/// hostd is killed, and another takes its place.
async fn again(overheard: &mut Overheard, ids: &[String]) -> Result<Vec<Row>> {
    overheard.hostd.kill().await?;
    calm().await?;
    let (before, started) = (overheard.relay.count(), Instant::now());
    overheard.hostd.crash().await?;
    let ready = started.elapsed();
    let asked = overheard.relay.count() - before;
    let caller = overheard.hostd.local();
    let exec = |at: usize| {
        let (caller, id) = (&caller, &ids[at]);
        async move { exec_true(caller, id).await.map(|()| String::new()) }
    };
    parallel(TOGETHER, ids.len(), exec).await?;
    let all = started.elapsed();
    let row = |what: String, time: Duration| Row {
        what: what.into(),
        ours: format!("{:.2} s", time.as_secs_f64()),
        other: format!("{asked} requests to the engine"),
        ratio: time.as_secs_f64() / ids.len() as f64,
        goal: Goal::Shown,
    };
    Ok(vec![
        row(format!("docker: hostd again, {} run, s each", ids.len()), ready),
        row("  until each has run true".to_owned(), all),
    ])
}

/// Measures an idle hostd without requests.
async fn idle(overheard: &Overheard, engine: &Engine, many: usize) -> Result<Vec<Row>> {
    overheard.relay.quiet().await;
    let hostd = [overheard.hostd.pid()?.as_raw()];
    let daemon = engine.pid()?.as_raw();
    let daemons: Vec<i32> = [daemon].into_iter().chain(children(daemon)).collect();
    let (before, asked) = ((cpu(&hostd)?, cpu(&daemons)?), overheard.relay.count());
    tokio::time::sleep(IDLE).await;
    let used = (cpu(&hostd)? - before.0, cpu(&daemons)? - before.1);
    let heard = overheard.relay.since(asked);
    let minutes = IDLE.as_secs_f64() / 60.0;
    let row = |what: String, used: Duration| Row {
        what: what.into(),
        ours: format!("{:.2} s a minute", used.as_secs_f64() / minutes),
        other: "one core".to_owned(),
        ratio: used.as_secs_f64() / IDLE.as_secs_f64(),
        goal: Goal::Shown,
    };
    Ok(vec![
        row(format!("docker: hostd idle with {many}"), used.0),
        row("  the engine and its containerd".to_owned(), used.1),
        Row {
            what: "  requests to the engine".into(),
            ours: format!("{:.1} a minute", heard.len() as f64 / minutes),
            other: "six pings and a list".to_owned(),
            ratio: heard.len() as f64 / minutes,
            goal: Goal::AtMost(8.0),
        },
    ])
}

fn cpu(pids: &[i32]) -> Result<Duration> {
    pids.iter().map(|pid| cpu_of(*pid)).sum()
}
