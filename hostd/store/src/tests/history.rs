use super::{empty, id, insert, label, lines, new_sandbox, new_task, with_one};
use crate::{EventFilter, HistoryPolicy, NewTask, Store, TaskBegun, TaskRecord, TrimmedHistory};
use hostd_core::{Goal, TaskEnding, Transition};
use protocol::api::SandboxId;
use rusqlite::Connection;
use serde_json::json;
use std::collections::BTreeSet;

const KEEP: HistoryPolicy = HistoryPolicy { keep_ms: 1_000, keep_events: None };

async fn trim(store: &Store, policy: HistoryPolicy, now_ms: u64) -> TrimmedHistory {
    store.trim_history(policy, Some(&BTreeSet::new()), now_ms).await.unwrap()
}

async fn task(store: &Store, sandbox: SandboxId, name: &str, events: u64) -> TaskRecord {
    let TaskBegun::New(task) = store.begin_task(NewTask { sandbox, ..new_task(name) }).await.unwrap() else {
        panic!("{name} is new")
    };
    store.mark_task_dispatched(task.number).await.unwrap();
    store.append_task(task.number, lines(1..=events)).await.unwrap()
}

async fn destroy(store: &Store, sandbox: &SandboxId, now_ms: u64) {
    let accept = Transition::Accept { goal: Goal::Destroyed, deadline_ms: now_ms + 1 };
    for change in [accept, Transition::Reached] {
        store.transition_sandbox(sandbox, change, now_ms).await.unwrap();
    }
}

async fn count(store: &Store, table: &'static str) -> i64 {
    let count = move |conn: &Connection| {
        Ok(conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap())
    };
    store.read(count).await.unwrap()
}

async fn pages(store: &Store) -> i64 {
    let pages = |conn: &Connection| Ok(conn.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap());
    store.read(pages).await.unwrap()
}

#[tokio::test]
async fn events_go_by_age_and_a_reader_behind_them_is_told() {
    let (_dir, store, sandbox) = with_one().await;
    for (text, time_ms) in [("old", 10), ("older than the one before", 5), ("young", 5_000)] {
        store.record_event(&sandbox, "note", json!({ "text": text }), time_ms).await.unwrap();
    }
    let all = EventFilter::default();
    let young = store.events(all.clone(), 0, 9).await.unwrap().pop().expect("events").seq;
    assert_eq!((store.oldest_readable().await.unwrap(), store.trimmed_through(&all).await.unwrap()), (1, 0));
    // The event of the create is of 1,000 ms, and stays, too.
    assert_eq!(trim(&store, KEEP, 1_500).await.log_rows, 2);
    let kept: Vec<_> = store.events(all.clone(), 0, 9).await.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(kept, [1, young]);
    assert_eq!(store.oldest_readable().await.unwrap(), young);
    assert_eq!(store.trimmed_through(&all).await.unwrap(), young - 1);
    assert_eq!(trim(&store, KEEP, 1_500).await, TrimmedHistory::default(), "nothing is left to do");
}

#[tokio::test]
async fn events_go_by_number_but_not_those_of_a_task_that_runs() {
    let (_dir, store, sandbox) = with_one().await;
    let open = task(&store, sandbox, "open", 20).await;
    let ended = task(&store, sandbox, "ended", 20).await;
    store.conclude_task(ended.number, TaskEnding::Lost, 2_000).await.unwrap();
    for _ in 0..10 {
        store.record_event(&sandbox, "note", json!({}), 2_000).await.unwrap();
    }
    let policy = HistoryPolicy { keep_ms: u64::MAX, keep_events: Some(5) };
    trim(&store, policy, 2_001).await;
    let newest = store.newest(0).await.unwrap();
    let left = store.events(EventFilter::default(), 0, 99).await.unwrap();
    assert!(left.iter().all(|event| event.seq > newest - 5) && left.len() == 5, "{left:?}");
    let of = |task: &TaskRecord| EventFilter { task: Some(task.number), ..EventFilter::default() };
    let events = async |task: &TaskRecord| {
        let part = store.log(of(task), 0).await.unwrap();
        part.batches.iter().map(|batch| batch.last - batch.first + 1).sum::<u64>()
    };
    assert_eq!(events(&open).await, 20);
    assert_eq!(store.trimmed_through(&of(&open)).await.unwrap(), 0);
    // One row has the events of a task and its end: as long as the task.
    assert!(events(&ended).await >= 1);
    assert!(store.task_by_number(ended.number).await.unwrap().is_some());
}

/// Numbers go on far above the newest after a restore.
#[tokio::test]
async fn a_gap_in_the_numbers_of_events_costs_none_of_them() {
    let (_dir, store, sandbox) = with_one().await;
    let ended = task(&store, sandbox, "t", 20).await;
    store.conclude_task(ended.number, TaskEnding::Lost, 2_000).await.unwrap();
    let jump = |conn: &Connection| {
        conn.execute("UPDATE sqlite_sequence SET seq = seq + (1 << 30) WHERE name = 'events'", []).unwrap();
        Ok(())
    };
    store.write("jump", jump).await.unwrap();
    for _ in 0..3 {
        store.record_event(&sandbox, "note", json!({}), 2_000).await.unwrap();
    }
    let of_task = EventFilter { task: Some(ended.number), ..EventFilter::default() };
    let all = async || {
        let part = store.log(of_task.clone(), 0).await.unwrap();
        part.batches.iter().map(|batch| batch.last - batch.first + 1).sum::<u64>()
    };
    let before = all().await;
    trim(&store, HistoryPolicy { keep_ms: u64::MAX, keep_events: Some(1_000) }, 2_001).await;
    assert_eq!(all().await, before);
    assert_eq!(store.trimmed_through(&EventFilter::default()).await.unwrap(), 0);
}

#[tokio::test]
async fn ended_tasks_of_living_sandboxes_go_whole() {
    let (_dir, store, sandbox) = with_one().await;
    let (old, young) = (task(&store, sandbox, "old", 500).await, task(&store, sandbox, "young", 5).await);
    let open = task(&store, sandbox, "open", 5).await;
    store.conclude_task(old.number, TaskEnding::Lost, 1_000).await.unwrap();
    store.conclude_task(young.number, TaskEnding::Lost, 9_000).await.unwrap();
    assert_eq!(trim(&store, KEEP, 9_500).await.tasks, 1);
    for (task, expected) in [(&old, false), (&young, true), (&open, true)] {
        assert_eq!(store.task_by_number(task.number).await.unwrap().is_some(), expected, "{:?}", task.id);
    }
    let of_sandbox = EventFilter { sandbox: Some(sandbox), ..EventFilter::default() };
    assert!(store.trimmed_through(&of_sandbox).await.unwrap() > 0, "a reader of the sandbox is told");
}

#[tokio::test]
async fn a_destroyed_sandbox_goes_unless_it_left_files() {
    let (_dir, store) = empty();
    for number in 1..=4 {
        insert(&store, new_sandbox(number, None)).await;
        task(&store, id(number), "t", 3).await;
    }
    for number in 1..=3 {
        let ended = store.open_tasks(Some(id(number))).await.unwrap().remove(0);
        store.conclude_task(ended.number, TaskEnding::Destroyed, 2_000).await.unwrap();
        destroy(&store, &id(number), 2_000).await;
    }
    let kept = crate::SandboxUpdate { keep_workspace: Some(true), ..crate::SandboxUpdate::default() };
    // It is destroyed: only a test can do this.
    assert!(store.update_sandbox(&id(3), kept, 1).await.is_err());
    store
        .write("test", |conn| {
            Ok(conn.execute("UPDATE sandboxes SET keep_workspace = 1 WHERE id LIKE '%3'", []).unwrap())
        })
        .await
        .unwrap();
    let with_files = BTreeSet::from([id(2)]);
    assert_eq!(store.trim_history(KEEP, None, 9_000).await.unwrap().sandboxes, 0, "nobody knows");
    assert_eq!(store.trim_history(KEEP, Some(&with_files), 2_500).await.unwrap().sandboxes, 0, "too young");
    let through = store.newest(0).await.unwrap();
    assert_eq!(store.trim_history(KEEP, Some(&with_files), 9_000).await.unwrap().sandboxes, 1);
    for (number, expected) in [(1, false), (2, true), (3, true), (4, true)] {
        assert_eq!(store.sandbox(&id(number)).await.unwrap().is_some(), expected, "{number}");
    }
    let acme = EventFilter { tenant: Some(label("acme")), ..EventFilter::default() };
    let other = EventFilter { tenant: Some(label("other")), ..EventFilter::default() };
    assert!((1..=through).contains(&store.trimmed_through(&acme).await.unwrap()));
    assert_eq!(store.trimmed_through(&other).await.unwrap(), 0);
}

/// The property that the rest is for.
#[tokio::test]
async fn a_churn_of_sandboxes_and_tasks_does_not_make_the_database_grow_for_ever() {
    let (_dir, store) = empty();
    let mut sizes = vec![];
    for round in 1..=40_u64 {
        let now_ms = round * 1_000;
        insert(&store, new_sandbox(round, None)).await;
        let task = task(&store, id(round), "t", 300).await;
        store.conclude_task(task.number, TaskEnding::Lost, now_ms).await.unwrap();
        for _ in 0..20 {
            store.record_event(&id(round), "note", json!({ "text": "x".repeat(500) }), now_ms).await.unwrap();
        }
        destroy(&store, &id(round), now_ms).await;
        trim(&store, HistoryPolicy { keep_ms: 5_000, keep_events: None }, now_ms).await;
        store.shrink().await.unwrap();
        sizes.push(pages(&store).await);
    }
    let most = |range: std::ops::Range<usize>| sizes[range].iter().max().copied().unwrap();
    assert!(most(30..40) <= most(10..20) + 8, "{sizes:?}");
    for table in ["sandboxes", "tasks", "attempts"] {
        assert!(count(&store, table).await <= 7, "{table}");
    }
    let full = pages(&store).await;
    trim(&store, HistoryPolicy { keep_ms: 1, keep_events: None }, 1_000_000).await;
    assert!(store.shrink().await.unwrap() > 0);
    assert!(pages(&store).await < full);
}

#[tokio::test]
async fn a_database_of_an_earlier_hostd_is_converted_once() {
    let (dir, store, sandbox) = with_one().await;
    store.close().await;
    let path = dir.path().join("slipway.db");
    let mode = || {
        let conn = Connection::open(&path).unwrap();
        conn.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA auto_vacuum = NONE; VACUUM").unwrap();
    drop(conn);
    assert_eq!(mode(), 0);
    let store = Store::open(&path).unwrap();
    assert!(store.sandbox(&sandbox).await.unwrap().is_some());
    store.close().await;
    assert_eq!(mode(), 2);
}
