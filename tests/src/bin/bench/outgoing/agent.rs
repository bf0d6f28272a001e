//! How long until an agent says something: OpenCode started in advance against OpenCode started for the task.

use crate::row::{Goal, Row, median, ms, ratio};
use anyhow::{Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::agents::AgentsFixture;
use tests::model::{Dialect, Script, Turn};
use tests::{TaskFeed, scaled};

pub async fn rows() -> Result<Vec<Row>> {
    let shop = AgentsFixture::open(Dialect::Messages).await?;
    shop.model.script(Script::new([Turn::say("Here I am.")]));
    let (mut warm, mut cold) = (Vec::new(), Vec::new());
    first_text(&shop).await?;
    for _ in 0..scaled(3, 9) {
        cold.push(first_text(&shop).await?);
        shop.warm_up().await?;
        warm.push(first_text(&shop).await?);
    }
    let (warm, cold) = (median(warm), median(cold));
    Ok(vec![Row {
        what: "first text of OpenCode, pre-warmed".into(),
        ours: ms(warm),
        other: format!("started for the task {}", ms(cold)),
        ratio: ratio(warm, cold),
        goal: Goal::AtMost(0.5),
    }])
}

/// From the submit to the first word, seen by a follower.
async fn first_text(shop: &AgentsFixture) -> Result<Duration> {
    let begun = Instant::now();
    let job = shop.submit(&json!({"prompt": "say something", "agent": "opencode", "build": ""})).await?;
    let mut feed = TaskFeed::open(&shop.caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    let time = begun.elapsed();
    feed.rest().await?;
    Ok(time)
}
