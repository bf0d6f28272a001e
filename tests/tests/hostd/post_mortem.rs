//! Sandboxes that end while they should run: what is told of it, by whom, and for how long.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};
use tests::{Caller, Hostd, host::all_events, shell};

/// Returns hostd's own events of one sandbox, by kind.
async fn told(caller: &Caller, sandbox: &str, kind: &str) -> Result<Vec<Value>> {
    let events = all_events(caller).await?;
    Ok(events.into_iter().filter(|event| event["sandbox"] == sandbox && event["kind"] == kind).collect())
}

#[tokio::test]
async fn a_killed_sandbox_says_how_it_ended_wherever_somebody_asks() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let id = caller.create(&json!({"limits": {"memory_mb": 256}})).await?;
    let job = caller.submit(&id, &shell("echo at work; sleep 1000")).await?;
    caller.reaches(&job, "agent").await?;
    hostd.kill_init(&id)?;
    let view = caller.becomes(&id, "error").await?;
    let told_of = &view["post_mortem"];
    // Kernels before 6.15 do not report the exit of a process that is not a child.
    match told_of["cause"].as_str() {
        Some("killed") => ensure!(told_of["signal"] == 9, "{told_of}"),
        Some("unknown") => ensure!(told_of["signal"].is_null(), "{told_of}"),
        _ => anyhow::bail!("{told_of}"),
    }
    ensure!(told_of["task"] == job.id && told_of["memory_limit_bytes"] == 256 << 20, "{told_of}");
    ensure!(told_of["memory_peak_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{told_of}");
    let message = told_of["message"].as_str().context("a message")?;
    ensure!(message.contains(&format!("while task {} ran", job.id)), "{message}");

    // The task that was in it says why, not only that it was lost.
    let result = caller.result_of(&job).await?;
    ensure!(result["failure_reason"] == "lost", "{result}");
    let reason = result["message"].as_str().context("a message")?;
    ensure!(reason.starts_with("the sandbox ended under it: PID 1"), "{reason}");

    // So do the events, in this order, the attempt, and the command.
    let drift = told(&caller, &id, "sandbox.drift").await?;
    ensure!(drift.len() == 1, "{drift:?}");
    ensure!(
        drift[0]["data"] == json!({"expected": "running", "found": "died", "doing": "give_up"}),
        "{drift:?}"
    );
    let error = told(&caller, &id, "sandbox.error").await?;
    ensure!(error.len() == 1 && error[0]["data"]["post_mortem"] == *told_of, "{error:?}");
    ensure!(drift[0]["seq"].as_u64() < error[0]["seq"].as_u64(), "{drift:?} {error:?}");
    let attempts: Value = caller.get(&format!("/v1/sandboxes/{id}/attempts")).await?.expect(200)?;
    ensure!(attempts["items"][0]["post_mortem"] == *told_of, "{attempts}");
    let ran = hostd.ran(&["get", &id]).await?;
    ensure!(ran.out.contains(message) && ran.out.contains("memory peak"), "{ran:?}");

    // The post-mortem survives later operations.
    for verb in ["start", "stop"] {
        let view: Value =
            caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)?;
        ensure!(view["post_mortem"] == *told_of && view["problem"].is_null(), "{verb}: {view}");
    }
    let gone: Value = caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed" && gone["post_mortem"] == *told_of, "{gone}");
    ensure!(told(&caller, &id, "sandbox.drift").await?.len() == 1, "our own verbs are no drift");
    Ok(())
}

#[tokio::test]
async fn one_that_was_shut_down_sleeps_and_wakes_and_one_that_should_always_run_comes_back() -> Result<()> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let id = caller.create(&json!({})).await?;
    kill(hostd.init(&id)?, Signal::SIGTERM)?;
    let view = caller.becomes(&id, "stopped").await?;
    ensure!(view["post_mortem"]["cause"] == "shut_down" && view["problem"].is_null(), "{view}");
    let ended = told(&caller, &id, "sandbox.ended").await?;
    ensure!(ended.len() == 1 && ended[0]["data"]["post_mortem"] == view["post_mortem"], "{ended:?}");
    ensure!(caller.prints(&id, "echo awake").await? == "awake\n");

    let id = caller.create(&json!({"idle_policy": "always_on"})).await?;
    for (round, signal) in [Signal::SIGTERM, Signal::SIGKILL].into_iter().enumerate() {
        // hostd has seen it at rest by then: an end before that is none of its drifts.
        caller.prints(&id, "true").await?;
        kill(hostd.init(&id)?, signal)?;
        let again = |view: &Value| view["attempt"] == round + 2 && view["status"] == "running";
        caller.until(&format!("/v1/sandboxes/{id}"), again).await?;
    }
    let drift = told(&caller, &id, "sandbox.drift").await?;
    let found: Vec<&str> = drift.iter().filter_map(|event| event["data"]["found"].as_str()).collect();
    ensure!(found == ["ended", "died"], "{drift:?}");
    ensure!(drift.iter().all(|event| event["data"]["doing"] == "restart"), "{drift:?}");
    Ok(())
}
