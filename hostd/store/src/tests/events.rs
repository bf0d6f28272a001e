use super::{kinds, with_one};
use crate::{EventFilter, ExecBegun, ExecEnd, ExecRecord, Store, StoreError, Topic};
use hostd_core::Blueprint;
use protocol::{
    Cursor, Event, ExecId, Exit, Fact, Hint,
    api::{AttemptRelation, SandboxId},
};
use serde_json::json;

fn cursor(epoch: u64, seq: u64) -> Cursor {
    Cursor { epoch, seq }
}

fn event(epoch: u64, seq: u64, time_ms: u64, fact: Fact) -> Event {
    Event { cursor: cursor(epoch, seq), time_ms, fact }
}

fn boot() -> Fact {
    Fact::Boot { version: "1".to_owned(), pid1: true }
}

fn gap() -> Fact {
    Fact::Gap { lost_bytes: 1, lost_events: 2, reason: "torn".to_owned() }
}

fn ended(exec: &str) -> Fact {
    let exec = ExecId::parse(exec).unwrap();
    Fact::ExecEnded {
        exec,
        exit: Exit::Exited { code: 3 },
        hints: vec![Hint::Leaky],
        output_end: 9,
        background: 0,
    }
}

async fn begin(store: &Store, sandbox: SandboxId, id: &str, started_ms: u64) -> ExecId {
    let exec = ExecRecord {
        sandbox,
        id: ExecId::parse(id).unwrap(),
        argv: vec!["echo".to_owned(), "hello".to_owned()],
        cwd: "/app".to_owned(),
        tty: true,
        request_hash: [7; 32],
        started_ms,
        ended_ms: None,
        exit: None,
        hints: vec![],
    };
    assert_eq!(store.begin_exec(exec.clone()).await.unwrap(), ExecBegun::New);
    assert_eq!(store.begin_exec(exec.clone()).await.unwrap(), ExecBegun::Same(Box::new(exec.clone())));
    let other = ExecRecord { request_hash: [8; 32], ..exec.clone() };
    assert_eq!(store.begin_exec(other).await.unwrap(), ExecBegun::Conflict);
    exec.id
}

async fn exit_of(store: &Store, sandbox: &SandboxId, exec: &ExecId) -> Option<Exit> {
    store.exec(sandbox, exec).await.unwrap().unwrap().exit
}

#[tokio::test]
async fn events_given_twice_are_there_once_and_the_cursor_goes_on() {
    let (_dir, store, id) = with_one().await;
    let first = vec![event(1, 1, 10, boot()), event(1, 2, 11, gap())];
    assert_eq!(store.append_events(&id, first.clone()).await.unwrap(), cursor(1, 2));
    assert_eq!(store.append_events(&id, first.clone()).await.unwrap(), cursor(1, 2));
    let overlap = vec![first[1].clone(), event(1, 3, 12, gap()), event(2, 1, 13, boot())];
    assert_eq!(store.append_events(&id, overlap).await.unwrap(), cursor(2, 1));
    assert_eq!(store.append_events(&id, vec![]).await.unwrap(), cursor(2, 1));
    assert_eq!(store.sandbox(&id).await.unwrap().unwrap().followed, cursor(2, 1));
    assert_eq!(kinds(&store).await, ["sandbox.created", "boot", "gap", "gap", "boot"]);
    let read = store.events(EventFilter::default(), 2, 1).await.unwrap().remove(0);
    assert_eq!((read.origin, read.time_ms), (Some(cursor(1, 2)), 11));
    assert_eq!(read.data, json!({ "lost_bytes": 1, "lost_events": 2, "reason": "torn" }));
    assert_eq!(*store.head().borrow(), 5);
}

#[tokio::test]
async fn more_events_than_one_write_takes_all_arrive() {
    let (_dir, store, id) = with_one().await;
    let many: Vec<_> = (1..=1_300).map(|seq| event(1, seq, 10, gap())).collect();
    assert_eq!(store.append_events(&id, many).await.unwrap(), cursor(1, 1_300));
    let last = store.events(EventFilter::default(), 1_300, 10).await.unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].origin, Some(cursor(1, 1_300)));
}

#[tokio::test]
async fn an_event_with_a_cursor_that_does_not_fit_is_left_out() {
    let (_dir, store, id) = with_one().await;
    let batch = vec![event(1, 1, 10, gap()), event(u64::MAX, 1, 10, gap()), event(1, 2, 10, gap())];
    assert_eq!(store.append_events(&id, batch).await.unwrap(), cursor(1, 2));
    assert_eq!(kinds(&store).await, ["sandbox.created", "gap", "gap"]);
}

#[tokio::test]
async fn an_end_in_the_log_ends_the_exec() {
    let (_dir, store, id) = with_one().await;
    let exec = begin(&store, id, "e1", 20).await;
    store.append_events(&id, vec![event(1, 1, 10, boot()), event(1, 2, 30, ended("e1"))]).await.unwrap();
    let found = store.exec(&id, &exec).await.unwrap().unwrap();
    assert_eq!((found.exit, found.ended_ms), (Some(Exit::Exited { code: 3 }), Some(30)));
    assert_eq!(found.hints, [Hint::Leaky]);
    // A later exit changes nothing.
    let other = ExecEnd { exit: Exit::Cancelled, hints: vec![], ended_ms: 40 };
    store.end_exec(&id, &exec, other).await.unwrap();
    assert_eq!(store.mark_execs_lost(&id, 50).await.unwrap(), 0);
    assert_eq!(exit_of(&store, &id, &exec).await, Some(Exit::Exited { code: 3 }));
}

#[tokio::test]
async fn a_boot_marks_earlier_execs_lost_and_a_real_exit_replaces_that() {
    let (_dir, store, id) = with_one().await;
    let (before, ended_before) = (begin(&store, id, "e1", 20).await, begin(&store, id, "e2", 20).await);
    let after = begin(&store, id, "e3", 200).await;
    let batch = vec![event(1, 5, 30, ended("e2")), event(2, 1, 100, boot())];
    store.append_events(&id, batch).await.unwrap();
    assert_eq!(exit_of(&store, &id, &before).await, Some(Exit::Lost));
    assert_eq!(exit_of(&store, &id, &ended_before).await, Some(Exit::Exited { code: 3 }));
    assert_eq!(exit_of(&store, &id, &after).await, None);
    assert_eq!(store.sandbox_of_open_exec(&after).await.unwrap(), Some(id));
    assert_eq!(store.sandbox_of_open_exec(&before).await.unwrap(), None);
    store.append_events(&id, vec![event(1, 6, 40, ended("e1"))]).await.unwrap();
    assert_eq!(exit_of(&store, &id, &before).await, Some(Exit::Exited { code: 3 }));
}

#[tokio::test]
async fn a_boot_of_a_later_attempt_loses_also_when_the_clock_jumped_back() {
    let (_dir, store, id) = with_one().await;
    let exec = begin(&store, id, "e1", 5_000).await;
    store.begin_attempt(&id, AttemptRelation::Restart, Blueprint::sample().into(), 100).await.unwrap();
    store.append_events(&id, vec![event(2, 1, 100, boot())]).await.unwrap();
    let found = store.exec(&id, &exec).await.unwrap().unwrap();
    assert_eq!((found.exit, found.ended_ms), (Some(Exit::Lost), Some(5_000)));
}

#[tokio::test]
async fn execs_are_paged_newest_first() {
    let (_dir, store, id) = with_one().await;
    for name in ["b", "a", "c"] {
        begin(&store, id, name, 1).await;
    }
    let names =
        |found: Vec<ExecRecord>| found.into_iter().map(|exec| exec.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(store.execs(&id, None, 2).await.unwrap()), ["c", "a"]);
    let after = ExecId::parse("a").unwrap();
    assert_eq!(names(store.execs(&id, Some(&after), 2).await.unwrap()), ["b"]);
    let missing = ExecEnd { exit: Exit::Lost, hints: vec![], ended_ms: 1 };
    let missing = store.end_exec(&id, &ExecId::parse("z").unwrap(), missing).await;
    assert!(matches!(missing, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn events_are_filtered() {
    let (_dir, store, id) = with_one().await;
    let mut other = super::new_sandbox(2, None);
    other.owner.tenant = super::label("other");
    super::insert(&store, other).await;
    store.record_event(&id, "limit.memory", json!({ "mb": 5 }), 9).await.unwrap();
    store.append_events(&id, vec![event(1, 1, 10, boot())]).await.unwrap();
    let kinds = |kinds: &[&str]| EventFilter {
        kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
        ..EventFilter::default()
    };
    let table = [
        (EventFilter::default(), vec![1, 2, 3, 4]),
        (EventFilter { tenant: Some(super::label("acme")), ..EventFilter::default() }, vec![1, 3, 4]),
        (EventFilter { sandbox: Some(super::id(2)), ..EventFilter::default() }, vec![2]),
        (kinds(&["limit.", "boot"]), vec![3, 4]),
        (kinds(&["sandbox"]), vec![1, 2]),
        (kinds(&["%"]), vec![]),
    ];
    for (filter, expected) in table {
        let found = store.events(filter.clone(), 0, 10).await.unwrap();
        assert_eq!(found.iter().map(|event| event.seq).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let missing = store.record_event(&super::id(9), "x", json!({}), 1).await;
    assert!(matches!(missing, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn the_head_wakes_readers_that_wait() {
    let (_dir, store, id) = with_one().await;
    let mut head = store.head();
    head.mark_unchanged();
    let (noted, woken) = tokio::join!(store.record_event(&id, "x", json!({}), 1), head.changed());
    noted.unwrap();
    woken.unwrap();
    assert_eq!(*head.borrow(), 2);
}

fn lines_of(store: &Store) -> Vec<String> {
    let mut registry = hostd_metrics::Registry::default();
    store.refresh_gauges();
    store.metrics().register(&mut registry);
    hostd_metrics::text(&registry).lines().map(str::to_owned).collect()
}

#[track_caller]
fn check_metrics(store: &Store, wanted: &[&str]) {
    let lines = lines_of(store);
    for line in wanted {
        assert!(lines.iter().any(|found| found == line), "{line} in {lines:#?}");
    }
}

#[tokio::test]
async fn every_end_of_an_exec_is_counted_once() {
    let (_dir, store, sandbox) = with_one().await;
    for exec in ["one", "two", "three"] {
        begin(&store, sandbox, exec, 10).await;
    }
    let events = vec![event(1, 1, 20, ended("one"))];
    store.append_events(&sandbox, events.clone()).await.unwrap();
    store.append_events(&sandbox, events).await.unwrap();
    let end = ExecEnd { exit: Exit::TimedOut, hints: vec![], ended_ms: 21 };
    for _ in 0..2 {
        store.end_exec(&sandbox, &ExecId::parse("two").unwrap(), end.clone()).await.unwrap();
    }
    store.mark_execs_lost(&sandbox, 22).await.unwrap();
    store.mark_execs_lost(&sandbox, 23).await.unwrap();
    check_metrics(
        &store,
        &[
            "slipway_exec_ends_total{kind=\"exited\"} 1",
            "slipway_exec_ends_total{kind=\"timed_out\"} 1",
            "slipway_exec_ends_total{kind=\"lost\"} 1",
            "slipway_exec_ends_total{kind=\"oom\"} 0",
        ],
    );
}

#[tokio::test]
async fn commits_and_subscribers_are_counted() {
    let (_dir, store, sandbox) = with_one().await;
    let newest = store.newest(0).await.unwrap();
    let mut subscription = store.subscribe(Topic::All);
    store.append_events(&sandbox, vec![event(1, 1, 20, gap())]).await.unwrap();
    assert!(subscription.after(newest, 1_000).is_some(), "in memory");
    assert!(subscription.after(0, 1_000).is_none(), "only in the log");
    check_metrics(
        &store,
        &[
            "slipway_store_commit_duration_seconds_count 2",
            "slipway_store_commit_jobs_bucket{le=\"1.0\"} 2",
            "slipway_store_failed_commits_total 0",
            "slipway_store_queued_jobs 0",
            "slipway_store_feed_subscribers 1",
            "slipway_store_feed_log_reads_total 1",
        ],
    );
    let wal = lines_of(&store).into_iter().find(|line| line.starts_with("slipway_store_wal_bytes "));
    assert_ne!(wal.as_deref(), Some("slipway_store_wal_bytes 0"), "what was written is in the WAL");
    let head = *store.head().borrow();
    check_metrics(&store, &[&format!("slipway_store_feed_lag_events {head}")]);
    assert!(subscription.after(newest, 1_000).is_some());
    check_metrics(&store, &[&format!("slipway_store_feed_lag_events {}", head - newest)]);
    drop(subscription);
    check_metrics(&store, &["slipway_store_feed_subscribers 0", "slipway_store_feed_lag_events 0"]);
}
