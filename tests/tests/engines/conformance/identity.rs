//! The identity of a sandbox: known without the database, and not forgeable.

use super::driver_column::{Column, Outcome, Verdict};
use super::fixture::{Fixture, passed};
use anyhow::{Context, Result, ensure};
use protocol::api::TaskEventView;
use serde_json::{Value, json};
use std::sync::Arc;
use tests::Caller;
use tests::processes::gone;

/// Takes the database away, with what SQLite keeps beside it.
fn lose_database(place: &Fixture) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        let path = place.hostd.data().join(format!("slipway.db{end}"));
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

pub async fn adopted(column: Arc<Column>) -> Verdict {
    let mut place = Fixture::new(&column).await?;
    let ann = place.hostd.caller("acme", "ann", "run").await?;
    let spec = json!({"name": "precious", "project": "site", "limits": {"memory_mb": 200},
        "metadata": {"of": "ann"}, "visibility": "private", "ttl": "30d"});
    let id = ann.create(&spec).await?;
    let before = ann.sandbox(&id).await?;
    let asleep = ann.create(&json!({"name": "asleep"})).await?;
    for id in [&id, &asleep] {
        ann.prints(id, "echo kept > /home/sandbox/kept").await?;
    }
    ann.post(&format!("/v1/sandboxes/{asleep}/stop"), &json!({})).await?.expect::<Value>(200)?;
    let init = place.init(&id)?;
    place.hostd.kill().await?;
    lose_database(&place)?;
    place.crash().await?;
    let view = place.caller.sandbox(&id).await?;
    let found = [&view["status"], &view["name"], &view["tenant"], &view["principal"], &view["project"]];
    ensure!(found == ["running", "precious", "acme", "ann", "site"], "{view}");
    for kept in ["limits", "metadata", "visibility", "expires_at", "created_at", "ports", "image"] {
        ensure!(view[kept] == before[kept], "{kept} of {view} is not that of {before}");
    }
    let ann = place.hostd.caller("acme", "ann", "run").await?;
    ensure!(ann.prints(&id, "cat /home/sandbox/kept").await? == "kept\n");
    ensure!(!init.is_gone() && place.hostd.init(&id)? == init.pid, "it was started anew");
    ensure!(place.caller.sandbox(&asleep).await?["status"] == "stopped", "the other is not as it was");
    ensure!(ann.prints(&asleep, "cat /home/sandbox/kept").await? == "kept\n", "the other is not woken");
    let bob = place.hostd.caller("acme", "bob", "run").await?;
    ensure!(bob.get(&format!("/v1/sandboxes/{id}")).await?.status == 404, "it is still ann's alone");
    for id in [&id, &asleep] {
        place.destroy(id).await?;
    }
    place.holds(&[], &[])?;
    passed()
}

/// Returns the events that the sandbox itself sent for a task.
fn told(events: &[TaskEventView]) -> Vec<Value> {
    let told = events.iter().filter(|event| event.number.is_some());
    told.map(|event| json!([event.number, event.kind, event.fact])).collect()
}

pub async fn adopted_tasks(column: Arc<Column>) -> Verdict {
    let (mut place, id) = Fixture::one(&column).await?;
    let asleep = place.caller.create(&json!({})).await?;
    let echo = json!({"prompt": "x", "command": ["echo", "said"]});
    let jobs = [place.caller.submit(&id, &echo).await?, place.caller.submit(&asleep, &echo).await?];
    let before = [place.caller.events_of(&jobs[0]).await?, place.caller.events_of(&jobs[1]).await?];
    place.brings(&asleep, "stop", "stopped").await?;
    let wait = "echo begun; touch /home/sandbox/begun; until [ -e /home/sandbox/go ]; do sleep 0.05; done; echo gone on";
    let live = json!({"prompt": "x", "command": ["sh", "-c", wait]});
    let live = place.caller.submit(&id, &live).await?;
    place.caller.prints(&id, "until [ -e /home/sandbox/begun ]; do sleep 0.05; done").await?;
    place.hostd.kill().await?;
    lose_database(&place)?;
    place.crash().await?;
    for (job, before) in jobs.iter().zip(&before) {
        let task: Value = place.caller.get(&job.path()).await?.expect(200)?;
        let seen = [&task["status"], &task["agent"], &task["recovered"], &task["prompt"]];
        ensure!(seen == [&json!("succeeded"), &json!("command"), &json!(true), &json!("")], "{task}");
        let after = place.caller.events_of(job).await?;
        ensure!(told(before) == told(&after), "{before:?}\n{after:?}");
    }
    ensure!(place.caller.sandbox(&asleep).await?["status"] == "stopped", "it was woken");
    let task: Value = place.caller.get(&live.path()).await?.expect(200)?;
    ensure!(task.get("result").is_none(), "{task}");
    place.caller.prints(&id, "touch /home/sandbox/go").await?;
    let events = place.caller.events_of(&live).await?;
    let numbers: Vec<u64> = events.iter().filter_map(|event| event.number).collect();
    ensure!(numbers == (1..=numbers.len() as u64).collect::<Vec<_>>(), "{events:?}");
    let messages: Vec<&Value> =
        events.iter().filter(|event| event.kind == "message").map(|event| &event.fact["text"]).collect();
    ensure!(messages == ["begun", "gone on"], "{events:?}");
    passed()
}

/// Lists stale objects.
async fn stale(caller: &Caller) -> Result<Vec<Value>> {
    let page: Value = caller.get("/v1/host/stale").await?.expect(200)?;
    page["items"].as_array().cloned().with_context(|| format!("items of {page}"))
}

fn is_told(stale: &[Value], name: &str) -> bool {
    stale.iter().any(|one| one["name"].as_str().is_some_and(|told| told.contains(name)))
}

pub async fn forged(column: Arc<Column>) -> Verdict {
    let mut place = Fixture::new(&column).await?;
    let ann = place.hostd.caller("acme", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    let (init, badge) = (place.init(&id)?, place.hostd.directory(&id).join("badge.json"));
    let genuine = std::fs::read_to_string(&badge)?;
    ensure!(genuine.contains("acme"), "{genuine}");
    place.hostd.kill().await?;
    lose_database(&place)?;
    std::fs::write(&badge, genuine.replace("acme", "evil"))?;
    place.crash().await?;
    let listed: Value = place.caller.get("/v1/sandboxes?all=1").await?.expect(200)?;
    ensure!(listed["items"] == json!([]), "{listed}");
    let told = stale(&place.caller).await?;
    ensure!(is_told(&told, &id), "{told:?}");
    ensure!(place.caller.delete(&format!("/v1/sandboxes/{id}")).await?.status == 404);
    ensure!(!init.is_gone(), "it was touched");
    std::fs::write(&badge, genuine)?;
    place.crash().await?;
    ensure!(place.caller.prints(&id, "echo alive").await? == "alive\n");
    passed()
}

/// Creates containers with copies of our labels, in every common way.
async fn counterfeit(place: &Fixture, id: &str) -> Result<Vec<String>> {
    let container = place.container(id)?;
    let labels = place.told(&["inspect", "--format", "{{json .Config.Labels}}", &container])?;
    let labels: Value = serde_json::from_str(&labels)?;
    let labels: Vec<String> = labels
        .as_object()
        .context("labels")?
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    let unique = &id[16..];
    let names = ["copied", "inherited", "incomplete"].map(|kind| format!("{kind}-{unique}"));
    let image = format!("slipway-test/committed-{unique}:1");
    place.told(&["commit", &container, &image])?;
    let run = |name: &str, labels: &[String], image: &str| {
        let labels = labels.iter().flat_map(|label| ["--label", label.as_str()]);
        let head = ["run", "--detach", "--network", "none", "--name", name, "--entrypoint", "/bin/sleep"];
        let binds = ["--volume", "/usr:/usr:ro", "--user", "0"];
        let all: Vec<&str> = head.into_iter().chain(binds).chain(labels).chain([image, "100000"]).collect();
        place.told(&all).map(drop)
    };
    run(&names[0], &labels, &image)?;
    // Labels of a container become its image's, and so those of every container made from that.
    run(&names[1], &[], &image)?;
    run(&names[2], &[place.label()?], &image)?;
    Ok(names.to_vec())
}

pub async fn copied(column: Arc<Column>) -> Verdict {
    if column.engine().is_none() {
        return Ok(Outcome::Meaningless);
    }
    let (mut place, id) = Fixture::one(&column).await?;
    let init = place.init(&id)?;
    let names = counterfeit(&place, &id).await?;
    place.crash().await?;
    let told = stale(&place.caller).await?;
    for name in &names {
        ensure!(is_told(&told, name), "{name} is not among {told:?}");
    }
    ensure!(!is_told(&told, &id), "our own is among {told:?}");
    place.brings(&id, "stop", "stopped").await?;
    place.brings(&id, "start", "running").await?;
    place.destroy(&id).await?;
    gone(&init).await?;
    for name in &names {
        let running = place.told(&["inspect", "--format", "{{.State.Running}}", name])?;
        ensure!(running == "true", "{name} was touched");
    }
    passed()
}

pub async fn two(column: Arc<Column>) -> Verdict {
    let (mut one, mine) = Fixture::one(&column).await?;
    let (two, theirs) = Fixture::one(&column).await?;
    let init = two.init(&theirs)?;
    one.hostd.kill().await?;
    lose_database(&one)?;
    one.crash().await?;
    for (place, own) in [(&one, &mine), (&two, &theirs)] {
        let listed: Value = place.caller.get("/v1/sandboxes?all=1").await?.expect(200)?;
        let ids: Vec<&str> = listed["items"]
            .as_array()
            .context("items")?
            .iter()
            .filter_map(|item| item["id"].as_str())
            .collect();
        ensure!(ids == [own.as_str()], "{listed}");
        ensure!(stale(&place.caller).await?.is_empty(), "the other is listed");
    }
    one.destroy(&mine).await?;
    ensure!(!init.is_gone() && two.caller.prints(&theirs, "echo alive").await? == "alive\n");
    passed()
}
