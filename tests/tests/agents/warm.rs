//! Agents that are started before there is a task for them.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use protocol::{ErrorCode, Exit, FailureReason, Reason, Stream, TaskFact, TaskStatus, WarmView};
use serde_json::{Value, json};
use std::time::Duration;
use tests::Sandbox;
use tests::acp::{agent, heard_once, logs, methods, task, words};
use tests::output::{Followed, of_task};
use tests::sandbox::PATIENCE;
use tests::shell::shell;
use tests::tasks::{TaskStream, cancel, run, story, submit};

const LONG_MS: u64 = 600_000;

fn warm(agent: &Value, keep_ms: u64) -> Value {
    json!({"agent": agent, "env": {"WHOSE": "warm"}, "keep_ms": keep_ms})
}

async fn put(sandbox: &Sandbox, name: &str, request: &Value) -> Result<WarmView> {
    let answer = sandbox.client().put(&format!("/v1/warm/{name}"), request).await?;
    ensure!(answer.status == 200, "{}", answer.text());
    answer.json()
}

async fn until_ready(sandbox: &Sandbox, name: &str) -> Result<()> {
    let ready = async {
        while !sandbox.client().get(&format!("/v1/warm/{name}")).await?.json::<WarmView>()?.ready {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, ready).await.context("it never is ready")?
}

async fn until_unknown(sandbox: &Sandbox, name: &str) -> Result<()> {
    let unknown = async {
        while sandbox.client().get(&format!("/v1/warm/{name}")).await?.status != 404 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, unknown).await.context("it never ends")?
}

async fn until_gone(sandbox: &Sandbox) -> Result<()> {
    let gone = async {
        while !shell(sandbox.client(), "pgrep -fa acp.py | grep -v pgrep || true").await?.trim().is_empty() {}
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, gone).await.context("it is still there")?
}

#[tokio::test]
async fn a_task_uses_the_agent_that_was_started_for_it() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({"mode": "yolo"}))?;
    let view = put(&sandbox, "w", &warm(&fake, LONG_MS)).await?;
    ensure!((view.name.as_str(), view.agent.as_str()) == ("w", "fake"), "{view:?}");
    put(&sandbox, "w", &warm(&fake, LONG_MS)).await?;
    until_ready(&sandbox, "w").await?;
    ensure!(
        methods(&sandbox)? == ["initialize", "session/new", "session/set_mode"],
        "asked for twice, started once"
    );
    let reasons = client.status().await?.activity.reasons;
    let awake = reasons.iter().any(|reason| !matches!(reason, Reason::Cpu { .. }));
    ensure!(!awake, "one that waits is no reason to stay awake: {reasons:?}");
    let told = agent(
        &sandbox,
        &[],
        json!({"mode": "yolo", "briefing": "hello", "permissions": {"default": "deny"}}),
    )?;
    let steps =
        json!([["env", "WHOSE"], ["permission", {"toolCallId": "c", "title": "x"}], ["print", "late"]]);
    let result =
        run(client, task("t1", &told, &steps, json!({"warm": "w", "env": {"WHOSE": "task"}}))).await?;
    ensure!(
        result.status == TaskStatus::Succeeded && result.exit == Some(Exit::Exited { code: 0 }),
        "{result:?}"
    );
    let events = story(client, "t1").await?;
    let said = words(&events);
    ensure!(said.starts_with("WHOSE=warm\n") && said.contains(r#""optionId": "no""#), "{said}");
    ensure!(logs(&events, Stream::Stderr).is_empty(), "{events:?}");
    let kept = of_task(client, "t1", "", Followed::default()).await?;
    ensure!(kept.stderr == b"late\n", "{kept:?}");
    ensure!(kept.stdout.starts_with(br#"{"jsonrpc": "2.0", "id": 1, "result""#), "from its start: {kept:?}");
    ensure!(events.iter().any(|event| matches!(event.fact, TaskFact::Model(_))), "told before the task");
    ensure!(heard_once(&sandbox, "session/prompt")?["prompt"][0]["text"] == "hello");
    ensure!(client.get("/v1/warm/w").await?.code()? == ErrorCode::NotFound, "it is the task's now");
    let again = run(
        client,
        task("t2", &told, &json!([["env", "WHOSE"]]), json!({"warm": "w", "env": {"WHOSE": "task"}})),
    )
    .await?;
    ensure!(again.status == TaskStatus::Succeeded && again.session != result.session, "{again:?}");
    let events = story(client, "t2").await?;
    ensure!(words(&events) == "WHOSE=task\n", "{events:?}");
    let said = logs(&events, Stream::Stderr);
    ensure!(said.iter().any(|line| line.contains("starting one now")), "{said:?}");
    sandbox.stop().await
}

#[tokio::test]
async fn one_that_is_on_its_way_is_used_and_another_one_is_not() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let late = agent(&sandbox, &["late"], json!({}))?;
    put(&sandbox, "w", &warm(&late, LONG_MS)).await?;
    let steps = json!([["env", "WHOSE"]]);
    submit(client, task("early", &late, &steps, json!({"warm": "w"}))).await?;
    let mut stream = TaskStream::open(client, "early", 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Status { checkpoint: Some(_), .. })).await?;
    std::fs::write(sandbox.home().join("go"), "")?;
    let events = loop {
        let event = stream.next().await?.context("the stream ended")?;
        if let TaskFact::Done { result, .. } = event.fact {
            ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
            break story(client, "early").await?;
        }
    };
    ensure!(words(&events) == "WHOSE=warm\n", "{events:?}");
    for (id, fields) in [("cwd", json!({"warm": "w", "cwd": "/tmp"})), ("name", json!({"warm": "v"}))] {
        put(&sandbox, "w", &warm(&late, LONG_MS)).await?;
        run(client, task(id, &late, &steps, fields)).await?;
        ensure!(words(&story(client, id).await?) == "WHOSE=\n", "{id}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn it_knows_the_way_out_by_a_name_of_its_own() -> Result<()> {
    let sandbox = Sandbox::start_with(&["RUNTIMED_EGRESS=proxy"]).await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    put(&sandbox, "w", &warm(&fake, LONG_MS)).await?;
    for (id, by) in [("adopts", "warm.w"), ("cold", "task.cold")] {
        run(client, task(id, &fake, &json!([["env", "HTTPS_PROXY"]]), json!({"warm": "w"}))).await?;
        let said = words(&story(client, id).await?);
        ensure!(said == format!("HTTPS_PROXY=http://{by}:x@127.0.0.1:900\n"), "{id}: {said}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn it_ends_by_itself_by_wish_and_for_another_one() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &["stays"], json!({}))?;
    put(&sandbox, "short", &warm(&fake, 300)).await?;
    until_unknown(&sandbox, "short").await?;
    until_gone(&sandbox).await?;
    put(&sandbox, "one", &warm(&fake, LONG_MS)).await?;
    until_ready(&sandbox, "one").await?;
    put(&sandbox, "two", &warm(&fake, LONG_MS)).await?;
    ensure!(client.get("/v1/warm/one").await?.status == 404, "there is one at most");
    until_ready(&sandbox, "two").await?;
    let gone = client.send(Method::DELETE, "/v1/warm/two", bytes::Bytes::new()).await?;
    ensure!(gone.status == 204, "{}", gone.text());
    until_gone(&sandbox).await?;
    ensure!(client.send(Method::DELETE, "/v1/warm/two", bytes::Bytes::new()).await?.status == 404);
    let command = json!({"kind": "command", "argv": ["true"]});
    let refused = client.put("/v1/warm/c", &warm(&command, LONG_MS)).await?;
    ensure!(refused.status == 400, "{}", refused.text());
    // The sandbox does not wait for it.
    put(&sandbox, "last", &warm(&fake, LONG_MS)).await?;
    until_ready(&sandbox, "last").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn one_that_was_taken_over_is_stopped_and_timed_like_any_other() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({}))?;
    put(&sandbox, "w", &warm(&fake, LONG_MS)).await?;
    until_ready(&sandbox, "w").await?;
    let fields = json!({"warm": "w", "idle_timeout_ms": 500});
    let result = run(client, task("silent", &fake, &json!([["hang"]]), fields)).await?;
    ensure!(result.failure_reason == Some(FailureReason::IdleTimedOut), "{result:?}");
    put(&sandbox, "w", &warm(&fake, LONG_MS)).await?;
    let steps = json!([["spawn", ["sleep", "54321"]], ["say", "hanging\n"], ["hang"]]);
    submit(client, task("cancelled", &fake, &steps, json!({"warm": "w"}))).await?;
    let mut stream = TaskStream::open(client, "cancelled", 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Message(_))).await?;
    let result = cancel(client, "cancelled", 5000).await?;
    ensure!(result.status == TaskStatus::Cancelled, "{result:?}");
    let left = shell(client, "pgrep -fa 'sleep 5432[1]' || true").await?;
    ensure!(left.trim().is_empty(), "{left}");
    until_gone(&sandbox).await?;
    sandbox.stop().await
}
