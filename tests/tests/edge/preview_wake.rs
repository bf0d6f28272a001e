//! Requests that wait for an app, while something happens to its sandbox.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use std::{fs, time::Duration};
use tests::Hostd;
use tests::apps::RAW;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const PERSON: (&str, &str) = ("accept", "text/html");
/// How long hostd waits for a response from inside.
const TELL_MAX: Duration = Duration::from_secs(2);
/// How long hostd holds a request.
const HOLD_MAX: Duration = Duration::from_secs(30);

#[tokio::test]
async fn who_comes_while_a_sandbox_is_stopped_wakes_it_though_others_wait_for_its_old_life() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    // Its first life never listens, and is slow to end.
    let first = "if [ ! -e go ]; then trap '' TERM; while :; do sleep 0.05; done; fi";
    app.want(&format!("{first}; exec python3 -u app.py")).await?;
    let page = app.get("/", &[PERSON]).await?;
    ensure!(page.status == 503, "{} {}", page.status, page.text());
    let stop = tokio::spawn({
        let app = app.clone();
        async move { app.verb("stop").await }
    });
    let path = format!("/v1/sandboxes/{}", app.sandbox);
    hostd.operator()?.until(&path, |view| view["phase"] == "stopping").await?;
    fs::write(app.dir.join("go"), "")?;
    let answer = app.get("/", &[]).await?;
    ensure!(answer.text() == "hello from raw", "{} {}", answer.status, answer.text());
    // Whether it tells of the stop or of what came after it.
    let _ = stop.await?;
    hostd.stop().await
}

#[tokio::test]
async fn one_late_answer_from_inside_is_not_a_no() -> Result<()> {
    let hostd = Hostd::start().await?;
    let app = RAW.prepare(&hostd).await?;
    app.want("until [ -e go ]; do sleep 0.05; done; exec python3 -u app.py").await?;
    let init = hostd.init(&app.sandbox)?;
    kill(init, Signal::SIGSTOP)?;
    let held = tokio::spawn({
        let app = app.clone();
        async move { app.get("/", &[]).await }
    });
    sleep(TELL_MAX * 3 / 2).await;
    kill(init, Signal::SIGCONT)?;
    ensure!(!held.is_finished(), "{}", held.await??.text());
    fs::write(app.dir.join("go"), "")?;
    let answer = held.await??;
    ensure!(answer.text() == "hello from raw", "{} {}", answer.status, answer.text());
    hostd.stop().await
}

#[tokio::test]
async fn a_service_that_names_no_port_is_not_waited_for_on_every_one() -> Result<()> {
    let hostd = Hostd::start().await?;
    let spec = json!({"ports": [8000], "services": [{"name": "web", "command": "sleep 0.2; exit 1"}]});
    let sandbox = hostd.operator()?.create(&spec).await?;
    let app = RAW.in_sandbox(&hostd, &sandbox).await?;
    app.until_services(|page| page["items"][0]["state"] == "backoff").await?;
    let mut asked = JoinSet::new();
    for port in 9000..9020 {
        let mut other = app.clone();
        other.url = app.url.replace("-8000.", &format!("-{port}."));
        asked.spawn(async move { other.get("/", &[]).await?.json::<Value>() });
    }
    let told = timeout(HOLD_MAX / 2, asked.join_all()).await.context("they are held")?;
    for told in told {
        let told = told?;
        ensure!(told["error"]["code"] == "port_closed", "{told}");
    }
    hostd.stop().await
}

#[tokio::test]
async fn pages_that_wait_for_one_sandbox_leave_places_for_others() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (app, other) = (RAW.prepare(&hostd).await?, RAW.prepare(&hostd).await?);
    for app in [&app, &other] {
        app.want("until [ -e go ]; do sleep 0.05; done; exec python3 -u app.py").await?;
    }
    let mut pages = Vec::new();
    for _ in 0..64 {
        let mut page = app.events("/.slipway/wake").await?;
        page.next().await?.context("the first words")?;
        pages.push(page);
    }
    let answer = app.get("/.slipway/wake", &[]).await?;
    ensure!(answer.status == 503, "{}", answer.status);
    let mut page = other.events("/.slipway/wake").await?;
    page.next().await?.context("the first words")?;
    // Every one of them is told.
    fs::write(app.dir.join("go"), "")?;
    for page in &mut pages {
        while !page.next().await?.context("ended before it is ready")?.contains("event: ready") {}
    }
    hostd.stop().await
}
