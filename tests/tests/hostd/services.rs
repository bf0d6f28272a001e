//! Services, ports and numbers of a sandbox; its sleep when nothing happens, and its life when it always runs.

use anyhow::{Context, Result, ensure};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use tests::host::until;
use tests::{Caller, Hostd};

const SLEEPY: &[(&str, &str)] = &[("SLIPWAY_IDLE_SECONDS", "1")];
const SERVER: &str = "exec python3 -u -m http.server 3000 --bind 127.0.0.1";

async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

/// The one service of a sandbox, once it is ready.
async fn ready(caller: &Caller, id: &str) -> Result<Value> {
    let path = format!("/v1/sandboxes/{id}/services");
    let page = caller.until(&path, |page| page["items"][0]["state"] == "ready").await?;
    Ok(page["items"][0].clone())
}

fn web() -> Value {
    json!({
        "env": {"ALL": "everybody"},
        "services": [{
            "name": "web", "command": format!("echo begun $ALL $OWN; {SERVER}"), "port": 3000,
            "env": {"OWN": "web"}, "health": {"tcp": 3000},
        }],
    })
}

#[tokio::test]
async fn services_given_at_create_run_with_their_environment_after_every_start() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&web()).await?;
    let view = operator.sandbox(&id).await?;
    ensure!(view["services"] == json!(["web"]) && view["ports"] == json!([3000]), "{view}");
    let logs = format!("/v1/sandboxes/{id}/services/web/logs?follow=1");
    for boot in 1..=3 {
        ready(&operator, &id).await?;
        let sign = "begun everybody web\n".repeat(boot);
        until("it said so", async || {
            let log = operator.get(&format!("/v1/sandboxes/{id}/services/web/logs")).await?.text();
            Ok((log.matches("begun everybody web").count() == boot).then_some(()))
        })
        .await
        .with_context(|| sign)?;
        operator.follow_until(&logs, "begun everybody web").await?;
        let asked = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:3000/";
        ensure!(operator.prints(&id, asked).await? == "200");
        verb(&operator, &id, if boot == 1 { "stop" } else { "recreate" }).await?;
        if boot == 1 {
            verb(&operator, &id, "start").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_service_is_stopped_started_and_restarted() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&web()).await?;
    let first = ready(&operator, &id).await?;
    ensure!(first["source"] == "api" && first["restarts"] == 0, "{first}");
    verb(&operator, &id, "services/web/restart").await?;
    let path = format!("/v1/sandboxes/{id}/services");
    let page = operator
        .until(&path, |page| page["items"][0]["restarts"] == 1 && page["items"][0]["state"] == "ready")
        .await?;
    ensure!(page["items"][0]["pid"] != first["pid"], "{page}");
    verb(&operator, &id, "services/web/stop").await?;
    operator.until(&path, |page| page["items"][0]["state"] == "stopped").await?;
    verb(&operator, &id, "services/web/start").await?;
    ready(&operator, &id).await?;
    let none = operator.post(&format!("/v1/sandboxes/{id}/services/none/start"), &json!({})).await?;
    ensure!(none.status == 404, "{}", none.text());
    Ok(())
}

#[tokio::test]
async fn services_put_later_replace_the_others_and_come_back_after_a_stop() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&web()).await?;
    let body = json!({"services": [{"name": "late", "command": "echo late $ALL $OWN; exec sleep 1000", "env": {"OWN": "own"}}]});
    let path = format!("/v1/sandboxes/{id}/services");
    let page: Value = operator.put(&path, &body).await?.expect(200)?;
    ensure!(page["items"][0]["name"] == "late", "{page}");
    ensure!(operator.sandbox(&id).await?["services"] == json!(["late"]));
    let logs = format!("{path}/late/logs?follow=1");
    operator.follow_until(&logs, "late everybody own\n").await?;
    verb(&operator, &id, "stop").await?;
    verb(&operator, &id, "start").await?;
    let page: Value = operator.get(&path).await?.expect(200)?;
    ensure!(
        page["items"].as_array().map(Vec::len) == Some(1) && page["items"][0]["name"] == "late",
        "{page}"
    );
    operator.follow_until(&logs, "late everybody own\nlate everybody own\n").await?;
    let unknown = operator.put(&path, &json!({"services": [{"name": "a", "comand": "b"}]})).await?;
    ensure!(
        unknown.status == 400 && unknown.error()?.detail.field.as_deref() == Some("services[0].comand"),
        "{}",
        unknown.text()
    );
    Ok(())
}

#[tokio::test]
async fn listening_ports_are_shown_with_the_process_behind_them() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let path = format!("/v1/sandboxes/{id}/ports");
    ensure!(operator.get(&path).await?.expect::<Value>(200)?["items"] == json!([]));
    let server = json!({"id": "server", "shell": SERVER, "wait": false});
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &server).await?.expect::<Value>(202)?;
    let page = operator.until(&path, |page| page["items"][0]["port"] == 3000).await?;
    let port = &page["items"][0];
    ensure!(port["address"] == "127.0.0.1" && port["process"]["pid"].is_u64(), "{port}");
    ensure!(port["process"]["command"].as_str().is_some_and(|line| line.contains("http.server")), "{port}");
    let preview = format!("http://s-{id}-3000.preview.localhost:");
    ensure!(port["preview"].as_str().is_some_and(|url| url.starts_with(&preview)), "{port}");
    verb(&operator, &id, "pause").await?;
    let asleep = operator.get(&path).await?;
    ensure!(asleep.status == 409 && asleep.code()? == ApiErrorCode::NotRunning, "{}", asleep.text());
    Ok(())
}

#[tokio::test]
async fn stats_tell_what_a_sandbox_uses_and_may_use() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"limits": {"memory_mb": 128, "pids": 50}})).await?;
    let path = format!("/v1/sandboxes/{id}/stats");
    let number = |stats: &Value, field: &str| stats[field].as_u64().with_context(|| stats.to_string());
    let before: Value = operator.get(&path).await?.expect(200)?;
    ensure!(
        number(&before, "memory_limit_bytes")? == 128 << 20 && number(&before, "pids_limit")? == 50,
        "{before}"
    );
    let hog = "python3 -c 'x = bytearray(40 << 20); print(1, flush=True); input()'";
    let body = json!({"id": "hog", "shell": hog, "stdin_open": true, "wait": false});
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    operator.follow_until(&format!("/v1/sandboxes/{id}/execs/hog/output?follow=1"), "1\n").await?;
    let now: Value = operator.get(&path).await?.expect(200)?;
    ensure!(number(&now, "memory_bytes")? >= 40 << 20, "{now}");
    ensure!(number(&now, "memory_peak_bytes")? >= number(&now, "memory_bytes")?, "{now}");
    // PID 1, the shim, and what it runs.
    ensure!(number(&now, "pids")? >= 3, "{now}");
    ensure!(number(&now, "cpu_usage_us")? > number(&before, "cpu_usage_us")?, "{before} {now}");
    verb(&operator, &id, "stop").await?;
    ensure!(operator.get(&path).await?.status == 409);
    Ok(())
}

#[tokio::test]
async fn a_sandbox_in_which_nothing_happens_sleeps_and_an_exec_wakes_it() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "echo kept > file").await?;
    let activity: Value = operator.get(&format!("/v1/sandboxes/{id}/activity")).await?.expect(200)?;
    ensure!(activity["idle_policy"] == "sleep", "{activity}");
    // On a slow machine it may have slept before.
    let asleep = operator.becomes(&id, "stopped").await?;
    ensure!(hostd.processes()? == Vec::<i32>::new());
    let activity: Value = operator.get(&format!("/v1/sandboxes/{id}/activity")).await?.expect(200)?;
    ensure!(activity["busy"] == false && activity["reasons"] == json!([]), "{activity}");
    ensure!(operator.prints(&id, "cat file").await? == "kept\n");
    let before = asleep["attempt"].as_u64().context("a number")?;
    ensure!(operator.sandbox(&id).await?["attempt"] == before + 1, "{asleep}");
    Ok(())
}

/// Waits until another sandbox, made now, has fallen asleep: long enough for any that may.
async fn others_sleep(caller: &Caller) -> Result<()> {
    let id = caller.create(&json!({})).await?;
    caller.becomes(&id, "stopped").await?;
    Ok(())
}

#[tokio::test]
async fn a_running_exec_a_hold_and_a_terminal_keep_it_awake_and_activity_says_so() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let [working, held, watched] = [
        operator.create(&json!({})).await?,
        operator.create(&json!({})).await?,
        operator.create(&json!({})).await?,
    ];
    let execs = |id: &str| format!("/v1/sandboxes/{id}/execs");
    let sleeper = json!({"id": "long", "argv": ["sleep", "1000"], "wait": false});
    operator.post(&execs(&working), &sleeper).await?.expect::<Value>(202)?;
    let hold = "curl -sf --unix-socket /run/slipway/sock -X PUT -d '{\"ttl_s\": 600, \"reason\": \"think\"}' http://x/v1/holds/agent";
    operator.prints(&held, hold).await?;
    operator
        .post(&execs(&watched), &json!({"id": "t", "argv": ["cat"], "tty": true}))
        .await?
        .expect::<Value>(202)?;
    let viewer = operator.attach(&watched, "t", "").await?;
    others_sleep(&operator).await?;
    others_sleep(&operator).await?;
    let table = [
        (&working, json!({"kind": "exec", "exec": "long"})),
        (&held, json!({"kind": "hold", "hold": "agent"})),
        (&watched, json!({"kind": "viewers", "count": 1})),
    ];
    for (id, reason) in table {
        ensure!(operator.sandbox(id).await?["status"] == "running", "{reason}");
        let activity: Value = operator.get(&format!("/v1/sandboxes/{id}/activity")).await?.expect(200)?;
        let reasons = activity["reasons"].as_array().context("reasons")?;
        ensure!(
            activity["busy"] == true && activity["sleeps_at"].is_null() && reasons.contains(&reason),
            "{activity}"
        );
    }
    drop(viewer);
    let cancel = format!("{}/long/cancel", execs(&working));
    operator.post(&cancel, &json!({"grace_ms": 0})).await?;
    operator.becomes(&working, "stopped").await?;
    Ok(())
}

#[tokio::test]
async fn one_that_always_runs_does_not_sleep_and_comes_back_when_it_is_killed() -> Result<()> {
    let hostd = Hostd::start_with(SLEEPY).await?;
    let operator = hostd.operator()?;
    let spec = json!({"idle_policy": "always_on", "services": [{"name": "w", "command": "exec sleep 1000"}]});
    let id = operator.create(&spec).await?;
    operator.prints(&id, "echo kept > file").await?;
    others_sleep(&operator).await?;
    ensure!(operator.sandbox(&id).await?["status"] == "running", "it sleeps");
    let init = hostd.init(&id)?;
    hostd.kill_init(&id)?;
    let up_again =
        |view: &Value| view["status"] == "running" && view["attempt"] == 2 && view["phase"].is_null();
    operator.until(&format!("/v1/sandboxes/{id}"), up_again).await?;
    ensure!(hostd.init(&id)? != init);
    ensure!(operator.prints(&id, "cat file").await? == "kept\n");
    operator.until(&format!("/v1/sandboxes/{id}/services"), |page| page["items"][0]["pid"].is_u64()).await?;
    let page: Value = operator.get(&format!("/v1/sandboxes/{id}/attempts")).await?.expect(200)?;
    ensure!(page["items"][0]["relation"] == "restart", "{page}");
    Ok(())
}

#[tokio::test]
async fn keepalive_counts_as_activity_and_wakes_nobody() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let view = verb(&operator, &id, "keepalive").await?;
    ensure!(view["status"] == "running", "{view}");
    let activity: Value = operator.get(&format!("/v1/sandboxes/{id}/activity")).await?.expect(200)?;
    ensure!(activity["reasons"].to_string().contains("keepalive"), "{activity}");
    verb(&operator, &id, "stop").await?;
    let asleep = operator.post(&format!("/v1/sandboxes/{id}/keepalive"), &json!({})).await?;
    ensure!(asleep.status == 409, "{}", asleep.text());
    ensure!(operator.sandbox(&id).await?["status"] == "stopped");
    Ok(())
}
