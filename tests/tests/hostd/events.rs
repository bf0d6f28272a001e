//! The event log: complete, in order, each event once, whatever happens to its readers.

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, stream};
use protocol::api::EventView;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::{Feed, Hostd, Random, scaled};

fn kinds(events: &[EventView]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// The exec an event is about.
fn about<'a>(event: &'a EventView, kind: &str) -> Option<&'a str> {
    (event.kind == kind).then(|| event.data["exec"].as_str()).flatten()
}

fn is(event: &EventView, kind: &str) -> bool {
    event.kind == kind
}

#[tokio::test]
async fn a_life_is_told_from_its_beginning_to_its_end() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &json!({"id": "e1", "shell": "exit 3"})).await?;
    for verb in ["pause", "resume", "stop", "start"] {
        operator.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
    }
    operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    let mut feed = Feed::open(&operator, &format!("/v1/sandboxes/{id}/events"), 0).await?;
    let events = feed.until(|event| is(event, "sandbox.destroyed")).await?;
    ensure!(events.iter().all(|event| event.sandbox.as_str() == id));
    let seen = kinds(&events);
    let moves: Vec<&str> = seen
        .iter()
        .copied()
        .filter(|kind| kind.starts_with("sandbox.") && *kind != "sandbox.wanted")
        .collect();
    let expected = ["created", "running", "paused", "running", "stopped", "running", "destroyed"];
    ensure!(moves == expected.map(|kind| format!("sandbox.{kind}")), "{seen:?}");
    ensure!(seen.iter().filter(|kind| **kind == "boot").count() == 2, "{seen:?}");
    for kind in ["exec.started", "exec.ended"] {
        let told: Vec<_> = events.iter().filter_map(|event| about(event, kind)).collect();
        ensure!(told == ["e1"], "{kind}: {told:?}");
    }
    let ended = events.iter().find(|event| is(event, "exec.ended")).context("its end")?;
    ensure!(
        ended.data["exit"] == json!({"kind": "exited", "code": 3}) && ended.origin.is_some(),
        "{ended:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_page_and_a_stream_tell_the_same() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    operator.prints(&id, "true").await?;
    operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    let mut feed = Feed::open(&operator, "/v1/events", 0).await?;
    let streamed = feed.until(|event| is(event, "sandbox.destroyed")).await?;
    for base in ["/v1/events?follow=0", &format!("/v1/sandboxes/{id}/events?follow=0")] {
        let (mut paged, mut after) = (Vec::new(), 0);
        loop {
            let page: Value = operator.get(&format!("{base}&limit=3&after={after}")).await?.expect(200)?;
            let items: Vec<EventView> = serde_json::from_value(page["items"].clone())?;
            paged.extend(items);
            let Some(next) = page["next"].as_str() else { break };
            after = next.parse()?;
        }
        ensure!(paged == streamed, "{base}");
    }
    Ok(())
}

#[tokio::test]
async fn filters_let_through_what_they_name() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let (one, other) = (operator.create(&json!({})).await?, operator.create(&json!({})).await?);
    for id in [&one, &other] {
        operator.prints(id, "true").await?;
        operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    }
    let table: [(String, &[&str], &[&str]); 4] = [
        ("?kind=sandbox.destroyed".into(), &[&one, &other], &["sandbox.destroyed"]),
        (format!("?sandbox={one}&kind=exec."), &[&one], &["exec.started", "exec.ended"]),
        (format!("?sandbox={other}&kind=boot,sandbox.cr"), &[&other], &["sandbox.created", "boot"]),
        ("?kind=nothing".into(), &[], &[]),
    ];
    for (query, sandboxes, expected) in table {
        let page: Value = operator.get(&format!("/v1/events{query}&follow=0")).await?.expect(200)?;
        let events: Vec<EventView> = serde_json::from_value(page["items"].clone())?;
        let from: BTreeSet<&str> = events.iter().map(|event| event.sandbox.as_str()).collect();
        ensure!(from == sandboxes.iter().copied().collect(), "{query}: {from:?}");
        let found: BTreeSet<&str> = kinds(&events).into_iter().collect();
        ensure!(found == expected.iter().copied().collect(), "{query}: {found:?}");
    }
    Ok(())
}

/// Runs commands with ids that say their turn.
async fn busy(caller: &tests::Caller, id: &str, turn: usize) -> Result<()> {
    for n in 0..3 {
        let body = json!({"id": format!("e{turn}-{n}"), "argv": ["true"]});
        caller.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(200)?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reader_that_comes_back_misses_nothing_and_sees_nothing_twice_even_across_crashes() -> Result<()> {
    let mut random = Random::seeded();
    let mut hostd = Hostd::start().await?;
    let id = hostd.operator()?.create(&json!({})).await?;
    let (mut seen, mut events): (u64, Vec<EventView>) = (0, Vec::new());
    let turns = scaled(4, 40);
    for turn in 0..turns {
        let operator = hostd.operator()?;
        let mut feed = Feed::open(&operator, "/v1/events", seen).await?;
        tokio::try_join!(busy(&operator, &id, turn), async {
            // Leaves in the middle of things.
            for _ in 0..random.below(6) {
                events.push(feed.next().await?.context("it goes on")?);
            }
            Ok(())
        })?;
        seen = feed.seen;
        drop(feed);
        if turn % 2 == 0 {
            hostd.crash().await?;
        }
    }
    let operator = hostd.operator()?;
    operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    let mut feed = Feed::open(&operator, "/v1/events", seen).await?;
    events.extend(feed.until(|event| is(event, "sandbox.destroyed")).await?);
    let page: Value = operator.get("/v1/events?follow=0&limit=1000").await?.expect(200)?;
    let all: Vec<EventView> = serde_json::from_value(page["items"].clone())?;
    ensure!(events == all, "{:?}\n{:?}", kinds(&events), kinds(&all));
    for kind in ["exec.started", "exec.ended"] {
        let mut told: Vec<&str> = events.iter().filter_map(|event| about(event, kind)).collect();
        let expected = (0..turns).flat_map(|turn| (0..3).map(move |n| format!("e{turn}-{n}")));
        let mut expected: Vec<String> = expected.collect();
        told.sort_unstable();
        expected.sort();
        ensure!(told == expected, "{kind}: {told:?}");
    }
    let origins: BTreeSet<String> = events.iter().filter_map(|e| e.origin.map(|o| o.to_string())).collect();
    ensure!(
        origins.len() == events.iter().filter(|event| event.origin.is_some()).count(),
        "an origin comes twice"
    );
    Ok(())
}

#[tokio::test]
async fn what_happened_just_before_a_sandbox_is_destroyed_is_not_lost() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let lives = (0..scaled(12, 200)).map(|n| {
        let operator = &operator;
        async move {
            let id = operator.create(&json!({})).await?;
            busy(operator, &id, n).await?;
            operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
            let path = format!("/v1/sandboxes/{id}/events?kind=exec.ended");
            let page: Value = operator.get(&path).await?.expect(200)?;
            let events: Vec<EventView> = serde_json::from_value(page["items"].clone())?;
            let told: Vec<&str> = events.iter().filter_map(|event| about(event, "exec.ended")).collect();
            ensure!(told == [0, 1, 2].map(|i| format!("e{n}-{i}")), "{told:?}");
            anyhow::Ok(())
        }
    });
    // Several at once, so that the event follower is under load.
    let lives: Vec<_> = stream::iter(lives).buffer_unordered(4).collect().await;
    lives.into_iter().collect()
}

#[tokio::test]
async fn how_commands_ended_when_a_sandbox_was_stopped_is_known_without_another_start() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({})).await?;
    let path = format!("/v1/sandboxes/{id}");
    let endless = json!({"id": "endless", "argv": ["sleep", "100000"], "wait": false});
    operator.post(&format!("{path}/execs"), &endless).await?.expect::<Value>(202)?;
    operator.post(&format!("{path}/stop"), &json!({})).await?.expect::<Value>(200)?;
    let page: Value = operator.get(&format!("{path}/events?kind=exec.ended,shutdown")).await?.expect(200)?;
    let events: Vec<EventView> = serde_json::from_value(page["items"].clone())?;
    ensure!(events.iter().any(|event| about(event, "exec.ended") == Some("endless")), "{events:?}");
    let exec: Value = operator.get(&format!("{path}/execs/endless")).await?.expect(200)?;
    ensure!(exec["exit"]["kind"] == "cancelled" || exec["exit"]["kind"] == "signalled", "{exec}");
    Ok(())
}

#[tokio::test]
async fn an_open_stream_gets_what_happens_now_and_ends_when_hostd_stops() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let mut feed = Feed::open(&operator, "/v1/events", 0).await?;
    let id = operator.create(&json!({})).await?;
    feed.until(|event| is(event, "sandbox.running")).await?;
    operator.prints(&id, "true").await?;
    feed.until(|event| is(event, "exec.ended")).await?;
    let (stopped, rest) = tokio::join!(hostd.stop(), feed.next());
    stopped?;
    ensure!(rest?.is_none(), "the stream ends in order");
    Ok(())
}

#[tokio::test]
async fn a_wrong_place_to_go_on_from_is_refused() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    for text in ["x", "-1", "1.5", "99999999999999999999999"] {
        let request = hyper::Request::get("/v1/events").header("last-event-id", text);
        let reply = operator.call(request.body(bytes::Bytes::new().into())?).await?;
        ensure!(reply.status == 400, "{text}: {}", reply.status);
        ensure!(operator.get(&format!("/v1/events?follow=0&after={text}")).await?.status == 400, "{text}");
    }
    let none: Value = operator.get("/v1/events?follow=0&after=99999999").await?.expect(200)?;
    ensure!(none["items"] == json!([]), "{none}");
    Ok(())
}
