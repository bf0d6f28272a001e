//! Viewers of tasks: from wherever they go on, however many they are and however much they want to see.

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tests::host::until;
use tests::{Caller, Feed, Hostd, Job, Random, TaskFeed, complete, messages, scaled, shell};
use tokio::time::timeout;

async fn hostd_and_sandbox() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let caller = hostd.operator()?;
    let sandbox = caller.create(&json!({})).await?;
    Ok((hostd, caller, sandbox))
}

/// A task that waits for a file before it goes on.
async fn waiting(caller: &Caller, sandbox: &str, sign: &str) -> Result<(Job, TaskFeed)> {
    let line = format!("echo on; while ! [ -e {sign} ]; do sleep 0.02; done; echo seen; echo gone");
    let job = caller.submit(sandbox, &shell(&line)).await?;
    let mut feed = TaskFeed::open(caller, &job, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    Ok((job, feed))
}

#[tokio::test]
async fn what_is_no_number_of_an_event_is_refused() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let job = caller.submit(&sandbox, &shell("true")).await?;
    caller.result_of(&job).await?;
    let of_sandbox = format!("/v1/sandboxes/{sandbox}/events?follow=1");
    for path in [job.events(), "/v1/events".to_owned(), of_sandbox] {
        for wrong in ["abc", "-1", "1.5", "", "1 2", "0x10", "18446744073709551616", "\u{e4}", "1;2"] {
            let request = Request::get(&path).header("accept", "text/event-stream");
            let request = request.header("last-event-id", wrong).body(Full::default())?;
            let reply = caller.call(request).await?;
            let field = reply.error()?.detail.field;
            ensure!(
                reply.status == 400 && field.as_deref() == Some("Last-Event-ID"),
                "{wrong}: {}",
                reply.text()
            );
        }
    }
    for wrong in ["abc", "-1", "1.5", "18446744073709551616"] {
        let reply = caller.get(&format!("{}?since={wrong}", job.events())).await?;
        ensure!(reply.status == 400, "{wrong}: {}", reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn from_whatever_number_a_viewer_goes_on_it_gets_what_comes_after_it_and_the_end() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let other = caller.create(&json!({})).await?;
    let (first, mut seen) = waiting(&caller, &sandbox, "sign").await?;
    // Events of others lie between those of the task.
    let others = caller.events_of(&caller.submit(&other, &shell("seq 20")).await?).await?;
    let between = [others[0].seq, others[others.len() / 2].seq, others[others.len() - 1].seq];
    let beyond = [others[others.len() - 1].seq + 100_000, u64::from(u32::MAX), i64::MAX as u64];
    let mut viewers = Vec::new();
    for from in [&between[..], &beyond[..], &[0, 1, seen.seen - 1, seen.seen]].concat() {
        let header = Request::get(first.events()).header("last-event-id", from.to_string());
        let query = Request::get(format!("{}?since={from}", first.events()));
        let both =
            Request::get(format!("{}?since=1", first.events())).header("last-event-id", from.to_string());
        let all = Request::get(format!("/v1/events?sandbox={sandbox}&task={}", first.id))
            .header("last-event-id", from.to_string());
        for request in [header, query, both, all] {
            // Beyond the newest event nothing was seen yet: everything from now on comes.
            let least = if beyond.contains(&from) { seen.seen } else { from };
            let feed = TaskFeed::ask(&caller, request, least).await?.context("a stream of a running task")?;
            viewers.push((from, least, feed));
        }
    }
    caller.prints(&sandbox, "touch /home/sandbox/workspace/app/sign").await?;
    seen.rest().await?;
    complete(&seen.events)?;
    ensure!(messages(&seen.events) == ["on", "seen", "gone"], "{:?}", seen.events);
    for (from, least, mut feed) in viewers {
        feed.rest().await.with_context(|| format!("the stream from {from} does not end"))?;
        let rest: Vec<_> = seen.events.iter().filter(|event| event.seq > least).cloned().collect();
        ensure!(feed.events == rest, "from {from}: {:?} in place of {rest:?}", feed.events);
    }
    Ok(())
}

#[tokio::test]
async fn who_has_seen_the_end_is_told_so_wherever_it_asks() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let job = caller.submit(&sandbox, &shell("echo x")).await?;
    let events = caller.events_of(&job).await?;
    let done = events.last().context("done")?.seq;
    let filtered = format!("/v1/events?sandbox={sandbox}&task={}", job.id);
    for path in [job.events(), filtered] {
        for from in [done, done + 1, i64::MAX as u64] {
            let request = Request::get(&path).header("last-event-id", from.to_string());
            ensure!(TaskFeed::ask(&caller, request, from).await?.is_none(), "{path} from {from}");
        }
        let request = Request::get(&path).header("last-event-id", (done - 1).to_string());
        let mut feed = TaskFeed::ask(&caller, request, done - 1).await?.context("a stream")?;
        feed.rest().await?;
        ensure!(feed.events == events[events.len() - 1..], "{:?}", feed.events);
    }
    Ok(())
}

#[tokio::test]
async fn who_reads_a_long_log_from_its_start_delays_nobody_who_follows() -> Result<()> {
    let (_hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let count = scaled(100_000, 1_000_000);
    let long = caller.submit(&sandbox, &shell(&format!("seq {count}"))).await?;
    let all = caller.events_of(&long).await?.len();
    let live_line = "for i in $(seq 60); do echo $i; sleep 0.02; done";
    let live = caller.submit(&sandbox, &shell(live_line)).await?;
    let mut feed = TaskFeed::open(&caller, &live, 0).await?.context("a stream")?;
    feed.until(|event| event.kind == "message").await?;
    let (over, replays) = (AtomicBool::new(false), AtomicUsize::new(0));
    // From the start, again and again, as long as the other one lives.
    let replay = async |_| {
        while !over.load(Ordering::Relaxed) {
            let mut feed = TaskFeed::open(&caller, &long, 0).await?.context("a stream")?;
            while feed.next().await?.is_some() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            replays.fetch_add(feed.events.len(), Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    let mut worst = Duration::ZERO;
    let follow = async {
        let mut last = Instant::now();
        while feed.next().await?.is_some() {
            worst = worst.max(last.elapsed());
            last = Instant::now();
        }
        over.store(true, Ordering::Relaxed);
        anyhow::Ok(())
    };
    tokio::try_join!(try_join_all((0..3).map(replay)), follow)?;
    complete(&feed.events)?;
    let replayed = replays.load(Ordering::Relaxed);
    eprintln!("{replayed} events replayed meanwhile, longest silence {worst:?}");
    ensure!(messages(&feed.events).len() == 60);
    ensure!(replayed > 0, "no viewer read the long log");
    ensure!(caller.pages_of(&long).await?.len() == all);
    // Everything there is, as one stream.
    let mut everything = Feed::open(&caller, "/v1/events", 0).await?;
    everything.until(|event| event.seq == feed.seen).await?;
    Ok(())
}

/// Open sockets and resident memory. The database is read through connections that stay open.
fn footprint(hostd: &Hostd) -> Result<(usize, u64)> {
    let pid = hostd.pid()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let bytes = rss.trim().trim_end_matches(" kB").parse::<u64>()? << 10;
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let is_socket = |path: std::path::PathBuf| path.to_string_lossy().starts_with("socket:");
    let sockets = open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(is_socket)).count();
    Ok((sockets, bytes))
}

/// Thread-local caches: at most 100 bytes for each of 40,000 viewers.
const LEFT_MAX_BYTES: u64 = 4 << 20;
/// Free memory that hostd may retain, plus an allowance for later allocations.
const KEPT_MAX_BYTES: u64 = 12 << 20;

/// Memory that hostd uses, whatever its allocator keeps beside it.
async fn allocated(caller: &Caller) -> Result<u64> {
    let metrics = caller.get("/metrics").await?.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix("slipway_memory_allocated_bytes "));
    Ok(line.context("how much is allocated")?.parse()?)
}

#[tokio::test]
async fn viewers_that_hang_up_at_once_leave_nothing_behind() -> Result<()> {
    let (hostd, caller, sandbox) = hostd_and_sandbox().await?;
    let (job, mut feed) = waiting(&caller, &sandbox, "sign").await?;
    let mut random = Random::seeded();
    let mut storm = async || {
        let moments: Vec<u64> = (0..scaled(200, 2_000)).map(|_| random.below(20_000)).collect();
        let all = moments.into_iter().map(async |moment| {
            // Before the answer, in it, or while it waits.
            let _ = timeout(Duration::from_micros(moment), async {
                let mut feed = TaskFeed::open(&caller, &job, 0).await?.context("a stream")?;
                feed.rest().await
            })
            .await;
        });
        futures_util::future::join_all(all).await
    };
    let (before, _) = footprint(&hostd)?;
    storm().await;
    until("the first are gone", async || Ok((footprint(&hostd)?.0 <= before).then_some(()))).await?;
    let ((_, warm), used_before) = (footprint(&hostd)?, allocated(&caller).await?);
    for _ in 0..scaled(3, 20) {
        storm().await;
    }
    until("they are all gone", async || Ok((footprint(&hostd)?.0 <= before).then_some(()))).await?;
    // Nothing of them is used any more, and what the allocator keeps of it is given back.
    eprintln!("{before} sockets, {used_before} bytes used, {warm} bytes resident at first");
    until("what they used is free", async || {
        Ok((allocated(&caller).await? < used_before + LEFT_MAX_BYTES).then_some(()))
    })
    .await?;
    until("memory is given back", async || {
        let (_, after) = footprint(&hostd)?;
        Ok((after < warm + KEPT_MAX_BYTES).then_some(()))
    })
    .await?;
    caller.prints(&sandbox, "touch /home/sandbox/workspace/app/sign").await?;
    feed.rest().await?;
    complete(&feed.events)?;
    let task: Value = caller.get(&job.path()).await?.expect(200)?;
    ensure!(task["status"] == "succeeded", "{task}");
    Ok(())
}
