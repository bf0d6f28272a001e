//! A crash at any moment: acknowledged writes are there, others are there whole or not at all.

use super::{id, insert, lines, new_sandbox, new_task, with_one};
use crate::{
    CallEnd, EventFilter, ExecEnd, ExecRecord, IdempotencyClaim, IdempotencyKey, NewSandbox, ProviderRecord,
    Store, TaskBegun, TokenRecord, failpoint, frame_data,
};
use hostd_core::{Blueprint, BudgetBounds, Handle, ModelFailure, Spend, TaskChanges, TaskEnding, Transition};
use protocol::{
    Cursor, Dialect, Event, ExecId, Exit, Fact, FailureReason, ModelCall, TaskId,
    api::{AttemptRelation, BudgetPeriod, Quota, TokenScope},
};
use serde_json::json;
use std::{fs, os::unix::process::ExitStatusExt, path::Path, process::Command};

const DIR: &str = "SLIPWAY_STORE_TEST_DIR";

fn key() -> IdempotencyKey {
    let (tenant, principal) = (super::label("acme"), super::label("ann"));
    IdempotencyKey { tenant, principal, route: "POST /x".to_owned(), key: "k".to_owned() }
}

fn exec() -> ExecRecord {
    ExecRecord {
        sandbox: id(1),
        id: ExecId::parse("e1").unwrap(),
        argv: vec![],
        cwd: String::new(),
        tty: false,
        request_hash: [0; 32],
        started_ms: 1,
        ended_ms: None,
        exit: None,
        hints: vec![],
    }
}

/// Performs every kind of write once, in order.
async fn write_everything(store: &Store) {
    insert(store, new_sandbox(1, None)).await;
    let attempt =
        store.begin_attempt(&id(1), AttemptRelation::Start, Blueprint::sample().into(), 2).await.unwrap();
    store.attempt_launched(&id(1), attempt, Handle(json!(7)), 3).await.unwrap();
    store.end_attempt(&id(1), attempt, None, 4).await.unwrap();
    store.transition_sandbox(&id(1), Transition::Reached, 5).await.unwrap();
    store.begin_exec(exec()).await.unwrap();
    let end = ExecEnd { exit: Exit::Exited { code: 0 }, hints: vec![], ended_ms: 6 };
    store.end_exec(&id(1), &exec().id, end).await.unwrap();
    let fact = Fact::Boot { version: "1".to_owned(), pid1: true };
    let event = Event { cursor: Cursor { epoch: 1, seq: 1 }, time_ms: 7, fact };
    store.append_events(&id(1), vec![event]).await.unwrap();
    let TaskBegun::New(task) = store.begin_task(new_task("t1")).await.unwrap() else { panic!("it is new") };
    store.mark_task_dispatched(task.number).await.unwrap();
    store.mark_task_accepted(task.number).await.unwrap();
    store.append_task(task.number, lines(1..=3)).await.unwrap();
    let call = ModelCall { call: 1, ..ModelCall::default() };
    let used = Spend { requests: 1, ..Spend::default() };
    let end = CallEnd { task: task.number, call, used, time_ms: 8, ..CallEnd::default() };
    store.call_ended(end).written().await.unwrap();
    let verdict = ModelFailure { reason: FailureReason::ModelFailed, message: "no".to_owned() };
    store.judge_task(task.number, verdict).written().await.unwrap();
    store.cancel_task(task.number, 8).await.unwrap();
    store.record_task_changes(task.number, TaskChanges::unavailable("none", false)).await.unwrap();
    store.conclude_task(task.number, TaskEnding::Lost, 8).await.unwrap();
    let provider = ProviderRecord {
        tenant: None,
        name: "p".to_owned(),
        dialect: Dialect::Openai,
        base_url: "https://example.com".to_owned(),
        sealed: None,
        key_from: None,
        models: vec![],
        default: None,
        created_ms: 8,
    };
    store.put_provider(provider).await.unwrap();
    store.put_budget(super::label("acme"), BudgetBounds::default(), BudgetPeriod::Day, 8).await.unwrap();
    store.put_quota(super::label("acme"), None, Quota::default(), 8).await.unwrap();
    let successor = NewSandbox { name: new_sandbox(1, None).name, ..new_sandbox(2, None) };
    store.replace_sandbox(successor, AttemptRelation::Create, false).await.unwrap();
    let token = TokenRecord {
        id: "t1".to_owned(),
        tenant: super::label("acme"),
        principal: super::label("ann"),
        scope: TokenScope::Run,
        created_ms: 1,
        expires_ms: None,
        revoked_ms: None,
    };
    store.insert_token(token, [1; 32]).await.unwrap();
    store.idempotency_begin(key(), [1; 32], 8).await.unwrap();
    store.idempotency_finish(key(), 200, vec![], 9).await.unwrap();
}

/// Returns how many of the writes above are there, and asserts that they are the first ones.
async fn writes_there(store: &Store) -> usize {
    let record = store.sandbox(&id(1)).await.unwrap();
    let attempts = store.attempts(&id(1), None, 9).await.unwrap();
    let exec = store.exec(&id(1), &exec().id).await.unwrap();
    let task = store.task(&id(1), &TaskId::parse("t1").unwrap()).await.unwrap();
    let newest = attempts.first();
    let changes = match &task {
        Some(task) => store.task_changes(task.number).await.unwrap(),
        None => None,
    };
    let claim = store.idempotency_begin(key(), [1; 32], 10).await.unwrap();
    let there = [
        record.is_some(),
        attempts.len() == 2,
        newest.is_some_and(|attempt| attempt.handle.is_some()),
        newest.is_some_and(|attempt| attempt.attempt == 2 && attempt.ended_ms.is_some()),
        record.as_ref().is_some_and(|record| record.state.is_up()),
        exec.is_some(),
        exec.is_some_and(|exec| exec.exit.is_some()),
        record.as_ref().is_some_and(|record| record.followed.seq == 1),
        task.is_some(),
        task.as_ref().is_some_and(|task| task.taken),
        task.as_ref().is_some_and(|task| task.request.is_none()),
        task.as_ref().is_some_and(|task| task.followed >= 3),
        task.as_ref().is_some_and(|task| task.seen.numbered == 1),
        task.as_ref().is_some_and(|task| task.verdict.is_some()),
        task.as_ref().is_some_and(|task| task.cancelling),
        changes.is_some(),
        task.as_ref().is_some_and(|task| task.done_seq.is_some() && task.result.is_some()),
        !store.providers().await.unwrap().is_empty(),
        !store.budgets(8).await.unwrap().is_empty(),
        !store.quota_book().await.unwrap().tenants.is_empty(),
        record.is_some_and(|record| record.replaced_by == Some(id(2))),
        store.token_by_hash(&[1; 32]).await.unwrap().is_some(),
        claim != IdempotencyClaim::New,
        matches!(claim, IdempotencyClaim::Replay { .. }),
    ];
    let count = there.iter().take_while(|there| **there).count();
    assert!(there[count..].iter().all(|there| !there), "a later write is there: {there:?}");
    // A transition, an attempt and their events were committed together.
    let part = store.log(EventFilter::default(), 0).await.unwrap();
    let events: usize = part.batches.iter().map(|batch| frame_data(&batch.frames).count()).sum();
    let expected = [0, 1, 3, 4, 5, 6, 6, 6, 7, 7, 7, 7, 10, 12, 12, 12, 12, 13, 13, 13, 13, 15, 15, 15, 15];
    assert_eq!((events, part.through), (expected[count], expected[count] as u64), "{there:?}");
    count
}

#[tokio::test]
async fn the_child_that_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let store = Store::open(&Path::new(&dir).join("slipway.db")).unwrap();
    write_everything(&store).await;
}

#[tokio::test]
async fn killed_around_any_commit_the_store_has_all_before_it_and_nothing_after() {
    let order = [
        "insert_sandbox",
        "begin_attempt",
        "attempt_launched",
        "end_attempt",
        "move_sandbox",
        "begin_exec",
        "end_exec",
        "append_events",
        "begin_task",
        "task_taken",
        "task_given",
        "append_task",
        "call_ended",
        "judge_task",
        "cancel_task",
        "record_task_changes",
        "conclude_task",
        "put_provider",
        "put_budget",
        "put_quota",
        "replace_sandbox",
        "insert_token",
        "idempotency_begin",
        "idempotency_finish",
    ];
    assert_eq!(failpoint::NAMES.len(), 2 * order.len());
    for name in failpoint::NAMES {
        let dir = tempfile::tempdir().unwrap();
        let (job, side) = name.strip_prefix("store.").unwrap().split_once('.').unwrap();
        let position = order.iter().position(|known| *known == job).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::the_child_that_is_killed"])
            .env(failpoint::VARIABLE, name)
            .env(DIR, dir.path())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(9), "{name}: {child:?}");
        let expected = if side == "before_commit" { position } else { position + 1 };
        let store = Store::open(&dir.path().join("slipway.db")).unwrap();
        assert_eq!(writes_there(&store).await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_copy_of_the_files_of_a_running_store_has_all_acknowledged_writes() {
    let (dir, store, id) = with_one().await;
    store.close().await;
    let store = Store::open(&dir.path().join("slipway.db")).unwrap();
    for number in 2..200 {
        insert(&store, new_sandbox(number, None)).await;
    }
    let record = store.transition_sandbox(&id, Transition::Reached, 5).await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    for name in ["slipway.db", "slipway.db-wal"] {
        fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
    }
    let crashed = Store::open(&copy.path().join("slipway.db")).unwrap();
    assert_eq!(crashed.sandbox(&id).await.unwrap(), Some(record));
    assert_eq!(crashed.live_sandboxes().await.unwrap(), store.live_sandboxes().await.unwrap());
    let all = EventFilter::default();
    assert_eq!(crashed.events(all.clone(), 0, 999).await.unwrap(), store.events(all, 0, 999).await.unwrap());
    assert_eq!(*crashed.head().borrow(), 200);
}
