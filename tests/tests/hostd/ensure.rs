//! Scopes and `ensure`: a single sandbox for one purpose.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Request;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::{Caller, Hostd, scaled};

const ENSURE: &str = "/v1/sandboxes/ensure";

fn scope(kind: &str, key: &str) -> Value {
    json!({"scope": {"kind": kind, "key": key}})
}

fn id_of(view: &Value) -> Result<String> {
    Ok(view["id"].as_str().with_context(|| view.to_string())?.to_owned())
}

/// The sandbox of a scope, which must be there and run afterwards; and whether it was made.
async fn ensured(caller: &Caller, body: &Value) -> Result<(String, bool)> {
    let reply = caller.post(ENSURE, body).await?;
    let created = reply.status == 201;
    let view: Value = reply.expect(if created { 201 } else { 200 })?;
    ensure!(view["created"] == created && view["status"] == "running", "{view}");
    Ok((id_of(&view)?, created))
}

#[tokio::test]
async fn a_scope_has_one_sandbox_and_a_second_create_is_told_which() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("conversation", "c1");
    let id = operator.create(&body).await?;
    let second = operator.post("/v1/sandboxes", &body).await?;
    let error = second.error()?;
    ensure!(second.status == 409 && error.code == ApiErrorCode::ScopeTaken, "{}", second.text());
    ensure!(error.detail.existing.context("which")?.as_str() == id, "{}", second.text());
    let calls = (0..8).map(|_| async {
        let reply = operator.post("/v1/sandboxes", &scope("custom", "race")).await?;
        anyhow::Ok(reply.status)
    });
    let mut statuses = futures_util::future::try_join_all(calls).await?;
    statuses.sort_unstable();
    ensure!(statuses == [201, 409, 409, 409, 409, 409, 409, 409], "{statuses:?}");
    Ok(())
}

#[tokio::test]
async fn ensure_makes_it_once_and_finds_it_afterwards() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("agent-run", "r1");
    let (id, created) = ensured(&operator, &body).await?;
    ensure!(created);
    ensure!(ensured(&operator, &body).await? == (id.clone(), false));
    ensure!(operator.prints(&id, "echo here").await? == "here\n");
    // Without a scope: the one of the user in the project.
    let (shared, created) = ensured(&operator, &json!({})).await?;
    ensure!(created && shared != id);
    ensure!(ensured(&operator, &json!({"scope": {"kind": "shared-project-user"}})).await? == (shared, false));
    Ok(())
}

#[tokio::test]
async fn many_ensures_at_once_make_one_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("conversation", "busy");
    let calls = (0..scaled(50, 200)).map(|_| ensured(&operator, &body));
    let answers = futures_util::future::try_join_all(calls).await?;
    let ids: BTreeSet<&String> = answers.iter().map(|(id, _)| id).collect();
    ensure!(ids.len() == 1, "{ids:?}");
    ensure!(answers.iter().filter(|(_, created)| *created).count() == 1, "more than one made it");
    let page: Value = operator.get("/v1/sandboxes?all=1").await?.expect(200)?;
    ensure!(page["items"].as_array().map(Vec::len) == Some(1), "{page}");
    ensure!(page["items"][0]["attempt"] == 1, "{page}");
    Ok(())
}

#[tokio::test]
async fn ensure_brings_back_what_died_with_its_files() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("conversation", "c");
    let (id, _) = ensured(&operator, &body).await?;
    operator.prints(&id, "echo kept > file").await?;
    hostd.kill_init(&id)?;
    // Whether hostd has seen the death or not.
    ensure!(ensured(&operator, &body).await? == (id.clone(), false));
    ensure!(operator.prints(&id, "cat file").await? == "kept\n");
    hostd.kill_init(&id)?;
    operator.becomes(&id, "error").await?;
    let calls = (0..10).map(|_| ensured(&operator, &body));
    for answer in futures_util::future::try_join_all(calls).await? {
        ensure!(answer == (id.clone(), false), "{answer:?}");
    }
    ensure!(operator.prints(&id, "cat file").await? == "kept\n");
    Ok(())
}

#[tokio::test]
async fn ensure_wakes_what_sleeps() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("agent-instance", "a");
    let (id, _) = ensured(&operator, &body).await?;
    for verb in ["stop", "pause"] {
        operator.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        ensure!(ensured(&operator, &body).await? == (id.clone(), false), "{verb}");
    }
    Ok(())
}

#[tokio::test]
async fn other_kinds_keys_projects_and_principals_are_other_sandboxes() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("a", "bob", "run").await?);
    let foreign = hostd.caller("b", "ann", "run").await?;
    let kinds = ["agent-run", "agent-instance", "conversation", "runtime-instance", "custom"];
    let mut bodies: Vec<(&Caller, Value)> = kinds.iter().map(|kind| (&ann, scope(kind, "k"))).collect();
    let mut elsewhere = scope("custom", "k");
    elsewhere["project"] = json!("other");
    bodies.extend([
        (&ann, scope("custom", "K")),
        (&ann, elsewhere),
        (&ann, json!({})),
        (&bob, scope("custom", "k")),
        (&foreign, scope("custom", "k")),
    ]);
    let mut ids = BTreeSet::new();
    for (caller, body) in &bodies {
        let (id, created) = ensured(caller, body).await?;
        ensure!(created && ids.insert(id.clone()), "{body}");
        ensure!(ensured(caller, body).await? == (id, false), "{body}");
    }
    for (body, field) in
        [(scope("custom", ""), "scope.key"), (json!({"scope": {"kind": "custom"}}), "scope.key")]
    {
        let reply = ann.post(ENSURE, &body).await?;
        ensure!(
            reply.status == 400 && reply.error()?.detail.field.as_deref() == Some(field),
            "{}",
            reply.text()
        );
    }
    Ok(())
}

#[tokio::test]
async fn one_idempotency_key_makes_one_sandbox_however_often_it_comes() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let ask = async |caller: &Caller, key: &str, body: &Value| {
        let request = Request::post("/v1/sandboxes").header("idempotency-key", key);
        caller.call(request.body(Bytes::from(serde_json::to_vec(body)?).into())?).await
    };
    let (operator, body) = (hostd.operator()?, json!({"name": "once"}));
    let replies = futures_util::future::try_join_all((0..8).map(|_| ask(&operator, "k1", &body))).await?;
    ensure!(replies.iter().all(|reply| reply.status == 201 && reply.body == replies[0].body), "{replies:?}");
    // The same holds after a crash, and for its owner only.
    hostd.crash().await?;
    let operator = hostd.operator()?;
    let again = ask(&operator, "k1", &body).await?;
    ensure!(
        again.body == replies[0].body && again.headers["idempotency-replayed"] == "true",
        "{}",
        again.text()
    );
    let other = ask(&operator, "k1", &json!({"name": "other"})).await?;
    ensure!(other.status == 422 && other.code()? == ApiErrorCode::IdempotencyMismatch, "{}", other.text());
    let ann = hostd.caller("a", "ann", "run").await?;
    ensure!(id_of(&ask(&ann, "k1", &body).await?.expect(201)?)? != id_of(&again.json()?)?);
    let page: Value = operator.get("/v1/sandboxes?all=1").await?.expect(200)?;
    ensure!(page["items"].as_array().map(Vec::len) == Some(2), "{page}");
    // A failed request may be repeated with the same key.
    ensure!(ask(&operator, "k2", &json!({"network": "open"})).await?.status == 422);
    ensure!(ask(&operator, "k2", &json!({"name": "twice"})).await?.status == 201);
    Ok(())
}

#[tokio::test]
async fn destroying_a_sandbox_frees_its_scope() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let body = scope("conversation", "c");
    let id = operator.create(&body).await?;
    operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    let second = operator.create(&body).await?;
    ensure!(second != id);
    // Not waited for: ensure waits for the end of the old one itself.
    operator.delete(&format!("/v1/sandboxes/{second}?wait=0")).await?;
    let (third, created) = ensured(&operator, &body).await?;
    ensure!(created && third != second);
    Ok(())
}
