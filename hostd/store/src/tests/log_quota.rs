use super::{id, insert, label, lines, new_sandbox, new_task, with_one};
use crate::{EventFilter, LogOwner, NewTask, Store, TaskBegun, TaskRecord};
use hostd_core::TaskEnding;
use protocol::{Cursor, Event, Fact, api::SandboxId};
use serde_json::json;

fn acme() -> LogOwner {
    LogOwner { tenant: label("acme"), principal: None }
}

async fn log_bytes(store: &Store) -> u64 {
    store.measure_log(&label("acme")).await.unwrap();
    store.use_by_owner(None).await.unwrap().values().map(|usage| usage.log_bytes).sum()
}

async fn task(store: &Store, sandbox: SandboxId, name: &str) -> TaskRecord {
    let TaskBegun::New(task) = store.begin_task(NewTask { sandbox, ..new_task(name) }).await.unwrap() else {
        panic!("{name} is new")
    };
    store.mark_task_dispatched(task.number).await.unwrap();
    store.append_task(task.number, lines(1..=500)).await.unwrap()
}

fn of_task(task: &TaskRecord) -> EventFilter {
    EventFilter { task: Some(task.number), ..EventFilter::default() }
}

async fn events_of(store: &Store, filter: &EventFilter) -> u64 {
    let (mut after, mut count) = (0, 0);
    loop {
        let part = store.log(filter.clone(), after).await.unwrap();
        count += part.batches.iter().map(|batch| batch.last - batch.first + 1).sum::<u64>();
        if part.through <= after {
            return count;
        }
        after = part.through;
    }
}

#[tokio::test]
async fn the_oldest_goes_first_and_tasks_that_run_keep_all() {
    let (_dir, store, sandbox) = with_one().await;
    let (ended, open) = (task(&store, sandbox, "ended").await, task(&store, sandbox, "open").await);
    store.conclude_task(ended.number, TaskEnding::Lost, 9).await.unwrap();
    for _ in 0..5 {
        store.record_event(&sandbox, "note", json!({"text": "x".repeat(1_000)}), 1).await.unwrap();
    }
    let before = log_bytes(&store).await;
    let freed = store.trim_log(&acme(), 1_000).await.unwrap();
    assert!(freed >= 1_000 && freed < before, "{freed} of {before}");
    assert_eq!(log_bytes(&store).await, before - freed);
    let all = store.trim_log(&acme(), u64::MAX).await.unwrap();
    assert_eq!(log_bytes(&store).await, before - freed - all);
    assert_eq!(store.trim_log(&acme(), u64::MAX).await.unwrap(), 0, "nothing more may go");
    assert_eq!(events_of(&store, &of_task(&open)).await, 500);
    assert_eq!(events_of(&store, &of_task(&ended)).await, 1, "its end, with its result");
    assert_eq!(store.trimmed_through(&of_task(&open)).await.unwrap(), 0);
    let through = store.trimmed_through(&of_task(&ended)).await.unwrap();
    assert!(
        through > 0 && through < store.task_by_number(ended.number).await.unwrap().unwrap().done_seq.unwrap()
    );
    let of_sandbox = EventFilter { sandbox: Some(sandbox), ..EventFilter::default() };
    let whole = store.trimmed_through(&of_sandbox).await.unwrap();
    assert!(whole >= through);
    assert_eq!(store.trimmed_through(&EventFilter::default()).await.unwrap(), whole);
    let foreign = EventFilter { tenant: Some(label("other")), ..EventFilter::default() };
    assert_eq!(store.trimmed_through(&foreign).await.unwrap(), 0);
}

#[tokio::test]
async fn events_that_were_deleted_are_not_imported_again() {
    let (_dir, store, sandbox) = with_one().await;
    let event = |seq| {
        let fact = Fact::Boot { version: "1".to_owned(), pid1: true };
        Event { cursor: Cursor { epoch: 1, seq }, time_ms: 1, fact }
    };
    let events: Vec<Event> = (1..=9).map(event).collect();
    store.append_events(&sandbox, events.clone()).await.unwrap();
    assert!(store.trim_log(&acme(), u64::MAX).await.unwrap() > 0);
    store.append_events(&sandbox, events).await.unwrap();
    let kept = store.events(EventFilter::default(), 0, 100).await.unwrap();
    assert_eq!(kept.len(), 0, "{kept:?}");
    store.append_events(&sandbox, vec![event(10)]).await.unwrap();
    assert_eq!(store.events(EventFilter::default(), 0, 100).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_log_of_another_principal_stays() {
    let (_dir, store, sandbox) = with_one().await;
    let mut other = new_sandbox(2, None);
    other.owner.principal = label("bob");
    insert(&store, other).await;
    for sandbox in [sandbox, id(2)] {
        store.record_event(&sandbox, "note", json!({}), 1).await.unwrap();
    }
    let bob = LogOwner { principal: Some(label("bob")), ..acme() };
    assert!(store.trim_log(&bob, u64::MAX).await.unwrap() > 0);
    let kept = store.events(EventFilter::default(), 0, 100).await.unwrap();
    assert!(kept.len() == 2 && kept.iter().all(|event| event.sandbox == sandbox), "{kept:?}");
}
