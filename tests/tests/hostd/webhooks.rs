//! Webhooks of a real hostd: told of real events, across kill -9, each tenant of its own.

use anyhow::{Context, Result, ensure};
use protocol::api::WEBHOOK_TYPES;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::webhook_receiver::{Told, WebhookReceiver};
use tests::{Caller, Hostd};

async fn add(caller: &Caller, url: &str, more: &Value) -> Result<(String, String)> {
    let mut spec = json!({ "url": url });
    for (name, value) in more.as_object().context("fields")? {
        spec[name] = value.clone();
    }
    let made: Value = caller.post("/v1/webhooks", &spec).await?.expect(201)?;
    let text = |field: &str| made[field].as_str().map(str::to_owned).context("a field");
    Ok((text("id")?, text("secret")?))
}

fn types(told: &[Told]) -> Result<Vec<String>> {
    told.iter().map(|one| Ok(one.body()?["type"].as_str().context("a type")?.to_owned())).collect()
}

/// Numbers of the events of a sandbox that its webhook is to be told of, from the public log.
async fn logged(caller: &Caller, sandbox: &str) -> Result<BTreeSet<u64>> {
    let path = format!("/v1/sandboxes/{sandbox}/events?kind=sandbox.,exec.&limit=1000");
    let page: Value = caller.get(&path).await?.expect(200)?;
    let events = page["items"].as_array().context("events")?.iter();
    let told =
        events.filter(|event| event["kind"].as_str().is_some_and(|kind| WEBHOOK_TYPES.contains(&kind)));
    told.map(|event| event["seq"].as_u64().context("a number")).collect()
}

fn seqs(told: &[Told], sandbox: &str) -> Vec<u64> {
    let data = told.iter().filter_map(|one| Some(one.body().ok()?["data"].clone()));
    data.filter(|data| data["sandbox"] == sandbox).filter_map(|data| data["seq"].as_u64()).collect()
}

#[tokio::test]
async fn two_tenants_are_told_of_their_own_across_kill_9_and_nothing_is_skipped() -> Result<()> {
    // Some requests of the first tenant get no answer: hostd dies with them in flight.
    let is_silent = Arc::new(AtomicBool::new(true));
    let silent = is_silent.clone();
    let answer =
        move |_: &Told, before: usize| (before % 5 != 2 || !silent.load(Ordering::SeqCst)).then_some(204);
    let first = WebhookReceiver::start(answer).await?;
    let second = WebhookReceiver::start(|_, _| Some(200)).await?;
    let mut hostd = Hostd::start_with(&[("SLIPWAY_WEBHOOK_ALLOW", "127.0.0.1")]).await?;
    let mut admins = Vec::new();
    let mut secrets = Vec::new();
    let mut sandboxes = Vec::new();
    for (tenant, receiver) in [("a", &first), ("b", &second)] {
        let admin = hostd.caller(tenant, "root", "admin").await?;
        let events = json!({"events": ["sandbox.*", "exec.*"]});
        secrets.push(add(&admin, &receiver.url(), &events).await?.1);
        sandboxes.push(admin.create(&json!({})).await?);
        admins.push(admin);
    }
    for round in 0..3_usize {
        for (admin, sandbox) in admins.iter().zip(&sandboxes) {
            for _ in 0..3 {
                admin.prints(sandbox, "true").await?;
            }
        }
        // The request without an answer is in flight.
        first.until(|told| told.len() > 2 + 5 * round).await?;
        is_silent.store(round < 2, Ordering::SeqCst);
        hostd.crash().await?;
        admins = admins.iter().map(|admin| Caller::tcp(hostd.url(), admin.token())).collect();
    }
    for ((receiver, secret), (admin, sandbox)) in
        [&first, &second].into_iter().zip(&secrets).zip(admins.iter().zip(&sandboxes))
    {
        admin.delete(&format!("/v1/sandboxes/{sandbox}")).await?.expect::<Value>(200)?;
        let expected = logged(admin, sandbox).await?;
        let told =
            receiver.until(|told| expected.is_subset(&seqs(told, sandbox).into_iter().collect())).await?;
        let others = told.iter().filter(|one| !one.text.contains(sandbox)).count();
        ensure!(others == 0, "{told:?}");
        // Repetitions aside, in order.
        let mut in_order = seqs(&told, sandbox);
        in_order.dedup();
        ensure!(in_order.is_sorted(), "{in_order:?}");
        for one in &told {
            ensure!(one.is_signed_by(secret)?, "{one:?}");
        }
        let ids: BTreeSet<&str> = told.iter().map(|one| one.id.as_str()).collect();
        let distinct: BTreeSet<u64> = seqs(&told, sandbox).into_iter().collect();
        ensure!(ids.len() == distinct.len(), "a repetition has the same id");
        ensure!(distinct.is_subset(&logged(admin, sandbox).await?), "{distinct:?}");
    }
    Ok(())
}

/// An administrator of another tenant learns nothing of a webhook, and makes none that is not its own or is wrong.
async fn refused_to_others(other: &Caller, path: &str) -> Result<()> {
    for reply in [
        other.get(path).await?,
        other.patch(path, &json!({"enabled": false})).await?,
        other.delete(path).await?,
        other.post(&format!("{path}/test"), &json!({})).await?,
        other.post(&format!("{path}/secret"), &json!({})).await?,
        other.get(&format!("{path}/deliveries")).await?,
        other.post(&format!("{path}/redeliver"), &json!({"dead": true})).await?,
    ] {
        ensure!(reply.status == 404, "{}", reply.text());
    }
    let own: Value = other.get("/v1/webhooks").await?.expect(200)?;
    ensure!(own["items"] == json!([]), "{own}");
    for (spec, status) in [
        (json!({"url": "https://h.example/", "tenant": "a"}), 403),
        (json!({"url": "https://h.example/", "all_tenants": true}), 403),
        (json!({"url": "ftp://h.example/"}), 400),
        (json!({"url": "https://u:p@h.example/"}), 400),
        (json!({"url": "https://h.example/", "events": ["task.message"]}), 400),
        (json!({"url": "https://h.example/", "events": []}), 400),
        (json!({"url": "https://h.example/", "description": ""}), 400),
        (json!({"url": "https://h.example/", "sandbox": "01jb9xyzabcdefghjkmnpqrstv"}), 404),
    ] {
        let refused = other.post("/v1/webhooks", &spec).await?;
        ensure!(refused.status == status, "{spec}: {}", refused.text());
    }
    Ok(())
}

#[tokio::test]
async fn a_webhook_is_made_changed_rotated_tested_and_removed_by_its_tenant_alone() -> Result<()> {
    let receiver =
        WebhookReceiver::start(|told, _| Some(if told.text.contains("sandbox.created") { 500 } else { 200 }))
            .await?;
    let allow = [("SLIPWAY_WEBHOOK_ALLOW", receiver.authority.as_str()), ("SLIPWAY_WEBHOOK_ATTEMPTS", "1")];
    let hostd = Hostd::start_with(&allow).await?;
    let (admin, other) = (hostd.caller("a", "ann", "admin").await?, hostd.caller("b", "bob", "admin").await?);
    let (id, secret) = add(&admin, &receiver.url(), &json!({"description": "of a test"})).await?;
    let path = format!("/v1/webhooks/{id}");
    refused_to_others(&other, &path).await?;
    let tested: Value = admin.post(&format!("{path}/test"), &json!({})).await?.expect(200)?;
    ensure!(tested["delivered"] == true && tested["status"] == 200, "{tested}");
    let rotated: Value = admin.post(&format!("{path}/secret"), &json!({})).await?.expect(200)?;
    let new = rotated["secret"].as_str().context("a secret")?;
    ensure!(rotated["previous_secret_until"].is_string(), "{rotated}");
    let sandbox = admin.create(&json!({})).await?;
    let dead = |page: &Value| page["items"].as_array().is_some_and(|items| items.len() == 1);
    let page = admin.until(&format!("{path}/deliveries?state=dead"), dead).await?;
    ensure!(
        page["items"][0]["type"] == "sandbox.created" && page["items"][0]["sandbox"] == *sandbox,
        "{page}"
    );
    let told = receiver.until(|told| told.iter().any(|one| one.text.contains("sandbox.running"))).await?;
    let last = told.last().context("a request")?;
    ensure!(last.is_signed_by(new)? && last.is_signed_by(&secret)?, "{last:?}");
    let before = types(&told)?.iter().filter(|kind| *kind == "sandbox.created").count();
    let again: Value = admin.post(&format!("{path}/redeliver"), &json!({"dead": true})).await?.expect(202)?;
    ensure!(again["deliveries"] == 1, "{again}");
    let is_again = |told: &[Told]| {
        types(told).is_ok_and(|kinds| kinds.iter().filter(|kind| *kind == "sandbox.created").count() > before)
    };
    receiver.until(is_again).await?;
    let wrong = admin.post(&format!("{path}/redeliver"), &json!({"dead": true, "since": 1})).await?;
    ensure!(wrong.status == 400, "{}", wrong.text());

    let disabled: Value = admin.patch(&path, &json!({"enabled": false})).await?.expect(200)?;
    ensure!(disabled["status"] == "disabled" && disabled["disabled_reason"] == "caller", "{disabled}");
    let operator = hostd.operator()?;
    let all: Value = operator.get("/v1/webhooks").await?.expect(200)?;
    ensure!(all["items"][0]["id"] == *id && !all.to_string().contains("whsec_"), "{all}");
    let audited: Value =
        operator.get("/v1/audit?operation=createWebhook&outcome=succeeded").await?.expect(200)?;
    ensure!(audited["items"][0]["object"] == *id, "{audited}");
    ensure!(admin.delete(&path).await?.status == 204 && admin.get(&path).await?.status == 404);
    Ok(())
}

#[tokio::test]
async fn the_commands_add_list_test_and_remove_and_read_the_audit() -> Result<()> {
    let receiver = WebhookReceiver::start(|_, _| Some(200)).await?;
    let hostd = Hostd::start_with(&[("SLIPWAY_WEBHOOK_ALLOW", receiver.authority.as_str())]).await?;
    let url = receiver.url();
    let added = hostd.ran(&["webhook", "add", &url, "--events", "sandbox.*,task.done"]).await?;
    ensure!(added.code == Some(0) && added.out.starts_with("whsec_"), "{added:?}");
    let id = added.err.split_whitespace().nth(1).context("its id")?.to_owned();
    let listed = hostd.ran(&["webhook", "ls"]).await?;
    ensure!(listed.out.contains(&id) && listed.out.contains("sandbox.*,task.done"), "{listed:?}");
    let tested = hostd.ran(&["webhook", "test", &id]).await?;
    ensure!(tested.code == Some(0) && tested.out.starts_with("status 200"), "{tested:?}");
    let changed = hostd.ran(&["webhook", "set", &id, "--url", "http://127.0.0.1:1/", "--disable"]).await?;
    ensure!(changed.out.contains("disabled: caller"), "{changed:?}");
    let failed = hostd.ran(&["webhook", "test", &id]).await?;
    ensure!(failed.code == Some(1) && failed.err.contains("SLIPWAY_WEBHOOK_ALLOW"), "{failed:?}");
    let deliveries = hostd.ran(&["--json", "webhook", "deliveries", &id, "--state", "waiting"]).await?;
    ensure!(deliveries.out == "{\"items\":[]}\n", "{deliveries:?}");
    let rotated = hostd.ran(&["webhook", "rotate", &id]).await?;
    ensure!(rotated.out.starts_with("whsec_") && rotated.out != added.out, "{rotated:?}");
    let shown = hostd.ran(&["webhook", "show", &id]).await?;
    ensure!(shown.out.contains("previous secret") && shown.out.contains("http://127.0.0.1:1/"), "{shown:?}");
    let again = hostd.ran(&["webhook", "redeliver", &id, "--since", "0"]).await?;
    ensure!(again.out == "events after 0 are delivered again\n", "{again:?}");
    let bad = hostd.ran(&["webhook", "add", &url, "--events", "task"]).await?;
    ensure!(bad.code == Some(2) && bad.err.contains("task.done"), "{bad:?}");
    let gone = hostd.ran(&["webhook", "rm", &id]).await?;
    ensure!(gone.out == format!("{id} removed\n"), "{gone:?}");

    let is_there = async || {
        let audit = hostd.ran(&["audit", "--operation", "deleteWebhook", "--since", "1h"]).await?;
        Ok(audit.out.contains(&id).then_some(audit))
    };
    let audit = tests::host::until("the removal is in the audit log", is_there).await?;
    ensure!(audit.out.contains("deleteWebhook") && audit.out.contains("unix"), "{audit:?}");
    let export = hostd.ran(&["audit", "export", "--object", &id]).await?;
    let rows: Vec<Value> = export.out.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(rows.first().context("a row")?["operation"] == "createWebhook", "{export:?}");
    Ok(())
}
