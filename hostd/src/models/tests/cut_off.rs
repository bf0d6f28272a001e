//! Calls that hostd itself did not see the end of.

use super::*;
use crate::store::{EventFilter, data_of, tests::no_room_for};
use protocol::api::TaskEventView;

#[derive(Debug, Clone, Copy)]
enum Gone {
    Killed,
    Stopped,
}

/// hostd goes in the middle of a call, and comes again.
async fn gone_within(world: World, open: OpenGrant, call: Call, how: Gone) -> World {
    match how {
        Gone::Killed => std::mem::forget(call),
        Gone::Stopped => {
            world.models.leave();
            drop(call);
        }
    }
    drop(open);
    world.again().await
}

#[tokio::test]
async fn half_an_answer_is_not_believed_and_counts() {
    for how in [Gone::Killed, Gone::Stopped] {
        let world = World::new().await;
        let (task, key) = world.task("t1", None).await;
        let (open, _) = world.open(&task);
        world.begin(&key, Ask::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
        let call = world.begin(&key, ask(100, Some(50), true)).expect("allowed");
        let world = gone_within(world, open, call, how).await;
        let done = world.done(&task).await;
        assert_eq!(done.failure_reason, Some(FailureReason::ModelFailed), "{how:?}");
        let result = done.result.expect("it has ended");
        let message = result.message.expect("it says why");
        assert_eq!(message, "a call of its model was cut off: hostd was stopped in the middle of it");
        let usage = result.usage.expect("it is counted");
        assert_eq!((usage.calls, usage.failed_calls, usage.input_tokens), (2, 1, 103), "{how:?}");
        assert!(usage.estimated);
    }
}

#[tokio::test]
async fn nor_is_it_when_another_call_that_began_later_went_well() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, Ask::default()).expect("allowed");
    world.begin(&key, Ask::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    let world = gone_within(world, open, call, Gone::Killed).await;
    assert_eq!(world.done(&task).await.failure_reason, Some(FailureReason::ModelFailed));
}

#[tokio::test]
async fn who_has_all_of_the_answer_is_believed() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, ask(5, None, true)).expect("allowed");
    call.streamed(9).expect("allowed");
    call.heard_out();
    let world = gone_within(world, open, call, Gone::Killed).await;
    let done = world.done(&task).await;
    assert_eq!(done.status, TaskStatus::Succeeded);
    let usage = done.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (1, 5, 9));
}

#[tokio::test]
async fn a_stop_counts_what_came_until_then() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, ask(5, None, true)).expect("allowed");
    call.streamed(9).expect("allowed");
    let world = gone_within(world, open, call, Gone::Stopped).await;
    let usage = world.done(&task).await.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 9));
}

#[tokio::test]
async fn what_is_left_over_when_the_task_has_ended_is_not_held_against_it() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, Ask::default()).expect("allowed");
    let goes = async {
        world.models.leave();
        drop(call);
    };
    tokio::join!(open.settle(), goes);
    drop(open);
    assert_eq!(world.again().await.done(&task).await.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn an_end_that_could_not_be_written_down_is_told_by_the_next_hostd() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    no_room_for(&world.store, "model_seen ON tasks", true).await;
    world.begin(&key, Ask::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    no_room_for(&world.store, "model_seen ON tasks", false).await;
    drop(open);
    let done = world.again().await.done(&task).await;
    let usage = done.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((done.status, usage.calls, usage.output_tokens), (TaskStatus::Succeeded, 1, 4));
}

#[tokio::test]
async fn who_asks_again_and_is_answered_has_lost_nothing() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, Ask::default()).expect("allowed");
    let world = gone_within(world, open, call, Gone::Killed).await;
    let task = world.store.task_by_number(task.number).await.expect("read").expect("it is there");
    assert_eq!(task.seen.numbered, 1, "no number is used twice");
    let (_open, _) = world.open(&task);
    world.begin(&key, Ask::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    assert_eq!(world.done(&task).await.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn it_is_told_once_and_as_what_it_was() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, ask(7, None, true)).expect("allowed");
    let counts = world.begin(&key, Ask { only_counts: true, ..Ask::default() }).expect("allowed");
    std::mem::forget(counts);
    // And the next hostd is killed, too, before it has emptied the slot.
    let (file, copy) = (world.dir.path().join("calls"), world.dir.path().join("copy"));
    fs::copy(&file, &copy).expect("copied");
    let world = gone_within(world, open, call, Gone::Killed).await;
    fs::rename(&copy, &file).expect("put back");
    let world = world.again().await;
    let filter = EventFilter { task: Some(task.number), ..EventFilter::default() };
    let part = world.store.log(filter, 0).await.expect("read");
    let mut told = Vec::new();
    for data in part.batches.iter().flat_map(|batch| data_of(&batch.frames).collect::<Vec<_>>()) {
        let view: TaskEventView = serde_json::from_slice(data).expect("an event");
        if view.kind == "model" {
            told.push((view.fact["call"].clone(), view.fact["state"].clone(), view.fact["model"].clone()));
        }
    }
    assert_eq!(told, [(1.into(), "failed".into(), "large".into())]);
}

#[tokio::test]
async fn what_is_bounded_counts_as_all_that_was_allowed() {
    let world = World::new().await;
    let budget = TaskBudget { tokens: Some(1000), ..TaskBudget::default() };
    let (task, key) = world.task("t1", Some(budget)).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, ask(100, Some(200), true)).expect("allowed");
    let world = gone_within(world, open, call, Gone::Killed).await;
    let task = world.store.task_by_number(task.number).await.expect("read").expect("it is there");
    let (_open, _) = world.open(&task);
    let call = world.begin(&key, ask(100, None, true)).expect("allowed");
    assert_eq!(call.max_output_tokens, Some(600), "of 1000, 300 went with the call before");
}

#[tokio::test]
async fn a_row_of_another_database_is_not_touched() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, Ask::default()).expect("allowed");
    std::mem::forget(call);
    drop(open);
    let (dir, calls) = (world.dir, "calls");
    let other = World::new().await;
    let (same_row, _) = other.task("t2", None).await;
    assert_eq!(same_row.number, task.number);
    fs::copy(dir.path().join(calls), other.dir.path().join(calls)).expect("copied");
    let other = other.again().await;
    assert_eq!(other.done(&same_row).await.status, TaskStatus::Succeeded);
}
