//! Questions that hostd answers by itself: how many a second, and that the engine hears of none.

use super::Overheard;
use crate::{
    host::spec,
    row::{Goal, Row},
};
use anyhow::{Result, ensure};
use std::time::Instant;
use tests::engines::Engine;
use tests::{Caller, Client, scaled};

/// In the list.
const SANDBOXES: usize = 5;
/// hostd lists the containers of the engine once a minute, whatever its load; one such request may fall into
/// the measurement.
const ASKED_MAX: usize = 1;

pub async fn rows(engine: &Engine) -> Result<Vec<Row>> {
    let overheard = Overheard::start(engine).await?;
    let caller = overheard.hostd.local();
    for _ in 0..SANDBOXES {
        caller.create(&spec()).await?;
    }
    // Events of a create arrive a moment after it.
    overheard.relay.quiet().await;
    let count = scaled(1_000, 10_000);
    let before = overheard.relay.count();
    let list = rate(count, || answered(&caller, "/v1/sandboxes")).await?;
    let ready = rate(count, || answered(&caller, "/readyz")).await?;
    let heard = overheard.relay.since(before);
    let raw = Client::new(engine.socket());
    let (few, asks) = (count / 10, async |path: &'static str| {
        let answer = raw.get(path).await?;
        ensure!(answer.status == 200, "{}", answer.text());
        Ok(())
    });
    let raw_list = rate(few, || asks("/containers/json?all=true")).await?;
    let ping = rate(few, || asks("/_ping")).await?;
    clear(&caller).await?;
    overheard.hostd.stop().await?;
    let row = |what: String, ours: f64, verb: &str, theirs: f64| Row {
        what: what.into(),
        ours: format!("{ours:.0}/s"),
        other: format!("the engine's {verb} {theirs:.0}/s"),
        ratio: ours / theirs,
        goal: Goal::Shown,
    };
    Ok(vec![
        row(format!("docker: list of {SANDBOXES}"), list, "list", raw_list),
        row("docker: readyz".to_owned(), ready, "ping", ping),
        Row {
            what: format!("  asked of the engine for {}", 2 * count).into(),
            ours: heard.len().to_string(),
            other: heard.first().map_or_else(|| "nothing".to_owned(), |first| shortened(first)),
            ratio: heard.len() as f64,
            goal: Goal::AtMost(ASKED_MAX as f64),
        },
    ])
}

async fn answered(caller: &Caller, path: &str) -> Result<()> {
    let reply = caller.get(path).await?;
    ensure!(reply.status == 200, "{path}: {} {}", reply.status, reply.text());
    Ok(())
}

/// Returns the rate of sequential calls.
async fn rate<F: Future<Output = Result<()>>>(count: usize, ask: impl Fn() -> F) -> Result<f64> {
    let started = Instant::now();
    for _ in 0..count {
        ask().await?;
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Without what is asked for in detail.
fn shortened(line: &str) -> String {
    line.split('?').next().unwrap_or(line).to_owned()
}

/// Takes away all sandboxes.
pub async fn clear(caller: &Caller) -> Result<()> {
    let list: serde_json::Value = caller.get("/v1/sandboxes?limit=1000").await?.expect(200)?;
    let ids = list["sandboxes"].as_array().into_iter().flatten();
    let ids = ids.filter_map(|one| one["id"].as_str().map(str::to_owned));
    crate::host::remove(caller, ids.collect()).await
}
