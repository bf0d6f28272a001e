//! Apps that answer what cannot be passed on or take less than they should, and sandboxes that are put to sleep
//! under a request.

use anyhow::{Context, Result, ensure};
use std::sync::Arc;
use std::time::Duration;
use tests::apps::{FILES, RAW};
use tests::host::until;
use tests::{Hostd, scaled};
use tokio::task::JoinSet;

#[tokio::test]
async fn what_cannot_be_passed_on_is_not() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, other) = (RAW.launch(&hostd).await?, RAW.launch(&hostd).await?);
    let answer = app.get("/unasked", &[]).await?;
    ensure!(answer.status == 502 && answer.text().contains("HTTP"), "{} {}", answer.status, answer.text());
    let answer = app.get("/lengths", &[]).await?;
    ensure!(answer.text() == "all of it", "{}", answer.text());
    ensure!(!answer.headers.contains_key("content-length"), "{:?}", answer.headers);

    // An app that never answers takes no time from others.
    let endless: Vec<_> = (0..4)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { app.get("/hints", &[]).await })
        })
        .collect();
    ensure!(other.get("/", &[]).await?.status == 200);
    for answer in endless {
        let answer = answer.await??;
        ensure!(answer.status == 502, "{} {}", answer.status, answer.text());
    }
    hostd.stop().await
}

/// Its queue has five places, and it keeps no connection.
#[tokio::test]
async fn all_are_served_by_an_app_with_a_short_queue() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = Arc::new(FILES.launch(&hostd).await?);
    app.verb("stop").await?;
    let mut visits = JoinSet::new();
    for number in 0..scaled(300, 1000) {
        let app = app.clone();
        visits.spawn(async move {
            let answer = app.get("/", &[]).await?;
            ensure!(answer.status == 200, "{number}: {} {}", answer.status, answer.text());
            Ok(())
        });
    }
    while let Some(visit) = visits.join_next().await {
        visit??;
    }
    hostd.stop().await
}

#[tokio::test]
async fn what_an_open_connection_says_does_not_undo_a_stop() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    // Slow to end: what comes meanwhile finds it on its way down.
    app.serve("trap '' TERM; exec python3 -u app.py").await?;
    let before = app.attempts().await?;
    let mut line = app.line().await?;
    line.say("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n").await?;
    line.hear("hello ").await?;
    let chat = tokio::spawn(async move {
        let mut said = 0_u64;
        while line.say("more ").await.is_ok() {
            said += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        said
    });
    app.verb("stop").await?;
    let said = chat.await?;
    ensure!(said > 0, "nothing was said");
    let (status, after) = (app.status().await?, app.attempts().await?);
    ensure!(status == "stopped" && after == before, "{status}, started {} times", after - before);
    hostd.stop().await
}

#[tokio::test]
async fn a_request_under_way_thaws_what_somebody_pauses() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.launch(&hostd).await?;
    let asked = tokio::spawn({
        let app = app.clone();
        async move { app.get("/gate", &[]).await }
    });
    until("the app has the request", async || Ok(app.dir.join("came").exists().then_some(()))).await?;
    app.verb("pause").await?;
    std::fs::write(app.dir.join("go"), "").context("the gate")?;
    let answer = asked.await??;
    ensure!(answer.status == 200 && answer.text() == "open", "{} {}", answer.status, answer.text());
    ensure!(app.attempts().await? == 1, "only thawed");
    hostd.stop().await
}
