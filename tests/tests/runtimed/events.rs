//! The event stream: every fact once, in order, from any cursor on, over any number of connections.

use anyhow::{Context, Result, ensure};
use http_body_util::Empty;
use hyper::{Method, Request};
use protocol::{Cursor, ErrorCode, Event, Fact};
use serde_json::json;
use std::collections::BTreeSet;
use tests::events::{EventStream, events_after, events_so_far};
use tests::raw_http::Wire;
use tests::shell::{cancel_now, shell};
use tests::{Client, Random, Sandbox, scaled};
use tokio::task::JoinSet;

/// Makes two events.
async fn hold_and_release(client: &Client, name: &str) -> Result<()> {
    let path = format!("/v1/holds/{name}");
    let taken = client.put(&path, &json!({})).await?;
    let released = client.send(Method::DELETE, &path, bytes::Bytes::new()).await?;
    ensure!((taken.status, released.status) == (200, 204), "{} {}", taken.text(), released.text());
    Ok(())
}

const SERVICE: &str = "services: {web: {command: \"echo up; exec sleep 1000\"}}";

/// Every kind there is.
const KINDS: [&str; 16] = [
    "boot",
    "exec.ended",
    "exec.forgotten",
    "exec.gone",
    "exec.started",
    "exec.trimmed",
    "gap",
    "hold.released",
    "hold.taken",
    "manifest.loaded",
    "manifest.rejected",
    "service.ended",
    "service.removed",
    "service.started",
    "service.state",
    "shutdown",
];

#[tokio::test]
async fn every_kind_of_event_is_told_with_its_fields() -> Result<()> {
    let mut sandbox = Sandbox::start_with(&["RUNTIMED_LOG_BUDGET_MB=16"]).await?;
    let client = sandbox.client();
    let mut events = EventStream::open(client).await?;
    sandbox.write_app("sandbox.yaml", SERVICE)?;
    events.until(|fact| matches!(fact, Fact::ServiceStarted { .. })).await?;
    sandbox.write_app("sandbox.yaml", "services: 7")?;
    let rejected = events.until(|fact| matches!(fact, Fact::ManifestRejected { .. })).await?;
    ensure!(matches!(rejected.fact, Fact::ManifestRejected { line: Some(1), .. }), "{rejected:?}");
    std::fs::remove_file(sandbox.app().join("sandbox.yaml"))?;
    events.until(|fact| matches!(fact, Fact::ServiceRemoved { .. })).await?;
    hold_and_release(client, "kept").await?;
    client.exec(json!({"id": "old", "shell": "(setsid sleep 1000 >/dev/null 2>&1 &) ; exit 3"})).await?;
    cancel_now(client, "old").await?;
    events.until(|fact| matches!(fact, Fact::ExecGone { .. })).await?;
    // More than all logs together may take.
    let much = json!({"id": "much", "shell": "head -c 30000000 /dev/zero"});
    client.exec(much).await?;
    sandbox.signal(nix::sys::signal::Signal::SIGTERM)?;
    sandbox.wait().await?;
    make_old(&sandbox, "old")?;
    append_to_the_event_log(&sandbox)?;
    let sandbox = sandbox.boot_again().await?;
    let all = events_so_far(sandbox.client()).await?;
    let kinds: BTreeSet<&str> = all.iter().map(|event| event.fact.kind()).collect();
    ensure!(kinds.into_iter().eq(KINDS), "{all:#?}");
    ensure!(all.is_sorted_by_key(|event| event.time_ms), "time goes back");
    sandbox.stop().await
}

/// Lets an exec have ended long ago, so that it is forgotten.
fn make_old(sandbox: &Sandbox, id: &str) -> Result<()> {
    let path = sandbox.control_dir().join("execs.log");
    let text = std::fs::read_to_string(&path)?;
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut value: serde_json::Value = serde_json::from_str(line)?;
        if value["end"]["id"] == id {
            value["end"]["end"]["ended_ms"] = json!(1);
        }
        lines.push(value.to_string() + "\n");
    }
    Ok(std::fs::write(path, lines.concat())?)
}

fn append_to_the_event_log(sandbox: &Sandbox) -> Result<()> {
    use std::io::Write;
    let newest = std::fs::read_dir(sandbox.control_dir().join("events"))?.flatten().map(|e| e.path()).max();
    let mut file = std::fs::OpenOptions::new().append(true).open(newest.context("an event log")?)?;
    Ok(file.write_all(b"torn")?)
}

#[tokio::test]
async fn a_stream_begins_where_it_is_asked_to_and_ends_when_it_is_not_to_follow() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    for _ in 0..5 {
        hold_and_release(client, "h").await?;
    }
    let all = events_so_far(client).await?;
    ensure!(all.len() == 11, "{all:?}");
    let middle = all[4].cursor;
    let get = |target: String| Request::get(target).body(Empty::new());
    let by_header = Request::get("/v1/events?follow=0").header("last-event-id", middle.to_string());
    let both = format!("/v1/events?follow=false&after={}", all[8].cursor);
    // A browser that comes back repeats the address it was given and adds where it was: that counts.
    let both = Request::get(both).header("last-event-id", middle.to_string());
    for request in [
        get(format!("/v1/events?follow=0&after={middle}"))?,
        by_header.body(Empty::new())?,
        both.body(Empty::new())?,
    ] {
        let target = request.uri().to_string();
        let rest = EventStream::open_with(client, request, middle).await?.rest().await?;
        ensure!(rest == all[5..], "{target}: {rest:?}");
    }
    let at_the_end = events_after(client, all[10].cursor).await?;
    ensure!(at_the_end.is_empty(), "{at_the_end:?}");
    // Without it the stream goes on.
    let mut stream = EventStream::open_after(client, all[10].cursor).await?;
    hold_and_release(client, "h").await?;
    ensure!(stream.next().await?.context("goes on")?.fact.kind() == "hold.taken");
    sandbox.stop().await
}

#[tokio::test]
async fn a_cursor_that_is_none_is_refused_by_name() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let epoch = client.status().await?.epoch;
    let future = [format!("{epoch}.999"), format!("{}.1", epoch + 1), format!("{0}.{0}", u64::MAX)];
    let wrong = ["", "x", "1", "1.", ".1", "1.2.3", "-1.2", "1.18446744073709551616"];
    for cursor in wrong.into_iter().chain(future.iter().map(String::as_str)) {
        let answer = client.get(&format!("/v1/events?after={cursor}&follow=0")).await?;
        let error = answer.error().context(cursor.to_owned())?.error;
        ensure!(error.code == ErrorCode::InvalidRequest && answer.status == 400, "{cursor:?}: {error:?}");
        ensure!(error.detail.field.as_deref() == Some("after"), "{cursor:?}: {error:?}");
        let request = Request::get("/v1/events?follow=0").header("last-event-id", cursor);
        let answer = client.open(request.body(Empty::<bytes::Bytes>::new())?).await?;
        ensure!(answer.status() == 400, "{cursor:?} in the header: {}", answer.status());
    }
    for query in ["follow=maybe", "since=1.1", "after=1.1&after=1.2"] {
        let answer = client.get(&format!("/v1/events?{query}")).await?;
        ensure!(answer.status == 400, "{query}: {} {}", answer.status, answer.text());
    }
    let answer = client.post("/v1/events", &json!({})).await?;
    ensure!(answer.code()? == ErrorCode::MethodNotAllowed, "{}", answer.text());
    sandbox.stop().await
}

#[tokio::test]
async fn no_event_is_missed_or_seen_twice_over_many_reconnects() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let mut random = Random::seeded();
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        readers.spawn(reconnecting(sandbox.client().clone(), random.branch()));
    }
    for number in 0..scaled(300, 20_000) {
        hold_and_release(sandbox.client(), &format!("h{}", number % 7)).await?;
    }
    hold_and_release(sandbox.client(), "last").await?;
    let all = events_so_far(sandbox.client()).await?;
    while let Some(seen) = readers.join_next().await {
        let (seen, connections) = seen??;
        ensure!(seen == all, "{} of {}", seen.len(), all.len());
        ensure!(connections > 10, "only {connections} connections");
    }
    sandbox.stop().await
}

/// Reads a few events on each connection, until one that says it is the last.
async fn reconnecting(client: Client, mut random: Random) -> Result<(Vec<Event>, u32)> {
    let (mut seen, mut connections) = (Vec::<Event>::new(), 0);
    loop {
        connections += 1;
        let cursor = seen.last().map(|event| event.cursor).unwrap_or_default();
        let mut stream = EventStream::open_after(&client, cursor).await?;
        for _ in 0..random.below(30) {
            let event = stream.next().await?.context("the stream ended")?;
            let last = matches!(&event.fact, Fact::HoldReleased { hold, .. } if hold.as_str() == "last");
            seen.push(event);
            if last {
                return Ok((seen, connections));
            }
        }
    }
}

#[tokio::test]
async fn a_slow_reader_gets_everything_and_holds_nobody_up() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut slow = EventStream::open(client).await?;
    // More than any buffer between the two holds.
    for number in 0..scaled(1_500, 40_000) {
        hold_and_release(client, &format!("h{}", number % 32)).await?;
    }
    ensure!(shell(client, "echo on").await? == "on\n");
    let all = events_so_far(client).await?;
    for expected in &all {
        let event = slow.next().await?.context("the stream ended")?;
        ensure!(event == *expected, "{event:?} in place of {expected:?}");
    }
    sandbox.stop().await
}

#[tokio::test]
async fn trimmed_history_is_gone_and_the_answer_says_where_it_begins_now() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    hold_and_release(sandbox.client(), "h").await?;
    let first = events_so_far(sandbox.client()).await?;
    // Each boot begins a file; the oldest of them is what is trimmed.
    let sandbox = sandbox.crash_and_boot().await?;
    let client = sandbox.client();
    let file = std::fs::read_dir(sandbox.control_dir().join("events"))?.flatten().map(|e| e.path()).min();
    std::fs::remove_file(file.context("an event log")?)?;
    let oldest = Cursor { epoch: client.status().await?.epoch, seq: 1 };
    for event in &first {
        let answer = client.get(&format!("/v1/events?after={}", event.cursor)).await?;
        let error = answer.error()?.error;
        ensure!(error.code == ErrorCode::HistoryGone && answer.status == 410, "{error:?}");
        ensure!(error.detail.oldest == Some(oldest.to_string()), "{error:?}");
    }
    let kept = events_so_far(client).await?;
    ensure!(kept.first().is_some_and(|event| event.cursor == oldest), "{kept:?}");
    // A cursor right before the oldest event proves that no event is missing.
    let all = events_after(client, Cursor { seq: 0, ..oldest }).await?;
    ensure!(all == kept, "{all:?}");
    sandbox.stop().await
}

/// Fills the log until its beginning is trimmed: 16 MiB of events, so only in a soak.
#[tokio::test]
async fn a_full_log_loses_its_beginning_and_nothing_else() -> Result<()> {
    if scaled(0, 1) == 0 {
        return Ok(());
    }
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let first = events_so_far(client).await?[0].cursor;
    let mut follower = EventStream::open(client).await?;
    while client.get(&format!("/v1/events?follow=0&after={first}")).await?.status == 200 {
        for number in 0..500 {
            hold_and_release(client, &format!("hold-{number:058}")).await?;
        }
        // A follower that keeps up sees no end of it.
        for _ in 0..1000 {
            follower.next().await?.context("the stream ended")?;
        }
    }
    let kept = events_so_far(client).await?;
    let gapless = kept.windows(2).all(|pair| pair[1].cursor.seq == pair[0].cursor.seq + 1);
    ensure!(gapless && kept[0].cursor > first, "from {}", kept[0].cursor);
    let size: u64 = std::fs::read_dir(sandbox.control_dir().join("events"))?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum::<Result<u64>>()?;
    ensure!(size <= 18 << 20, "{size} bytes");
    sandbox.stop().await
}

/// A dead connection is found by writing to it. Takes as long as a heart beats, so only in a soak.
#[tokio::test]
async fn a_stream_without_events_has_a_heartbeat() -> Result<()> {
    if scaled(0, 1) == 0 {
        return Ok(());
    }
    let sandbox = Sandbox::start().await?;
    let socket = sandbox.control_dir().join("sock");
    let mut wire = Wire::send(&socket, "GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").await?;
    wire.until(": still here\n\n").await?;
    sandbox.stop().await
}

#[tokio::test]
async fn followers_are_limited_and_one_that_goes_makes_room() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    let mut streams = Vec::new();
    for _ in 0..256 {
        streams.push(EventStream::open(client).await?);
    }
    let answer = client.get("/v1/events").await?;
    ensure!(answer.code()? == ErrorCode::TooMany && answer.status == 429, "{}", answer.text());
    ensure!(shell(client, "echo on").await? == "on\n", "other requests are answered");
    streams.truncate(200);
    // The next event finds those who are gone.
    hold_and_release(client, "h").await?;
    for stream in &mut streams {
        stream.until(|fact| matches!(fact, Fact::HoldReleased { .. })).await?;
    }
    streams.push(EventStream::open(client).await?);
    sandbox.stop().await
}
