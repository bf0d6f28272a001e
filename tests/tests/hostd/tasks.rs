//! Tasks through hostd: what their callers see from the submit to the end, whatever the sandbox does.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::future::try_join_all;
use http_body_util::Full;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::{Caller, Hostd, Job, TaskFeed, complete, messages, scaled, shell};

async fn hostd_and_sandbox() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    Ok((hostd, caller, sandbox))
}

#[tokio::test]
async fn a_task_is_told_from_its_beginning_to_its_end() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let line = "echo working on: $SLIPWAY_PROMPT; cat > heard.txt; echo done";
    let job = caller.submit(&sandbox, &shell(line)).await?;
    let events = caller.events_of(&job).await?;
    ensure!(events.iter().all(|event| event.sandbox.as_str() == sandbox && event.task.as_str() == job.id));
    let phases: Vec<&str> = events.iter().filter_map(|event| event.fact.get("phase")?.as_str()).collect();
    ensure!(phases == ["queued", "preparing", "checkpoint", "agent", "build", "health"], "{phases:?}");
    ensure!(messages(&events) == ["working on: do it", "done"], "{events:?}");
    let result = &events.last().context("done")?.fact["result"];
    ensure!(
        result["status"] == "succeeded" && result["exit"] == json!({"kind": "exited", "code": 0}),
        "{result}"
    );
    let changed = &result["files_changed"];
    ensure!(changed["added"] == 1 && changed["files"][0]["path"]["data"] == "heard.txt", "{result}");
    let task: Value = caller.get(&job.path()).await?.expect(200)?;
    ensure!(task["status"] == "succeeded" && task["phase"] == "done" && task["prompt"] == "do it", "{task}");
    ensure!(task["result"] == *result, "{task}");
    ensure!(task["started_at"].is_string() && task["ended_at"].is_string(), "{task}");
    Ok(())
}

#[tokio::test]
async fn who_comes_back_gets_the_rest_and_who_has_all_is_told_to_stop() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let job = caller.submit(&sandbox, &shell("for i in 1 2 3 4 5; do echo $i; done")).await?;
    let events = caller.events_of(&job).await?;
    for (at, event) in events.iter().enumerate() {
        let feed = TaskFeed::open(&caller, &job, event.seq).await?;
        let rest = &events[at + 1..];
        match feed {
            Some(mut feed) => {
                feed.rest().await?;
                ensure!(!rest.is_empty() && feed.events == rest, "after {}", event.seq);
            }
            None => ensure!(rest.is_empty(), "204 too early, after {}", event.seq),
        }
        let path = format!("{}?since={}&follow=0", job.events(), event.seq);
        let page: Value = caller.get(&path).await?.expect(200)?;
        ensure!(page["items"] == serde_json::to_value(rest)?, "{path}: {page}");
    }
    let done = events.last().context("done")?.seq;
    ensure!(TaskFeed::open(&caller, &job, done + 1_000).await?.is_none(), "beyond the end there is nothing");
    let chosen: Value =
        caller.get(&format!("{}?follow=0&kind=message,done", job.events())).await?.expect(200)?;
    ensure!(chosen["items"].as_array().map(Vec::len) == Some(6), "{chosen}");
    Ok(())
}

#[tokio::test]
async fn a_sleeping_sandbox_is_woken_each_time() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    for round in 0..scaled(4, 100) {
        let verb = if round % 2 == 0 { "stop" } else { "pause" };
        caller.post(&format!("/v1/sandboxes/{sandbox}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        let job = caller.submit(&sandbox, &shell("echo awake")).await?;
        let result = caller.result_of(&job).await?;
        ensure!(result["status"] == "succeeded", "after {verb}: {result}");
    }
    // Submitted while it is on its way down.
    for _ in 0..scaled(4, 100) {
        let path = format!("/v1/sandboxes/{sandbox}/stop?wait=0");
        caller.post(&path, &json!({})).await?.expect::<Value>(202)?;
        let job = caller.submit(&sandbox, &shell("echo awake")).await?;
        let result = caller.result_of(&job).await?;
        ensure!(result["status"] == "succeeded", "during stop: {result}");
    }
    Ok(())
}

#[tokio::test]
async fn tasks_run_one_after_the_other_and_the_same_id_once() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let line = "mkdir lock && echo alone; sleep 0.1; rmdir lock";
    let jobs = try_join_all((0..5).map(|_| async { caller.submit(&sandbox, &shell(line)).await })).await?;
    for job in &jobs {
        let events = caller.events_of(job).await?;
        ensure!(messages(&events) == ["alone"], "{events:?}");
    }
    let named = json!({"id": "mine", "prompt": "x", "command": ["sh", "-c", "echo ran >> ../ran"]});
    let twice = try_join_all((0..4).map(|_| async { caller.submit(&sandbox, &named).await })).await?;
    for job in &twice {
        ensure!(job.id == "mine" && caller.result_of(job).await?["status"] == "succeeded");
    }
    ensure!(caller.prints(&sandbox, "cat ../ran").await? == "ran\n");
    let other = json!({"id": "mine", "prompt": "y", "command": ["true"]});
    let reply = caller.post(&format!("/v1/sandboxes/{sandbox}/tasks"), &other).await?;
    ensure!(reply.status == 409 && reply.code()? == ApiErrorCode::Conflict, "{}", reply.text());
    let list: Value = caller.get(&format!("/v1/sandboxes/{sandbox}/tasks?limit=4")).await?.expect(200)?;
    ensure!(list["items"].as_array().map(Vec::len) == Some(4) && list["items"][0]["id"] == "mine", "{list}");
    ensure!(list["items"][0].get("result").is_none(), "a list is short");
    let next = list["next"].as_str().context("there is more")?;
    let rest: Value =
        caller.get(&format!("/v1/sandboxes/{sandbox}/tasks?after={next}")).await?.expect(200)?;
    ensure!(rest["items"].as_array().map(Vec::len) == Some(2) && rest.get("next").is_none(), "{rest}");
    Ok(())
}

#[tokio::test]
async fn a_repeated_key_is_one_task() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let path = format!("/v1/sandboxes/{sandbox}/tasks");
    let send = async || {
        let body = Bytes::from(serde_json::to_vec(&shell("echo once"))?);
        let request = Request::post(&path).header("idempotency-key", "k1").body(Full::new(body))?;
        caller.call(request).await?.expect::<Value>(202)
    };
    let (first, second) = (send().await?, send().await?);
    ensure!(first["id"] == second["id"], "{first} {second}");
    let list: Value = caller.get(&path).await?.expect(200)?;
    ensure!(list["items"].as_array().map(Vec::len) == Some(1), "{list}");
    Ok(())
}

#[tokio::test]
async fn a_task_is_cancelled_in_whatever_phase() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let cancel = async |job: &Job| caller.post(&format!("{}/cancel", job.path()), &json!({})).await;
    let stubborn =
        "trap '' TERM; setsid sh -c \"trap '' TERM; sleep 1000\" & echo on; sleep 1000 & wait; wait";
    let first = caller.submit(&sandbox, &shell(stubborn)).await?;
    caller.reaches(&first, "agent").await?;
    let queued = caller.submit(&sandbox, &shell("echo never")).await?;
    cancel(&queued).await?.expect::<Value>(202).or_else(|_| Ok::<_, anyhow::Error>(Value::Null))?;
    let events = caller.events_of(&queued).await?;
    ensure!(messages(&events).is_empty(), "it ran: {events:?}");
    ensure!(events.last().context("done")?.fact["result"]["status"] == "cancelled", "{events:?}");
    cancel(&first).await?.expect::<Value>(202)?;
    let result = caller.result_of(&first).await?;
    ensure!(result["status"] == "cancelled" && result["failure_reason"] == "cancelled", "{result}");
    ensure!(caller.shell(&sandbox, "pgrep -x sleep").await?["exit"]["code"] != 0, "its tree lives on");
    let building = json!({"prompt": "x", "command": ["true"], "build": "sleep 1000"});
    let building = caller.submit(&sandbox, &building).await?;
    caller.reaches(&building, "build").await?;
    cancel(&building).await?.expect::<Value>(202)?;
    ensure!(caller.result_of(&building).await?["status"] == "cancelled");
    let ended: Value = cancel(&building).await?.expect(200)?;
    ensure!(ended["status"] == "cancelled" && ended.get("cancelling").is_none(), "{ended}");
    Ok(())
}

#[tokio::test]
async fn a_paused_sandbox_is_thawed_to_cancel_its_task() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let job = caller.submit(&sandbox, &shell("echo on; sleep 1000")).await?;
    let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    caller.post(&format!("/v1/sandboxes/{sandbox}/pause"), &json!({})).await?.expect::<Value>(200)?;
    caller.post(&format!("{}/cancel", job.path()), &json!({})).await?.expect::<Value>(202)?;
    feed.rest().await?;
    complete(&feed.events)?;
    ensure!(feed.events.last().context("done")?.fact["result"]["status"] == "cancelled");
    Ok(())
}

#[tokio::test]
async fn the_end_of_its_sandbox_is_the_end_of_a_task_and_nothing_is_lost() -> Result<()> {
    let (hostd, caller, _) = hostd_and_sandbox().await?;
    let line = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; echo all; sleep 1000";
    for how in ["kill", "stop", "destroy", "recreate"] {
        let sandbox = caller.create(&json!({})).await?;
        let job = caller.submit(&sandbox, &shell(line)).await?;
        let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
        feed.until(|event| event.fact.get("text").is_some_and(|text| text == "line 5")).await?;
        let waiting = caller.submit(&sandbox, &shell("echo next")).await?;
        match how {
            "kill" => hostd.kill_init(&sandbox)?,
            "destroy" => {
                caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
            }
            verb => {
                let path = format!("/v1/sandboxes/{sandbox}/{verb}");
                caller.post(&path, &json!({})).await?.expect::<Value>(200)?;
            }
        }
        feed.rest().await?;
        complete(&feed.events).context(how)?;
        let result = &feed.events.last().context("done")?.fact["result"];
        ensure!(result["status"] == "failed" && result["failure_reason"] == "lost", "{how}: {result}");
        // Its messages are there without a gap, as far as they came.
        let said = messages(&feed.events);
        ensure!(said.iter().zip(0..2000).all(|(text, i)| *text == format!("line {i}")), "{how}: {said:?}");
        complete(&caller.events_of(&waiting).await?).context(how)?;
        if how != "destroy" {
            caller.post(&format!("/v1/sandboxes/{sandbox}/start"), &json!({})).await?.expect::<Value>(200)?;
            ensure!(
                caller.result_of(&caller.submit(&sandbox, &shell("true")).await?).await?["status"]
                    == "succeeded"
            );
        }
        ensure!(caller.events_of(&job).await? == feed.events, "{how}: it is told as before");
    }
    Ok(())
}

#[tokio::test]
async fn a_caller_that_hangs_up_changes_nothing() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    for number in 0..scaled(10, 200) {
        let id = format!("t{number}");
        let body = json!({"id": id, "prompt": "x", "command": ["sh", "-c", "echo ran"]});
        let path = format!("/v1/sandboxes/{sandbox}/tasks");
        let request = Request::post(&path).body(Full::new(Bytes::from(serde_json::to_vec(&body)?)))?;
        // Dropped at once, somewhere on the way.
        let _ =
            tokio::time::timeout(std::time::Duration::from_micros(300 * number as u64), caller.open(request))
                .await;
        let reply = caller.get(&format!("{path}/{id}")).await?;
        if reply.status == 200 {
            let events = caller.events_of(&Job { sandbox: sandbox.clone(), id }).await?;
            ensure!(messages(&events) == ["ran"], "{events:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_name() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let path = format!("/v1/sandboxes/{sandbox}/tasks");
    let table = [
        // The default agent needs a model.
        (json!({"prompt": "x"}), 422, "model"),
        (json!({"prompt": "x", "agent": "unknown"}), 422, "agent"),
        (json!({"prompt": "x", "command": []}), 400, "command"),
        (json!({"prompt": "x", "command": "ls"}), 400, "command"),
        (json!({"prompt": "x", "command": ["a"], "modell": "m"}), 400, "modell"),
        (json!({"prompt": "x", "command": ["a"], "timeout_s": 0}), 400, "timeout_s"),
        (json!({"prompt": "x", "command": ["a"], "id": "../x"}), 400, "id"),
        (json!({"prompt": "x".repeat(200_000), "command": ["a"]}), 413, "prompt"),
    ];
    for (body, status, field) in table {
        let reply = caller.post(&path, &body).await?;
        let error = reply.error()?;
        ensure!(reply.status == status && error.detail.field.as_deref() == Some(field), "{}", reply.text());
    }
    for missing in ["nothing", "..%2f..", "%00"] {
        let reply = caller.get(&format!("{path}/{missing}")).await?;
        ensure!(reply.status == 404, "{missing}: {}", reply.text());
    }
    let reply = caller.get(&format!("{path}/x/events?since=abc")).await?;
    ensure!(reply.status == 404 || reply.status == 400, "{}", reply.text());
    caller.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
    let reply = caller.post(&path, &shell("true")).await?;
    ensure!(reply.status == 410, "{}", reply.text());
    Ok(())
}

#[tokio::test]
async fn who_reads_slowly_or_never_hurts_nobody() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let lines = scaled(30_000, 1_000_000);
    let line = format!(
        "sleep 0.5; i=0; while [ $i -lt {lines} ]; do echo a line of some length $i; i=$((i+1)); done"
    );
    let job = caller.submit(&sandbox, &shell(&line)).await?;
    let mut never = Vec::new();
    for _ in 0..8 {
        never.push(TaskFeed::open(&caller, &job, 0).await?.context("a stream")?);
    }
    let fast = try_join_all((0..3).map(|_| caller.events_of(&job))).await?;
    ensure!(fast.iter().all(|events| *events == fast[0]), "all see the same");
    ensure!(messages(&fast[0]).len() == lines, "{}", messages(&fast[0]).len());
    let mut slow = never.pop().context("one of them")?;
    slow.rest().await?;
    ensure!(slow.events == fast[0], "the slow one too");
    Ok(())
}
