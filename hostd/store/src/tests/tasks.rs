//! Tasks and their events: every reader sees each event once, in order, however it is written and read.

use super::{SECRET, id, insert, lines, new_sandbox, new_task, with_one};
use crate::{EventFilter, Store, StoreError, Subscription, TaskBegun, TaskRecord, Topic, frame_data, limits};
use hostd_core::{Goal, TaskEnding, TaskLine, Transition};
use proptest::prelude::*;
use protocol::{TaskPhase, TaskStatus, api::TaskEventView};
use std::collections::VecDeque;

async fn begin_task(store: &Store, name: &str) -> TaskRecord {
    match store.begin_task(new_task(name)).await.unwrap() {
        TaskBegun::New(task) => *task,
        other @ (TaskBegun::Same(_) | TaskBegun::Conflict | TaskBegun::Full) => panic!("{other:?}"),
    }
}

async fn accepted_task(store: &Store, name: &str) -> TaskRecord {
    let task = begin_task(store, name).await;
    store.mark_task_dispatched(task.number).await.unwrap();
    store.mark_task_accepted(task.number).await.unwrap()
}

fn views(bytes: &[u8]) -> Vec<TaskEventView> {
    frame_data(bytes).map(|data| serde_json::from_slice(data).unwrap()).collect()
}

/// Returns all events of a task in the event log.
async fn logged(store: &Store, task: &TaskRecord) -> Vec<TaskEventView> {
    let filter = EventFilter { task: Some(task.number), ..EventFilter::default() };
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let part = store.log(filter.clone(), after).await.unwrap();
        all.extend(part.batches.iter().flat_map(|batch| views(&batch.select(after, &[]))));
        if part.through <= after {
            return all;
        }
        after = part.through;
    }
}

#[tokio::test]
async fn the_same_task_begins_once() {
    let (_dir, store, _) = with_one().await;
    let task = begin_task(&store, "t1").await;
    assert_eq!((task.status, task.phase), (TaskStatus::Queued, TaskPhase::Queued));
    assert_eq!(store.begin_task(new_task("t1")).await.unwrap(), TaskBegun::Same(Box::new(task)));
    let other = crate::NewTask { request_hash: [8; 32], ..new_task("t1") };
    assert_eq!(store.begin_task(other).await.unwrap(), TaskBegun::Conflict);
    let elsewhere = crate::NewTask { sandbox: id(9), ..new_task("t1") };
    assert!(matches!(store.begin_task(elsewhere).await, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn the_sandbox_of_a_task_is_found_until_it_has_ended() {
    let (_dir, store, _) = with_one().await;
    let task = begin_task(&store, "t1").await;
    assert_eq!(store.sandbox_of_open_task(&task.id).await.unwrap(), Some(id(1)));
    store.cancel_task(task.number, 9).await.unwrap();
    assert_eq!(store.sandbox_of_open_task(&task.id).await.unwrap(), None);
}

#[tokio::test]
async fn the_number_of_open_tasks_is_limited() {
    let (_dir, store, _) = with_one().await;
    for number in 0..limits::TASKS_OPEN_MAX {
        begin_task(&store, &format!("t{number}")).await;
    }
    assert_eq!(store.begin_task(new_task("more")).await.unwrap(), TaskBegun::Full);
    let first = &store.open_tasks(Some(id(1))).await.unwrap()[0];
    store.cancel_task(first.number, 9).await.unwrap();
    assert!(matches!(store.begin_task(new_task("more")).await.unwrap(), TaskBegun::New(_)));
    let page = store.tasks(&id(1), None, 2, 2).await.unwrap();
    assert_eq!(page.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["more", "t63"]);
    assert_eq!((page[0].prompt.as_str(), &page[0].request), ("do", &None), "a list is short");
    let next = store.tasks(&id(1), Some(&page[1].id), 1, 2).await.unwrap();
    assert_eq!(next[0].id.as_str(), "t62");
}

#[tokio::test]
async fn a_request_is_deleted_once_runtimed_has_it() {
    let (dir, store, _) = with_one().await;
    let task = begin_task(&store, "t1").await;
    assert!(!format!("{task:?}").contains(SECRET));
    assert!(store.mark_task_dispatched(task.number).await.unwrap().request.is_some());
    assert!(store.mark_task_accepted(task.number).await.unwrap().request.is_none());
    let cancelled = begin_task(&store, "t2").await;
    assert!(store.cancel_task(cancelled.number, 9).await.unwrap().request.is_none());
    // The row of the sandbox holds the same secret; nothing else does.
    store.close().await;
    let file = std::fs::read(dir.path().join("slipway.db")).unwrap();
    let found = memchr::memmem::find_iter(&file, SECRET.as_bytes()).count();
    assert_eq!(found, 2, "in `all` and in the service of the sandbox");
}

#[tokio::test]
async fn events_are_imported_once_and_nothing_comes_after_done() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store, "t1").await;
    store.append_task(task.number, lines(1..=5)).await.unwrap();
    let again = store.append_task(task.number, lines(3..=7)).await.unwrap();
    assert_eq!(again.followed, 7);
    let done = store.conclude_task(task.number, TaskEnding::Lost, 99).await.unwrap();
    assert_eq!((done.status, done.phase, done.followed), (TaskStatus::Failed, TaskPhase::Done, 8));
    store.append_task(task.number, lines(8..=20)).await.unwrap();
    assert_eq!(store.conclude_task(task.number, TaskEnding::Destroyed, 100).await.unwrap(), done);
    assert_eq!(store.cancel_task(task.number, 101).await.unwrap(), done, "an end is an end");
    let events = logged(&store, &task).await;
    assert_eq!(
        events.iter().filter_map(|event| event.number).collect::<Vec<_>>(),
        (1..=8).collect::<Vec<_>>()
    );
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
    assert_eq!(
        events.last().map(|event| (event.kind.as_str(), Some(event.seq))),
        Some(("done", done.done_seq))
    );
}

#[tokio::test]
async fn the_log_has_all_tables_in_one_order() {
    let (_dir, store, _) = with_one().await;
    insert(&store, new_sandbox(2, None)).await;
    let (one, two) = (accepted_task(&store, "t1").await, accepted_task(&store, "t2").await);
    for round in 0..5 {
        store.append_task(one.number, lines(round * 3 + 1..=round * 3 + 3)).await.unwrap();
        store.record_event(&id(1), "note", serde_json::json!({}), 1).await.unwrap();
        store.append_task(two.number, lines(round + 1..=round + 1)).await.unwrap();
    }
    let part = store.log(EventFilter::default(), 0).await.unwrap();
    let mut next = 1;
    for batch in &part.batches {
        assert_eq!(batch.first, next, "no hole and no overlap");
        next = batch.last + 1;
    }
    assert_eq!(part.through + 1, next);
    let of = |sandbox| EventFilter { sandbox: Some(id(sandbox)), ..EventFilter::default() };
    assert!(store.log(of(2), 0).await.unwrap().batches.iter().all(|batch| batch.sandbox == id(2)));
    let foreign = EventFilter { tenant: Some(super::label("other")), ..EventFilter::default() };
    assert!(store.log(foreign, 0).await.unwrap().batches.is_empty());
}

#[tokio::test]
async fn a_long_task_is_read_in_parts() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store, "t1").await;
    for start in (1..20_000).step_by(1_000) {
        store.append_task(task.number, lines(start..start + 1_000)).await.unwrap();
    }
    let part = store.log(EventFilter { task: Some(task.number), ..EventFilter::default() }, 0).await.unwrap();
    let bytes: usize = part.batches.iter().map(|batch| batch.frames.len()).sum();
    assert!(bytes < 2 * limits::LOG_READ_MAX_BYTES, "{bytes}");
    assert!(part.batches.iter().all(|batch| batch.frames.len() <= limits::FRAMES_MAX_BYTES));
    assert_eq!(logged(&store, &task).await.len(), 20_000);
}

#[tokio::test]
async fn what_an_agent_prints_is_kept_up_to_a_bound_and_its_end_always() {
    let (dir, store, _) = with_one().await;
    let task = accepted_task(&store, "t1").await;
    // Pretends that the task printed almost its limit.
    let other = rusqlite::Connection::open(dir.path().join("slipway.db")).unwrap();
    let almost = i64::try_from(limits::TASK_OUTPUT_MAX_BYTES - 500).unwrap();
    other.execute("UPDATE tasks SET bytes = ?", [almost]).unwrap();
    for start in [1, 101] {
        store.append_task(task.number, lines(start..start + 100)).await.unwrap();
    }
    // A permission request must be kept: it waits for a decision.
    let question = br#"{"seq":201,"time_ms":9,"type":"permission","permission":1}"#;
    let question = TaskLine::parse(&question.as_slice().into()).unwrap();
    store.append_task(task.number, vec![question]).await.unwrap();
    store.conclude_task(task.number, TaskEnding::Lost, 9).await.unwrap();
    let events = logged(&store, &task).await;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let messages = kinds.iter().filter(|kind| **kind == "message").count();
    assert!((1..10).contains(&messages), "{kinds:?}");
    assert_eq!(kinds[messages..], ["log", "permission", "done"], "said once, and then the end");
    assert_eq!(events.last().and_then(|event| event.number), Some(202));
}

#[tokio::test]
async fn tasks_of_a_destroyed_sandbox_are_deleted_after_their_retention() {
    let (_dir, store, sandbox) = with_one().await;
    let (old, open) = (accepted_task(&store, "t1").await, accepted_task(&store, "t2").await);
    for task in [&old, &open] {
        store.append_task(task.number, lines(1..=3)).await.unwrap();
        store.conclude_task(task.number, TaskEnding::Lost, 9).await.unwrap();
    }
    let later = 2 * limits::TASKS_OF_DESTROYED_RETENTION_MS;
    assert_eq!(
        store.delete_expired(later, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap().tasks,
        0,
        "its sandbox lives"
    );
    store
        .transition_sandbox(&sandbox, Transition::Accept { goal: Goal::Destroyed, deadline_ms: 9 }, 3)
        .await
        .unwrap();
    store.transition_sandbox(&sandbox, Transition::Reached, 4).await.unwrap();
    assert_eq!(
        store.delete_expired(5, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap().tasks,
        0,
        "it has only just gone"
    );
    let tidied = store.delete_expired(later, Some(limits::AUDIT_RETENTION_DEFAULT_MS)).await.unwrap();
    assert_eq!((tidied.tasks, tidied.task_events), (2, 4));
    assert!(logged(&store, &old).await.is_empty());
    assert!(store.task(&sandbox, &open.id).await.unwrap().is_none());
}

/// An action on a log that has readers.
#[derive(Debug, Clone)]
enum LogAction {
    /// Appends events in one write, some of which were given before.
    Append {
        events: u64,
        again: u64,
    },
    /// Appends an unrelated event in between.
    Note,
    /// A reader subscribes that has seen this share of the log.
    Subscribe {
        percent: u64,
    },
    /// One reader reads once.
    Read {
        reader: usize,
    },
    Unsubscribe {
        reader: usize,
    },
}

fn actions() -> impl Strategy<Value = Vec<LogAction>> {
    let action = prop_oneof![
        3 => (1..40_u64, 0..5_u64).prop_map(|(events, again)| LogAction::Append { events, again }),
        1 => Just(LogAction::Note),
        2 => (0..=100_u64).prop_map(|percent| LogAction::Subscribe { percent }),
        5 => (0..8_usize).prop_map(|reader| LogAction::Read { reader }),
        1 => (0..8_usize).prop_map(|reader| LogAction::Unsubscribe { reader }),
    ];
    prop::collection::vec(action, 1..60)
}

struct Reader {
    subscription: Subscription,
    after: u64,
    /// The numbers that the reader must see next.
    expected: VecDeque<u64>,
}

impl Reader {
    /// Reads once as a subscriber does; returns whether there was progress.
    async fn read(&mut self, store: &Store, task: i64) -> bool {
        let filter = EventFilter { task: Some(task), ..EventFilter::default() };
        let (batches, through) = match self.subscription.after(self.after, 1_000) {
            Some(batches) => (batches.iter().map(|batch| (**batch).clone()).collect(), self.after),
            None => {
                let part = store.log(filter, self.after).await.unwrap();
                (part.batches, part.through)
            }
        };
        let before = self.after;
        for batch in batches {
            for event in views(&batch.select(self.after, &[])) {
                assert_eq!(event.number, self.expected.pop_front(), "in order, each once");
            }
            self.after = self.after.max(batch.last);
        }
        self.after = self.after.max(through);
        self.after > before
    }
}

async fn run_actions(actions: Vec<LogAction>) {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store, "t1").await;
    let (mut written, mut readers) = (0, Vec::<Reader>::new());
    let mut seqs: Vec<u64> = Vec::new();
    for action in actions {
        match action {
            LogAction::Append { events, again } => {
                let from = written - again.min(written) + 1;
                store.append_task(task.number, lines(from..=written + events)).await.unwrap();
                for number in written + 1..=written + events {
                    readers.iter_mut().for_each(|reader| reader.expected.push_back(number));
                }
                written += events;
                seqs = logged(&store, &task).await.iter().map(|event| event.seq).collect();
            }
            LogAction::Note => store.record_event(&id(1), "note", serde_json::json!({}), 1).await.unwrap(),
            LogAction::Subscribe { percent } => {
                let seen = usize::try_from(written * percent / 100).unwrap();
                let after = if seen == 0 { 0 } else { seqs[seen - 1] };
                let subscription = store.subscribe(Topic::Task(task.number));
                readers.push(Reader { subscription, after, expected: (seen as u64 + 1..=written).collect() });
            }
            LogAction::Read { reader } => {
                if let Some(reader) = readers.get_mut(reader) {
                    reader.read(&store, task.number).await;
                }
            }
            LogAction::Unsubscribe { reader } => {
                if reader < readers.len() {
                    readers.remove(reader);
                }
            }
        }
    }
    for reader in &mut readers {
        while reader.read(&store, task.number).await {}
        assert!(reader.expected.is_empty(), "never saw {:?}", reader.expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_reader_sees_every_event_once_in_order(actions in actions()) {
        tokio::runtime::Runtime::new().unwrap().block_on(run_actions(actions));
    }
}

#[tokio::test]
async fn a_reader_that_is_too_slow_for_memory_finds_all_in_the_log() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store, "t1").await;
    let subscription = store.subscribe(Topic::Task(task.number));
    let mut slow = Reader { subscription, after: 0, expected: (1..=60_000).collect() };
    assert!(slow.read(&store, task.number).await, "it is where the log was");
    for start in (1..60_000).step_by(1_000) {
        store.append_task(task.number, lines(start..start + 1_000)).await.unwrap();
    }
    assert!(slow.subscription.after(slow.after, 1).is_none(), "fallen out of memory");
    while slow.read(&store, task.number).await {}
    assert!(slow.expected.is_empty());
    assert!(slow.subscription.after(slow.after, 1).is_some(), "and back in it");
}
