//! Permission requests of an agent: decided by rule, by a client, or withdrawn.

use anyhow::{Context, Result, ensure};
use protocol::{ErrorCode, Exit, Permission, PermissionState, Stream, TaskFact, TaskStatus};
use serde_json::{Value, json};
use std::time::Duration;
use tests::Sandbox;
use tests::acp::{agent, logs, task, words};
use tests::shell::shell;
use tests::tasks::{TaskStream, cancel, ended, run, story, submit};

fn permission(kind: &str, command: &str) -> Value {
    let call = json!({"toolCallId": "c", "title": "a tool", "kind": kind, "rawInput": {"command": command}});
    json!(["permission", call])
}

async fn permissions(sandbox: &Sandbox, id: &str) -> Result<Vec<Permission>> {
    let events = story(sandbox.client(), id).await?;
    let found = events.into_iter().filter_map(|event| match event.fact {
        TaskFact::Permission(permission) => Some(*permission),
        _ => None,
    });
    Ok(found.collect())
}

#[tokio::test]
async fn rules_decide_and_every_decision_is_told() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let rules = json!([
        {"tool": "execute", "about": "rm *", "then": "deny"},
        {"tool": "execute", "then": "allow"},
    ]);
    let fake = agent(&sandbox, &[], json!({"permissions": {"default": "deny", "rules": rules}}))?;
    let steps =
        json!([permission("execute", "rm -rf /"), permission("execute", "make"), permission("fetch", "x")]);
    let result = run(client, task("ruled", &fake, &steps, json!({}))).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    let told = permissions(&sandbox, "ruled").await?;
    use PermissionState::{Allowed, Denied};
    let seen: Vec<_> =
        told.iter().map(|p| (p.id.as_str(), p.state, p.option.as_deref(), p.by.as_deref())).collect();
    let expected = [
        ("p1", Denied, Some("no"), Some("rule")),
        ("p2", Allowed, Some("yes"), Some("rule")),
        ("p3", Denied, Some("no"), Some("default")),
    ];
    ensure!(seen == expected, "{seen:?}");
    ensure!(told[0].about.input == Some(json!({"command": "rm -rf /"})), "{:?}", told[0]);
    let said = words(&story(client, "ruled").await?);
    ensure!(said.lines().filter(|line| line.contains(r#""optionId": "no""#)).count() == 2, "{said}");
    // Without a word on it everything is allowed: the sandbox is the bound.
    let fake = agent(&sandbox, &[], json!({}))?;
    run(client, task("free", &fake, &json!([permission("execute", "rm -rf /")]), json!({}))).await?;
    let told = permissions(&sandbox, "free").await?;
    ensure!(told.len() == 1 && told[0].state == Allowed, "{told:?}");
    sandbox.stop().await
}

/// Waits for a pending permission request.
async fn asked(sandbox: &Sandbox, id: &str) -> Result<Permission> {
    let mut stream = TaskStream::open(sandbox.client(), id, 0, true).await?;
    match stream.until(|fact| matches!(fact, TaskFact::Permission(_))).await?.fact {
        TaskFact::Permission(permission) => Ok(*permission),
        other => anyhow::bail!("{other:?}"),
    }
}

#[tokio::test]
async fn somebody_is_asked_and_silence_means_nothing_meanwhile() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({"permissions": {"default": "ask"}}))?;
    let steps =
        json!([permission("execute", "make"), permission("execute", "make install"), ["say", "so be it"]]);
    submit(client, task("asks", &fake, &steps, json!({"idle_timeout_ms": 4000}))).await?;
    let first = asked(&sandbox, "asks").await?;
    ensure!(
        (first.id.as_str(), first.state, first.options.len()) == ("p1", PermissionState::Asked, 3),
        "{first:?}"
    );
    // Longer than it may be silent otherwise.
    tokio::time::sleep(Duration::from_millis(5000)).await;
    let answer = |permission: &'static str, body: Value| async move {
        client.post(&format!("/v1/tasks/asks/permissions/{permission}"), &body).await
    };
    for (permission, body, code) in [
        ("p9", json!({"decision": "allow"}), ErrorCode::NotFound),
        ("p1", json!({"decision": "ask"}), ErrorCode::InvalidRequest),
        ("p1", json!({"decision": "allow", "option": "maybe"}), ErrorCode::InvalidRequest),
        ("p1", json!({"decision": "deny", "option": "always"}), ErrorCode::InvalidRequest),
    ] {
        let refused = answer(permission, body).await?;
        ensure!(refused.code()? == code, "{permission}: {}", refused.text());
    }
    let taken = answer("p1", json!({"decision": "allow", "option": "always"})).await?;
    ensure!(taken.status == 204, "{}", taken.text());
    ensure!(answer("p1", json!({"decision": "deny"})).await?.code()? == ErrorCode::NotRunning);
    let mut stream = TaskStream::open(client, "asks", 0, true).await?;
    stream.until(|fact| matches!(fact, TaskFact::Permission(p) if p.id == "p2")).await?;
    ensure!(answer("p2", json!({"decision": "deny"})).await?.status == 204);
    let result = ended(client, "asks").await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    let told = permissions(&sandbox, "asks").await?;
    use PermissionState::{Allowed, Asked, Denied};
    let seen: Vec<_> = told.iter().map(|p| (p.id.as_str(), p.state, p.option.as_deref())).collect();
    let expected = [
        ("p1", Asked, None),
        ("p1", Allowed, Some("always")),
        ("p2", Asked, None),
        ("p2", Denied, Some("no")),
    ];
    ensure!(seen == expected, "{seen:?}");
    ensure!(told[1].by.as_deref() == Some("caller"), "{told:?}");
    ensure!(answer("p2", json!({"decision": "allow"})).await?.code()? == ErrorCode::NotRunning);
    sandbox.stop().await
}

#[tokio::test]
async fn a_permission_that_nobody_decided_is_withdrawn_with_its_task() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({"permissions": {"default": "ask"}}))?;
    submit(client, task("t1", &fake, &json!([permission("execute", "make")]), json!({}))).await?;
    asked(&sandbox, "t1").await?;
    let result = cancel(client, "t1", 5000).await?;
    ensure!(result.status == TaskStatus::Cancelled, "{result:?}");
    let told = permissions(&sandbox, "t1").await?;
    ensure!(told.last().context("told")?.state == PermissionState::Withdrawn, "{told:?}");
    ensure!(words(&story(client, "t1").await?).contains(r#""outcome": "cancelled""#));
    sandbox.stop().await
}

#[tokio::test]
async fn a_permission_is_withdrawn_when_its_agent_dies() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let fake = agent(&sandbox, &[], json!({"permissions": {"default": "ask"}}))?;
    submit(client, task("t1", &fake, &json!([permission("execute", "make")]), json!({}))).await?;
    asked(&sandbox, "t1").await?;
    shell(client, "pkill -KILL -f '[a]cp.py'").await?;
    let result = ended(client, "t1").await?;
    ensure!(result.exit == Some(Exit::Signalled { signal: 9 }), "{result:?}");
    let told = permissions(&sandbox, "t1").await?;
    let states: Vec<_> = told.iter().map(|permission| (permission.id.as_str(), permission.state)).collect();
    use PermissionState::{Asked, Withdrawn};
    ensure!(states == [("p1", Asked), ("p1", Withdrawn)], "{states:?}");
    let said = logs(&story(client, "t1").await?, Stream::Stderr);
    ensure!(said.is_empty(), "the agent still gets messages: {said:?}");
    sandbox.stop().await
}
