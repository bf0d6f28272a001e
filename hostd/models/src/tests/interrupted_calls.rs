//! Calls that a stop of hostd interrupted.

use super::*;
use hostd_store::{EventFilter, fixture::no_room_for, frame_data};
use protocol::api::TaskEventView;

#[derive(Debug, Clone, Copy)]
enum HostdExit {
    Killed,
    Stopped,
}

/// Stops hostd during a call and starts it again.
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
async fn an_interrupted_call_fails_the_task_and_counts() {
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
        assert_eq!(message, "a model call was interrupted: hostd stopped during it");
        let usage = result.usage.expect("it is counted");
        assert_eq!((usage.calls, usage.failed_calls, usage.input_tokens), (2, 1, 103), "{how:?}");
        assert!(usage.estimated);
    }
}

#[tokio::test]
async fn an_interrupted_call_fails_the_task_even_after_a_later_success() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, CallParams::default()).expect("allowed");
    fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(used(3, 4), Ok(()))).await;
    let fixture = restart_during(fixture, open, call, HostdExit::Killed).await;
    assert_eq!(fixture.finish(&task).await.failure_reason, Some(FailureReason::ModelFailed));
}

#[tokio::test]
async fn a_delivered_response_is_a_success() {
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
async fn a_stop_counts_the_output_so_far() {
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
async fn a_call_interrupted_after_the_task_has_ended_does_not_fail_it() {
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
async fn an_end_that_could_not_be_stored_is_recorded_by_the_next_hostd() {
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
async fn a_repeated_call_that_succeeds_makes_up_for_an_interrupted_one() {
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
async fn an_interrupted_call_is_recorded_once_with_its_model() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(7, None, true)).expect("allowed");
    let counts =
        fixture.begin(&key, CallParams { count_only: true, ..CallParams::default() }).expect("allowed");
    std::mem::forget(counts);
    // The next hostd is killed, too, before it has freed the slot.
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
async fn an_interrupted_bounded_call_counts_with_its_whole_reservation() {
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
