use super::{kinds, problem, with_one};
use crate::{StoreError, error::During};
use hostd_core::{Blueprint, Handle};
use protocol::api::{AttemptRelation, AttemptState, SandboxStatus};
use serde_json::json;

#[tokio::test]
async fn attempts_are_numbered_and_the_first_end_counts() {
    let (_dir, store, id) = with_one().await;
    let handle = Handle(json!({ "pid": 7 }));
    store.attempt_launched(&id, 1, handle.clone(), 2).await.unwrap();
    store.end_attempt(&id, 1, None, 3).await.unwrap();
    store.end_attempt(&id, 1, Some(problem()), 4).await.unwrap();

    let mut other = Blueprint::sample();
    other.image = "debian".to_owned();
    let second = store.begin_attempt(&id, AttemptRelation::Restart, other.clone().into(), 5).await.unwrap();
    assert_eq!(second, 2);
    store.end_attempt(&id, 2, Some(problem()), 6).await.unwrap();
    let third =
        store.begin_attempt(&id, AttemptRelation::Start, Blueprint::sample().into(), 7).await.unwrap();
    assert_eq!(third, 3);

    let found = store.attempts(&id, None, 10).await.unwrap();
    let attempts: Vec<_> =
        found.iter().map(|a| (a.attempt, a.relation, a.state, a.started_ms, a.ended_ms)).collect();
    let expected = [
        (3, AttemptRelation::Start, AttemptState::Open, 7, None),
        (2, AttemptRelation::Restart, AttemptState::Failed, 5, Some(6)),
        (1, AttemptRelation::Create, AttemptState::Succeeded, 1_000, Some(3)),
    ];
    assert_eq!(attempts, expected);
    assert_eq!((found[2].handle.clone(), found[2].problem.clone()), (Some(handle), None));
    assert_eq!((*found[1].blueprint).clone(), other);
    assert_eq!(found[1].problem, Some(problem()));
    assert_eq!(store.attempts(&id, Some(3), 1).await.unwrap()[0].attempt, 2);
    assert_eq!(store.sandbox(&id).await.unwrap().unwrap().attempt, 3);
    let expected = [
        "sandbox.created",
        "attempt.launched",
        "attempt.succeeded",
        "attempt.started",
        "attempt.failed",
        "attempt.started",
    ];
    assert_eq!(kinds(&store).await, expected);
}

#[tokio::test]
async fn a_reached_attempt_is_one_transaction() {
    let (_dir, store, id) = with_one().await;
    let run =
        |sql: &'static str| store.write("test", move |conn| conn.execute_batch(sql).during("run a test"));
    run("CREATE TRIGGER no_room BEFORE UPDATE ON sandboxes BEGIN SELECT RAISE(ROLLBACK, 'no room'); END")
        .await
        .unwrap();
    let handle = Handle(json!({ "pid": 7 }));
    assert!(store.attempt_reached(&id, 1, Some(handle.clone()), 2).await.is_err());
    let found = store.attempts(&id, None, 1).await.unwrap().remove(0);
    assert_eq!((found.state, found.handle), (AttemptState::Open, None));
    run("DROP TRIGGER no_room").await.unwrap();
    let (record, written) = store.attempt_reached(&id, 1, Some(handle.clone()), 3).await.unwrap();
    assert!(record.state.status == SandboxStatus::Running && written.is_ok());
    let found = store.attempts(&id, None, 1).await.unwrap().remove(0);
    assert_eq!((found.state, found.handle), (AttemptState::Succeeded, Some(handle)));
    let expected = ["sandbox.created", "attempt.launched", "attempt.succeeded", "sandbox.running"];
    assert_eq!(kinds(&store).await, expected);
}

#[tokio::test]
async fn an_attempt_left_open_has_failed_when_the_next_begins() {
    let (_dir, store, id) = with_one().await;
    store.begin_attempt(&id, AttemptRelation::Start, Blueprint::sample().into(), 5).await.unwrap();
    let first = store.attempts(&id, None, 10).await.unwrap().pop().unwrap();
    assert_eq!((first.state, first.problem, first.ended_ms), (AttemptState::Failed, None, Some(5)));
    assert_eq!(kinds(&store).await, ["sandbox.created", "attempt.failed", "attempt.started"]);
}

#[tokio::test]
async fn an_attempt_that_is_not_there_is_not_found() {
    let (_dir, store, id) = with_one().await;
    let ended = store.end_attempt(&id, 9, None, 1).await;
    let launched = store.attempt_launched(&id, 9, Handle(json!(1)), 1).await;
    assert!(matches!((ended, launched), (Err(StoreError::NotFound), Err(StoreError::NotFound))));
}
