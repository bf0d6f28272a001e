//! Making a sandbox and waking one: what hostd adds to what the engine takes for it.

use super::hostd_on;
use super::raw_container::Raw;
use crate::{
    host::spec,
    idle_machine::calm,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::engines::{Engine, Kind};
use tests::{Caller, scaled};

/// The allowed ratio to the engine alone.
const OVERHEAD: Goal = Goal::AtMost(1.1);

#[derive(Default)]
struct Times {
    create: Vec<Duration>,
    wake: Vec<Duration>,
}

pub async fn rows(engine: &Engine) -> Result<Vec<Row>> {
    let mut raw = Raw::of(engine).await?;
    let hostd = hostd_on(&engine.socket()).await?;
    let caller = hostd.local();
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    // The first of each is slower than all others: not what anybody waits for twice.
    one_of_ours(&caller, &mut Times::default()).await?;
    one_of_theirs(&mut raw, &mut Times::default()).await?;
    for round in 0..scaled(12, 60) {
        // Each comes as often after itself as after the other: an engine clears up after it has answered.
        if round % 2 == 0 {
            one_of_ours(&caller, &mut ours).await?;
            one_of_theirs(&mut raw, &mut theirs).await?;
        } else {
            one_of_theirs(&mut raw, &mut theirs).await?;
            one_of_ours(&caller, &mut ours).await?;
        }
    }
    hostd.stop().await?;
    let name = match engine.kind() {
        Kind::Docker => "docker",
        Kind::Podman => "podman",
    };
    let row = |what: &str, verbs: &str, ours: Vec<Duration>, theirs: Vec<Duration>| {
        let (ours, theirs) = (median(ours), median(theirs));
        Row {
            what: format!("{name}: {what}").into(),
            ours: ms(ours),
            other: format!("raw {verbs} {}", ms(theirs)),
            ratio: ratio(ours, theirs),
            goal: OVERHEAD,
        }
    };
    Ok(vec![
        row("create until PID 1 answers", "create, start", ours.create, theirs.create),
        row("stopped until PID 1 answers", "start", ours.wake, theirs.wake),
    ])
}

async fn one_of_ours(caller: &Caller, times: &mut Times) -> Result<()> {
    calm().await?;
    let started = Instant::now();
    let id = caller.create(&spec()).await?;
    times.create.push(started.elapsed());
    let path = format!("/v1/sandboxes/{id}");
    caller.post(&format!("{path}/stop"), &json!({})).await?.expect::<Value>(200)?;
    calm().await?;
    let started = Instant::now();
    let woken: Value = caller.post(&format!("{path}/start"), &json!({})).await?.expect(200)?;
    times.wake.push(started.elapsed());
    ensure!(woken["status"] == "running", "{woken}");
    caller.delete(&path).await?.expect::<Value>(200)?;
    Ok(())
}

async fn one_of_theirs(raw: &mut Raw, times: &mut Times) -> Result<()> {
    calm().await?;
    let (container, create) = raw.create().await?;
    times.create.push(create);
    raw.stop(&container).await?;
    calm().await?;
    times.wake.push(raw.wake(&container).await?);
    raw.remove(container).await
}
