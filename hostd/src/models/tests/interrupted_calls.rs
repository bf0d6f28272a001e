//! Calls that hostd itself did not see the end of.

use super::*;
use crate::store::{EventFilter, frame_data, tests::no_room_for};
use protocol::api::TaskEventView;

#[derive(Debug, Clone, Copy)]
enum HostdExit {
    Killed,
    Stopped,
}

/// hostd goes in the middle of a call, and comes again.
async fn restart_during(
    fixture: ModelsFixture,
    open: OpenGrant,
    call: Call,
    how: HostdExit,
) -> ModelsFixture {
    match how {
        HostdExit::Killed => std::mem::forget(call),
        HostdExit::Stopped => {
            fixture.models.begin_shutdown();
            drop(call);
        }
    }
    drop(open);
    fixture.restarted().await
}

#[tokio::test]
async fn half_an_answer_is_not_believed_and_counts() {
    for how in [HostdExit::Killed, HostdExit::Stopped] {
        let fixture = ModelsFixture::new().await;
        let (task, key) = fixture.task("t1", None).await;
        let (open, _) = fixture.open(&task);
        fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
        let call = fixture.begin(&key, params(100, Some(50), true)).expect("allowed");
        let fixture = restart_during(fixture, open, call, how).await;
        let done = fixture.finish(&task).await;
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
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, CallParams::default()).expect("allowed");
    fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    assert_eq!(fixture.finish(&task).await.failure_reason, Some(FailureReason::ModelFailed));
}

#[tokio::test]
async fn who_has_all_of_the_answer_is_believed() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(5, None, true)).expect("allowed");
    call.streamed(9).expect("allowed");
    call.response_delivered();
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    let done = fixture.finish(&task).await;
    assert_eq!(done.status, TaskStatus::Succeeded);
    let usage = done.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens), (1, 5, 9));
}

#[tokio::test]
async fn a_stop_counts_what_came_until_then() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(5, None, true)).expect("allowed");
    call.streamed(9).expect("allowed");
    let fixture = restart_during(fixture, open, call, HostdExit::Stopped).await;
    let usage = fixture.finish(&task).await.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.input_tokens, usage.output_tokens), (5, 9));
}

#[tokio::test]
async fn what_is_left_over_when_the_task_has_ended_is_not_held_against_it() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, CallParams::default()).expect("allowed");
    let goes = async {
        fixture.models.begin_shutdown();
        drop(call);
    };
    tokio::join!(open.settle(), goes);
    drop(open);
    assert_eq!(fixture.restarted().await.finish(&task).await.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn an_end_that_could_not_be_written_down_is_told_by_the_next_hostd() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    no_room_for(&fixture.store, "model_seen ON tasks", true).await;
    fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    no_room_for(&fixture.store, "model_seen ON tasks", false).await;
    drop(open);
    let done = fixture.restarted().await.finish(&task).await;
    let usage = done.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((done.status, usage.calls, usage.output_tokens), (TaskStatus::Succeeded, 1, 4));
}

#[tokio::test]
async fn who_asks_again_and_is_answered_has_lost_nothing() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, CallParams::default()).expect("allowed");
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    let task = fixture.store.task_by_number(task.number).await.expect("read").expect("it is there");
    assert_eq!(task.seen.numbered, 1, "no number is used twice");
    let (_open, _) = fixture.open(&task);
    fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    assert_eq!(fixture.finish(&task).await.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn it_is_told_once_and_as_what_it_was() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(7, None, true)).expect("allowed");
    let counts =
        fixture.begin(&key, CallParams { count_only: true, ..CallParams::default() }).expect("allowed");
    std::mem::forget(counts);
    // And the next hostd is killed, too, before it has emptied the slot.
    let (file, copy) = (fixture.dir.path().join("calls"), fixture.dir.path().join("copy"));
    fs::copy(&file, &copy).expect("copied");
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    fs::rename(&copy, &file).expect("put back");
    let fixture = fixture.restarted().await;
    let filter = EventFilter { task: Some(task.number), ..EventFilter::default() };
    let part = fixture.store.log(filter, 0).await.expect("read");
    let mut events = Vec::new();
    for data in part.batches.iter().flat_map(|batch| frame_data(&batch.frames).collect::<Vec<_>>()) {
        let view: TaskEventView = serde_json::from_slice(data).expect("an event");
        if view.kind == "model" {
            events.push((view.fact["call"].clone(), view.fact["state"].clone(), view.fact["model"].clone()));
        }
    }
    assert_eq!(events, [(1.into(), "failed".into(), "large".into())]);
}

#[tokio::test]
async fn what_is_bounded_counts_as_all_that_was_allowed() {
    let fixture = ModelsFixture::new().await;
    let budget = TaskBudget { tokens: Some(1000), ..TaskBudget::default() };
    let (task, key) = fixture.task("t1", Some(budget)).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(100, Some(200), true)).expect("allowed");
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    let task = fixture.store.task_by_number(task.number).await.expect("read").expect("it is there");
    let (_open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(100, None, true)).expect("allowed");
    assert_eq!(call.max_output_tokens, Some(600), "of 1000, 300 went with the call before");
}

#[tokio::test]
async fn a_row_of_another_database_is_not_touched() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, CallParams::default()).expect("allowed");
    std::mem::forget(call);
    drop(open);
    let (dir, calls) = (fixture.dir, "calls");
    let other = ModelsFixture::new().await;
    let (same_row, _) = other.task("t2", None).await;
    assert_eq!(same_row.number, task.number);
    fs::copy(dir.path().join(calls), other.dir.path().join(calls)).expect("copied");
    let other = other.restarted().await;
    assert_eq!(other.finish(&same_row).await.status, TaskStatus::Succeeded);
}
