//! Changes made to a sandbox by another program: detected, recorded with a reason, handled.

use super::driver_column::{Column, Outcome, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Result, ensure};
use nix::sys::signal::{Signal, kill};
use protocol::api::ProblemCode;
use serde_json::{Value, json};
use std::sync::Arc;
use tests::host::until;
use tests::processes::gone;

#[derive(Clone, Copy)]
enum Meddling {
    Stop,
    Kill,
}

/// With the engine's own program; where there is no engine, as an administrator could.
fn meddle(place: &Fixture, id: &str, how: Meddling) -> Result<()> {
    if place.column.engine().is_some() {
        let verb = match how {
            Meddling::Stop => "stop",
            Meddling::Kill => "kill",
        };
        return place.told(&[verb, &place.container(id)?]).map(drop);
    }
    let init = place.hostd.init(id)?;
    match how {
        Meddling::Stop => Ok(kill(init, Signal::SIGTERM)?),
        Meddling::Kill => Ok(kill(init, Signal::SIGKILL)?),
    }
}

pub async fn stopped(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    place.caller.prints(&id, "echo kept > file").await?;
    meddle(&place, &id, Meddling::Stop)?;
    let view = place.caller.becomes(&id, "stopped").await?;
    ensure!(view["post_mortem"]["cause"] == "shut_down", "{view}");
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n", "it is not woken");
    passed()
}

pub async fn killed(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let job = place.caller.submit(&id, &json!({"prompt": "x", "command": ["sleep", "100000"]})).await?;
    place.caller.reaches(&job, "agent").await?;
    meddle(&place, &id, Meddling::Kill)?;
    let view = place.caller.becomes(&id, "error").await?;
    let mortem = &view["post_mortem"];
    // Without an engine there is no parent that waits for PID 1, so the driver reports an unknown cause.
    let cause = if column.engine().is_some() { "killed" } else { "unknown" };
    ensure!([cause, "killed"].iter().any(|told| mortem["cause"] == *told), "{view}");
    ensure!(mortem["task"] == job.id.as_str(), "{view}");
    ensure!(mortem["message"].as_str().is_some_and(|text| !text.is_empty()), "{mortem}");
    if column.engine().is_some() {
        ensure!(mortem["exit_code"] == 137 || mortem["signal"] == 9, "{mortem}");
    }
    let result = place.caller.result_of(&job).await?;
    ensure!(result["failure_reason"] == "lost", "{result}");
    let told = place.event(&id, |event| event["kind"] == "sandbox.error").await?;
    ensure!(told["data"]["post_mortem"] == *mortem, "{told}");
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    passed()
}

pub async fn always_on(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"idle_policy": "always_on"})).await?;
    for (attempt, how) in [(2, Meddling::Kill), (3, Meddling::Stop)] {
        let init = place.init(&id)?;
        meddle(&place, &id, how)?;
        let up = |view: &Value| view["status"] == "running" && view["attempt"].as_u64() >= Some(attempt);
        place.caller.until(&format!("/v1/sandboxes/{id}"), up).await?;
        gone(&init).await?;
        ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    }
    passed()
}

pub async fn paused(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    let init = place.init(&id)?;
    place.told(&["pause", &place.container(&id)?])?;
    place.event(&id, |event| event["kind"] == "sandbox.drift").await?;
    until("it is thawed", async || Ok((!place.is_frozen(&id)?).then_some(()))).await?;
    ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    ensure!(!init.is_gone() && place.caller.sandbox(&id).await?["attempt"] == 1);
    passed()
}

pub async fn removed(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    let always = place.caller.create(&json!({"idle_policy": "always_on"})).await?;
    for id in [&id, &always] {
        place.caller.prints(id, "echo kept > file").await?;
        place.told(&["rm", "--force", &place.container(id)?])?;
    }
    let view = place.caller.becomes(&id, "error").await?;
    ensure!(view["post_mortem"]["cause"] == "removed", "{view}");
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n");
    let up = |view: &Value| view["status"] == "running" && view["attempt"].as_u64() >= Some(2);
    place.caller.until(&format!("/v1/sandboxes/{always}"), up).await?;
    ensure!(place.caller.prints(&always, "cat file").await? == "kept\n");
    place.brings(&id, "stop", "stopped").await?;
    place.told(&["rm", "--force", &place.container(&id)?])?;
    ensure!(place.caller.prints(&id, "cat file").await? == "kept\n", "removed while it was stopped");
    passed()
}

pub async fn removed_meanwhile(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (mut place, id) = Fixture::one(&column).await?;
    let asleep = place.caller.create(&json!({})).await?;
    for id in [&id, &asleep] {
        place.caller.prints(id, "echo kept > file").await?;
    }
    place.brings(&asleep, "stop", "stopped").await?;
    let containers = [place.container(&id)?, place.container(&asleep)?];
    place.hostd.kill().await?;
    for container in &containers {
        place.told(&["rm", "--force", container])?;
    }
    place.crash().await?;
    let view = place.caller.becomes(&id, "error").await?;
    ensure!(view["post_mortem"]["cause"] == "removed", "{view}");
    ensure!(place.caller.sandbox(&asleep).await?["status"] == "stopped", "nothing happened to it");
    place.brings(&id, "start", "running").await?;
    for id in [&id, &asleep] {
        ensure!(place.caller.prints(id, "cat file").await? == "kept\n");
    }
    passed()
}

pub async fn started(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    place.brings(&id, "stop", "stopped").await?;
    let container = place.container(&id)?;
    place.told(&["start", &container])?;
    until("it is stopped again", async || {
        let running = place.told(&["inspect", "--format", "{{.State.Running}}", &container])?;
        Ok((running == "false").then_some(()))
    })
    .await?;
    place.caller.becomes(&id, "stopped").await?;
    place.event(&id, |event| event["kind"] == "sandbox.drift").await?;
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    passed()
}

pub async fn outlives(column: Arc<Column>) -> Verdict {
    let (mut place, id) = Fixture::one(&column).await?;
    meddle(&place, &id, Meddling::Kill)?;
    let before = place.caller.becomes(&id, "error").await?["post_mortem"].clone();
    ensure!(before.is_object(), "{before}");
    place.brings(&id, "start", "running").await?;
    ensure!(place.caller.sandbox(&id).await?["post_mortem"] == before, "a start forgets it");
    place.destroy(&id).await?;
    place.crash().await?;
    let view = place.caller.sandbox(&id).await?;
    ensure!(view["status"] == "destroyed" && view["post_mortem"] == before, "{view}");
    passed()
}

pub async fn name_taken(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (place, id) = Fixture::one(&column).await?;
    let container = place.container(&id)?;
    place.brings(&id, "stop", "stopped").await?;
    let image = place.told(&["inspect", "--format", "{{.Image}}", &container])?;
    place.told(&["rm", "--force", &container])?;
    place.told(&["create", "--name", &container, &image, "/bin/true"])?;
    let theirs = place.told(&["inspect", "--format", "{{.Id}}", &container])?;
    let reply = place.caller.post(&format!("/v1/sandboxes/{id}/start"), &json!({})).await?;
    let code = reply.error()?.detail.problem.map(|problem| problem.code);
    ensure!(code == Some(ProblemCode::NameTaken), "{}", reply.text());
    place.destroy(&id).await?;
    ensure!(place.told(&["inspect", "--format", "{{.Id}}", &container])? == theirs, "it was touched");
    place.told(&["rm", "--force", &container])?;
    passed()
}
