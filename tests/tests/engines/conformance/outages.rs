//! hostd or the engine dies, hangs or is slow, also in the middle of a verb: a typed answer, then recovery without
//! a person, and nothing is left behind.

use super::driver_column::{Column, Outcome, Verdict, engine};
use super::fixture::Fixture;
use super::fixture::passed;
use anyhow::{Context, Result, ensure};
use futures_util::future::join_all;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tests::engines::Engine;
use tests::host::until;
use tests::processes::gone;
use tests::{Caller, Reply};
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::sleep;

/// Moments at which a verb is cut off. They pick where, they are not what is tried.
const MOMENTS_MS: [u64; 4] = [5, 40, 120, 300];

/// Verbs of three sandboxes under way: one is made, one stops, one is destroyed.
struct Verbs {
    stopping: String,
    dying: String,
    asked: Vec<JoinHandle<Result<Reply>>>,
}

impl Verbs {
    async fn begin(place: &Fixture, name: &str) -> Result<Self> {
        let (stopping, dying) =
            (place.caller.create(&json!({})).await?, place.caller.create(&json!({})).await?);
        place.caller.prints(&stopping, "echo kept > file").await?;
        let ask = |caller: Caller, path: String, body: Option<Value>| {
            tokio::spawn(async move {
                match body {
                    Some(body) => caller.post(&path, &body).await,
                    None => caller.delete(&path).await,
                }
            })
        };
        let caller = || place.caller.clone();
        let asked = vec![
            ask(caller(), "/v1/sandboxes".to_owned(), Some(json!({"name": name}))),
            ask(caller(), format!("/v1/sandboxes/{stopping}/stop"), Some(json!({}))),
            ask(caller(), format!("/v1/sandboxes/{dying}"), None),
        ];
        Ok(Self { stopping, dying, asked })
    }

    /// Waits for all replies: every request gets one eventually.
    async fn answered(&mut self) -> Vec<Result<Reply>> {
        let asked = join_all(std::mem::take(&mut self.asked)).await;
        asked
            .into_iter()
            .map(|joined| joined.context("the caller panicked").and_then(|reply| reply))
            .collect()
    }

    /// Requested states are reached in the end, and every sandbox can be removed.
    async fn settle(&self, place: &Fixture, name: &str) -> Result<()> {
        place.caller.becomes(&self.dying, "destroyed").await?;
        until("nothing is being done", async || {
            let page: Value = place.caller.get("/v1/sandboxes").await?.expect(200)?;
            let items = page["items"].as_array().context("items")?.clone();
            Ok(items.iter().all(|one| one["phase"].is_null()).then_some(()))
        })
        .await?;
        ensure!(place.caller.prints(&self.stopping, "cat file").await? == "kept\n", "its files are lost");
        let page: Value = place.caller.get("/v1/sandboxes").await?.expect(200)?;
        for one in page["items"].as_array().context("items")? {
            let id = one["id"].as_str().context("an id")?;
            if one["name"] == name {
                place.brings(id, "start", "running").await?;
                ensure!(place.caller.prints(id, "echo alive").await? == "alive\n");
            }
            place.destroy(id).await?;
        }
        Ok(())
    }
}

/// Replies during an engine outage are a success or a retryable error.
fn typed(replies: &[Result<Reply>]) -> Result<()> {
    for reply in replies {
        let reply = reply.as_ref().map_err(|error| anyhow::anyhow!("no answer: {error:?}"))?;
        if reply.status >= 400 {
            let error = reply.error()?;
            ensure!(error.retryable || error.detail.existing.is_some(), "{}", reply.text());
        }
    }
    Ok(())
}

pub async fn hostd_killed(column: Arc<Column>) -> Verdict {
    let mut place = Fixture::new(&column).await?;
    for moment in MOMENTS_MS {
        let name = format!("cut-{moment}");
        let mut verbs = Verbs::begin(&place, &name).await?;
        sleep(Duration::from_millis(moment)).await;
        place.crash().await?;
        verbs.answered().await;
        // Asked for again: what was done is not done twice, what was not is done now.
        place.brings(&verbs.stopping, "stop", "stopped").await?;
        let gone = place.caller.delete(&format!("/v1/sandboxes/{}", verbs.dying)).await?;
        ensure!(gone.status == 200, "{}", gone.text());
        verbs.settle(&place, &name).await.with_context(|| format!("killed after {moment} ms"))?;
        place.holds(&[], &[])?;
    }
    passed()
}

/// Waits, without using it, until the engine is known to be away or to be well.
async fn until_it_is(place: &Fixture, usable: bool) -> Result<()> {
    let driver = place.column.driver();
    until("it is known how the engine is", async || {
        let page: Value = place.caller.get("/v1/drivers").await?.expect(200)?;
        let mut all = page["items"].as_array().context("items")?.iter();
        Ok(all.any(|one| one["name"] == driver && one["usable"] == usable).then_some(()))
    })
    .await
}

pub async fn hangs(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let place = Fixture::new(&column).await?;
    let engine = engine(&column)?;
    let lives = place.caller.create(&json!({})).await?;
    let mut verbs = Verbs::begin(&place, "hung").await?;
    engine.freeze()?;
    let seen = while_it_hangs(&place, &lives).await;
    engine.thaw()?;
    seen?;
    typed(&verbs.answered().await)?;
    until_it_is(&place, true).await?;
    verbs.settle(&place, "hung").await?;
    place.destroy(&lives).await?;
    place.holds(&[], &[])?;
    passed()
}

/// Until it counts as away, and then what is told.
async fn while_it_hangs(place: &Fixture, lives: &str) -> Result<()> {
    // Running sandboxes and stored records need no engine.
    ensure!(place.caller.prints(lives, "echo alive").await? == "alive\n");
    place.caller.get("/v1/sandboxes").await?.expect::<Value>(200)?;
    tests::host::all_events(&place.caller).await?;
    until_it_is(place, false).await?;
    for reply in [
        place.caller.get("/readyz").await?,
        place.caller.post("/v1/sandboxes", &json!({"name": "late"})).await?,
    ] {
        ensure!(reply.status == 503, "{}", reply.text());
        let error = reply.error()?;
        ensure!(error.code == ApiErrorCode::DriverUnavailable && error.retryable, "{error:?}");
    }
    let stale: Value = place.caller.get("/v1/host/stale").await?.expect(200)?;
    ensure!(stale["unasked"][0]["driver"] == place.column.driver(), "{stale}");
    ensure!(place.caller.prints(lives, "echo alive").await? == "alive\n");
    Ok(())
}

pub async fn killed_meanwhile(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    let engine = engine(&column)?;
    place.caller.prints(&id, "echo kept > file").await?;
    let init = place.init(&id)?;
    engine.freeze()?;
    let seen = async {
        place.hostd.kill_init(&id)?;
        gone(&init).await?;
        until_it_is(&place, false).await?;
        place.caller.sandbox(&id).await
    };
    let seen = seen.await;
    engine.thaw()?;
    ensure!(seen?["post_mortem"].is_null(), "a cause is reported that cannot be known");
    // A sandbox that died during an outage of Docker may have died with it; Podman's do not.
    let told = |view: &Value| view["phase"].is_null() && view["post_mortem"].is_object();
    let view = place.caller.until(&format!("/v1/sandboxes/{id}"), told).await?;
    let ended = [("error", "killed"), ("stopped", "backend")];
    let fits =
        |(status, cause): &(&str, &str)| view["status"] == *status && view["post_mortem"]["cause"] == *cause;
    ensure!(ended.iter().any(fits), "{view}");
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n");
    passed()
}

pub async fn slow(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let place = Fixture::new(&column).await?;
    let engine = engine(&column)?;
    let work = async {
        let id = place.caller.create(&json!({})).await?;
        place.brings(&id, "stop", "stopped").await?;
        place.brings(&id, "start", "running").await?;
        ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
        place.destroy(&id).await
    };
    // The engine runs a tenth of the time.
    let dragging = async {
        loop {
            engine.freeze()?;
            sleep(Duration::from_millis(450)).await;
            engine.thaw()?;
            sleep(Duration::from_millis(50)).await;
        }
    };
    let done: Result<()> = tokio::select! {
        // Dropping the other leaves the engine frozen at worst; it is thawed below.
        done = work => done,
        never = dragging => never,
    };
    engine.thaw()?;
    done?;
    place.holds(&[], &[])?;
    passed()
}

fn die_and_come_back(engine: &Engine) -> Result<()> {
    block_in_place(|| {
        engine.kill()?;
        engine.again()
    })
}

pub async fn engine_killed(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let place = Fixture::new(&column).await?;
    let engine = engine(&column)?;
    for moment in MOMENTS_MS {
        let name = format!("cut-{moment}");
        let mut verbs = Verbs::begin(&place, &name).await?;
        sleep(Duration::from_millis(moment)).await;
        die_and_come_back(engine)?;
        typed(&verbs.answered().await)?;
        until_it_is(&place, true).await?;
        verbs.settle(&place, &name).await.with_context(|| format!("killed after {moment} ms"))?;
        place.holds(&[], &[])?;
    }
    passed()
}

pub async fn away_at_start(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (mut place, id) = Fixture::one(&column).await?;
    let engine = engine(&column)?;
    place.caller.prints(&id, "echo kept > file").await?;
    block_in_place(|| engine.kill())?;
    place.hostd.crash().await.context("it does not start without the engine")?;
    place.caller = place.hostd.local();
    until_it_is(&place, false).await?;
    let reply = place.caller.post("/v1/sandboxes?wait=1s", &json!({})).await?;
    ensure!(reply.status == 202 || reply.status == 201 || reply.error()?.retryable, "{}", reply.text());
    place.caller.sandbox(&id).await?;
    block_in_place(|| engine.again())?;
    until_it_is(&place, true).await?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n");
    passed()
}

pub async fn away(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    let engine = engine(&column)?;
    let init = place.init(&id)?;
    engine.freeze()?;
    let gone = async {
        // By its pid alone: dialled, used and, when it is asked for, ended.
        ensure!(place.caller.prints(&id, "echo alive > file; cat file").await? == "alive\n");
        let reply = place.caller.post("/v1/sandboxes?wait=1s", &json!({"name": "late"})).await?;
        ensure!(reply.status < 300 || reply.error()?.retryable, "{}", reply.text());
        let ready = place.caller.get("/readyz").await?;
        ensure!(ready.status == 200 || ready.status == 503, "{}", ready.text());
        tests::host::all_events(&place.caller).await?;
        anyhow::Ok(())
    };
    let gone = gone.await;
    engine.thaw()?;
    gone?;
    until_it_is(&place, true).await?;
    ensure!(!init.is_gone() && place.caller.prints(&id, "cat file").await? == "alive\n");
    passed()
}
