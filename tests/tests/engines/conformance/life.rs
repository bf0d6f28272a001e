//! The life of a sandbox.

use super::driver_column::{Column, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use tests::host::until;
use tests::processes::gone;

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("{field} of {value}"))
}

pub async fn made(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let spec = json!({
        "name": "mine", "ports": [3000], "env": {"TOKEN": "geheim"}, "metadata": {"a": "b"}, "project": "shop",
        "limits": {"memory_mb": 256, "cpus": 0.5, "pids": 100}, "idle_policy": "always_on",
        "visibility": "public", "ttl": "1h", "scope": {"kind": "conversation", "key": "c1"},
    });
    let reply = place.caller.post("/v1/sandboxes", &spec).await?;
    let view: Value = reply.expect(201)?;
    let id = text(&view, "id")?;
    ensure!(reply.headers["location"] == format!("/v1/sandboxes/{id}"), "{:?}", reply.headers);
    ensure!(id.len() == 26 && id == id.to_lowercase(), "{id}");
    let expected = [
        ("status", json!("running")),
        ("name", json!("mine")),
        ("driver", json!(column.driver())),
        ("image", json!("host")),
        ("ports", json!([3000])),
        ("limits", json!({"memory_mb": 256, "cpus": 0.5, "pids": 100})),
        ("network", json!("proxy")),
        ("idle_policy", json!("always_on")),
        ("visibility", json!("public")),
        ("env", json!(["TOKEN"])),
        ("metadata", json!({"a": "b"})),
        ("project", json!("shop")),
        ("scope", json!({"kind": "conversation", "key": "c1"})),
        ("attempt", json!(1)),
    ];
    for (field, value) in expected {
        ensure!(view[field] == value, "{field} is {} instead of {value}", view[field]);
    }
    let preview = text(&view["previews"], "3000")?;
    ensure!(preview.starts_with(&format!("http://s-{id}-3000.preview.localhost")), "{preview}");
    ensure!(text(&view, "created_at")? < text(&view, "expires_at")?, "{view}");
    ensure!(
        place.caller.sandbox(&id.to_uppercase()).await? == place.caller.sandbox(id).await?,
        "case matters"
    );
    let seen = place.caller.prints(id, "id -u; pwd; echo $TOKEN; cat /proc/1/comm").await?;
    ensure!(
        seen.starts_with("1000\n/home/sandbox/workspace/app\ngeheim\n") && seen.contains("runtimed"),
        "{seen}"
    );
    let init = std::fs::read(format!("/proc/{}/environ", place.hostd.init(id)?))?;
    ensure!(memchr::memmem::find(&init, b"geheim").is_none(), "the environment is in PID 1");
    if column.engine().is_some() {
        let told = place.told(&["inspect", &place.container(id)?])?;
        ensure!(!told.contains("geheim"), "the environment is in the container");
    }
    place.destroy(id).await?;
    place.holds(&[], &[])?;
    passed()
}

pub async fn stopped_and_woken(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    place.caller.prints(&id, "echo kept > file; echo too > ~/home; setsid sleep 1000 & :").await?;
    let init = place.init(&id)?;
    place.brings(&id, "stop", "stopped").await?;
    gone(&init).await?;
    let left = place.hostd.processes()?;
    ensure!(left.is_empty(), "processes are left: {left:?}");
    place.brings(&id, "stop", "stopped").await.context("stopping twice")?;
    let started = place.brings(&id, "start", "running").await?;
    ensure!(started["attempt"] == 2, "{started}");
    ensure!(place.caller.prints(&id, "cat file ~/home; pgrep -c sleep || :").await? == "kept\ntoo\n0\n");
    ensure!(place.brings(&id, "start", "running").await?["attempt"] == 2, "it ran already");
    place.holds(&[&id], &[&id])?;
    passed()
}

pub async fn woken_by_execs(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    for (asleep, status) in [("pause", "paused"), ("stop", "stopped")] {
        place.brings(&id, asleep, status).await?;
        for no in ["false", "0"] {
            let path = format!("/v1/sandboxes/{id}/execs?wake={no}");
            let reply = place.caller.post(&path, &json!({"shell": "echo"})).await?;
            ensure!(reply.status == 409 && reply.code()? == ApiErrorCode::NotRunning, "{}", reply.text());
        }
        ensure!(place.caller.sandbox(&id).await?["status"] == status, "a refused exec woke it");
        ensure!(place.caller.prints(&id, "echo awake").await? == "awake\n");
        ensure!(place.caller.sandbox(&id).await?["status"] == "running");
    }
    place.brings(&id, "stop", "stopped").await?;
    let calls = (0..12).map(|n| {
        let (caller, id) = (place.caller.clone(), id.clone());
        async move { caller.prints(&id, &format!("echo {n}")).await }
    });
    let printed = try_join_all(calls).await?;
    ensure!(printed == (0..12).map(|n| format!("{n}\n")).collect::<Vec<_>>(), "{printed:?}");
    ensure!(place.caller.sandbox(&id).await?["attempt"] == 3, "it was started more than once");
    passed()
}

fn count(file: &Path) -> u64 {
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Waits until it counted beyond `from`.
async fn advanced(file: &Path, from: u64) -> Result<u64> {
    until("the counter goes on", async || Ok(Some(count(file)).filter(|n| *n > from))).await
}

pub async fn paused(column: Arc<Column>) -> Verdict {
    let (place, id) = Fixture::one(&column).await?;
    let other = place.caller.create(&json!({})).await?;
    let line = "i=0; while :; do i=$((i+1)); echo $i > n.new; mv n.new n; sleep 0.01; done";
    let mut files = Vec::new();
    for id in [&id, &other] {
        place.leaves(id, "counter", &["sh", "-c", line]).await?;
        let file = place.hostd.workspace(id).join("workspace/app/n");
        advanced(&file, 0).await?;
        files.push(file);
    }
    let paused = place.brings(&id, "pause", "paused").await?;
    ensure!(paused["attempt"] == 1, "{paused}");
    let frozen = count(&files[0]);
    // The other one goes on for long enough that this one would have counted.
    let now = count(&files[1]);
    advanced(&files[1], now + 20).await?;
    ensure!(count(&files[0]) == frozen, "{} after {frozen}", count(&files[0]));
    ensure!(place.caller.sandbox(&id).await?["status"] == "paused");
    place.brings(&id, "pause", "paused").await.context("pausing twice")?;
    place.brings(&id, "resume", "running").await?;
    // A counter that lost its memory would begin with 1 again.
    let later = advanced(&files[0], frozen).await?;
    ensure!(later < frozen + 1000 && place.caller.sandbox(&id).await?["attempt"] == 1, "{later}");
    place.brings(&id, "pause", "paused").await?;
    place.brings(&id, "stop", "stopped").await.context("stopped while frozen")?;
    place.brings(&other, "pause", "paused").await?;
    place.destroy(&other).await.context("destroyed while frozen")?;
    passed()
}

pub async fn recreated(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let id = place.caller.create(&json!({"env": {"A": "b"}})).await?;
    place.caller.prints(&id, "echo x > file; echo y > ~/.hidden; mkdir -p ~/d/e").await?;
    let all = "x\ny\n/home/sandbox/d\nfile\n";
    for (call, found, attempt) in
        [("recreate", all, 2), ("recreate?workspace=keep", all, 3), ("recreate?workspace=remove", "", 4)]
    {
        let view = place.brings(&id, call, "running").await?;
        ensure!(view["attempt"] == attempt, "{call}: {view}");
        let look = "{ cat file ~/.hidden; ls -d ~/d; ls -A ~/workspace/app; } 2>/dev/null; echo $A $PWD";
        let seen = place.caller.prints(&id, look).await?;
        ensure!(seen == format!("{found}b /home/sandbox/workspace/app\n"), "{call}: {seen}");
    }
    ensure!(!place.hostd.workspace(&id).join(".hidden").exists());
    place.holds(&[&id], &[&id])?;
    passed()
}

pub async fn destroyed(column: Arc<Column>) -> Verdict {
    let (place, erased) = Fixture::one(&column).await?;
    let kept = place.caller.create(&json!({})).await?;
    for id in [&erased, &kept] {
        place.caller.prints(id, "echo mine > file").await?;
    }
    place.brings(&erased, "stop", "stopped").await?;
    place.destroy(&erased).await?;
    place.destroy(&erased).await.context("twice")?;
    ensure!(!place.hostd.workspace(&erased).exists(), "its files are left");
    let init = place.init(&kept)?;
    let keep = format!("/v1/sandboxes/{kept}?workspace=keep");
    place.caller.delete(&keep).await?.expect::<Value>(200)?;
    gone(&init).await?;
    let file = place.hostd.workspace(&kept).join("workspace/app/file");
    ensure!(std::fs::read_to_string(&file)? == "mine\n", "its files are gone");
    let left = place.hostd.processes()?;
    ensure!(left.is_empty(), "processes are left: {left:?}");
    let exec = place.caller.post(&format!("/v1/sandboxes/{erased}/execs"), &json!({"shell": "echo"})).await?;
    ensure!(exec.status == 410 || exec.status == 404 || exec.status == 409, "{}", exec.text());
    passed()
}

pub async fn raced(column: Arc<Column>) -> Verdict {
    let place = Fixture::new(&column).await?;
    let ids = try_join_all((0..3).map(|_| {
        let caller = place.caller.clone();
        async move { caller.create(&json!({})).await }
    }))
    .await?;
    let id = &ids[0];
    let verbs = ["stop", "start", "pause", "recreate", "start", "stop"];
    let asked = join_all(verbs.map(|verb| place.verb(id, verb))).await;
    // Some are overtaken, and say so; none is lost in between.
    ensure!(asked.iter().any(Result::is_ok), "{asked:?}");
    place.brings(id, "start", "running").await?;
    ensure!(place.caller.prints(id, "echo alive").await? == "alive\n");
    let all = join_all(ids.iter().map(|id| place.destroy(id))).await;
    all.into_iter().collect::<Result<Vec<()>>>()?;
    place.holds(&[], &[])?;
    passed()
}
