//! No budget is exceeded, however calls end.

use super::{ModelsFixture, end, params, used};
use crate::{Call, CallParams, CallRefusal, CallReport, Dialect, Fault, TokenUsage};
use hostd_store::fixture::{id, label};
use protocol::{
    FailureReason,
    api::{BudgetPeriod, BudgetSpec, TaskBudget},
};

fn tokens(tokens: u64) -> Option<TaskBudget> {
    Some(TaskBudget { tokens: Some(tokens), ..TaskBudget::default() })
}

fn abandoned() -> CallReport {
    CallReport { abandoned: true, ..end(None, Ok(())) }
}

/// Returns what is left for a second call after one that ended as given: the budget is 1000 tokens, and the
/// call asked for 10 and at most 600.
async fn left_after(streams: bool, act: impl AsyncFnOnce(Call)) -> Option<u64> {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", tokens(1_000)).await;
    let (_open, _) = fixture.open(&task);
    act(fixture.begin(&key, params(10, Some(600), streams)).expect("allowed")).await;
    fixture.begin(&key, params(0, None, true)).expect("something is left").max_output_tokens
}

#[tokio::test]
async fn unreported_usage_counts_with_the_whole_reservation() {
    let estimated_usage = Some(TokenUsage { input: 10, output: 3, estimated: true, ..TokenUsage::default() });
    for streams in [true, false] {
        // Dropped, ended by the agent, or completed without reported usage.
        assert_eq!(left_after(streams, async |call| drop(call)).await, Some(390));
        assert_eq!(left_after(streams, async |call| call.ended(abandoned()).await).await, Some(390));
        let silent = async |call: Call| call.ended(end(estimated_usage, Ok(()))).await;
        assert_eq!(left_after(streams, silent).await, Some(390));
        // Reported usage, or refused before any output.
        let reported = async |call: Call| call.ended(end(used(10, 40), Ok(()))).await;
        assert_eq!(left_after(streams, reported).await, Some(950));
        let fault = Fault { status: Some(400), message: "no".to_owned(), permanent: false };
        let refused = async |call: Call| call.ended(end(None, Err(fault))).await;
        assert_eq!(left_after(streams, refused).await, Some(1_000));
    }
}

#[tokio::test]
async fn without_a_bound_the_visible_output_counts() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    drop(fixture.begin(&key, params(10, Some(600), true)).expect("allowed"));
    open.settle().await;
    let usage = fixture.finish(&task).await.result.and_then(|result| result.usage).expect("a call");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (10, 0, true));
}

/// The agent disconnects, or its task ends, while no provider has the request.
#[tokio::test]
async fn a_request_that_no_provider_got_counts_nothing() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", tokens(1_000)).await;
    let (open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let target = grant.target(Dialect::Openai, "large").expect("a model");
    let begun = || grant.begin(&target, params(10, Some(600), true)).expect("allowed");
    drop(begun());
    let unreachable = Fault { status: None, message: "unreachable".to_owned(), permanent: false };
    let retried = begun();
    retried.sent();
    retried.retrying(1, &unreachable, 500);
    drop(retried);
    open.settle().await;
    let usage = fixture.finish(&task).await.result.and_then(|result| result.usage).expect("calls");
    assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens, usage.estimated), (2, 0, 0, false));
}

#[tokio::test]
async fn parallel_streams_reserve_the_rest_and_others_wait_for_them() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", tokens(10_000)).await;
    let (open, _) = fixture.open(&task);
    let first = fixture.begin(&key, params(0, Some(6_000), true)).expect("allowed");
    assert!(matches!(fixture.begin(&key, params(0, Some(6_000), true)), Err(CallRefusal::Busy)));
    assert!(open.verdict().is_none(), "nothing is used up");
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let target = grant.target(Dialect::Openai, "large").expect("a model");
    let waits = grant.begin_when_free(&target, params(0, Some(6_000), true));
    let (second, ()) = tokio::join!(waits, first.ended(end(used(0, 1_000), Ok(()))));
    assert_eq!(second.expect("its turn").max_output_tokens, Some(6_000));
}

#[tokio::test]
async fn a_call_that_waits_for_budget_waits_no_longer_than_its_task() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", tokens(10_000)).await;
    let (open, _) = fixture.open(&task);
    let _first = fixture.begin(&key, params(0, None, true)).expect("allowed");
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let target = grant.target(Dialect::Openai, "large").expect("a model");
    let waits = grant.begin_when_free(&target, CallParams::default());
    let (second, ()) = tokio::join!(waits, async { drop(open) });
    assert!(matches!(second, Err(CallRefusal::Ended)));
}

#[tokio::test]
async fn calls_end_with_their_task() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", tokens(1_000)).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(10, Some(90), true)).expect("allowed");
    let over = call.task_ended();
    let ends = async {
        over.cancelled().await;
        call.ended(abandoned()).await;
    };
    tokio::join!(ends, open.settle());
    let usage = fixture.finish(&task).await.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.calls, usage.output_tokens), (1, 90));
}

#[tokio::test]
async fn a_count_that_succeeds_says_nothing_about_a_call_that_failed() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (_open, _) = fixture.open(&task);
    let fault = Fault { status: Some(500), message: "fell over".to_owned(), permanent: false };
    fixture.begin(&key, CallParams::default()).expect("allowed").ended(end(None, Err(fault))).await;
    let count = CallParams { count_only: true, ..CallParams::default() };
    fixture.begin(&key, count).expect("allowed").ended(end(used(0, 0), Ok(()))).await;
    assert_eq!(fixture.finish(&task).await.failure_reason, Some(FailureReason::ModelFailed));
}

#[tokio::test]
async fn usage_saturates() {
    let fixture = ModelsFixture::new().await;
    let spec =
        BudgetSpec { tokens: Some(u64::MAX >> 1), cost_usd: None, requests: None, per: BudgetPeriod::Total };
    fixture.models.put_budget(label("acme"), &spec).await.expect("a good budget");
    let (task, key) = fixture.task("t1", None).await;
    let (_open, _) = fixture.open(&task);
    let all = TokenUsage { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, ..TokenUsage::default() };
    for _ in 0..2 {
        let Ok(call) = fixture.begin(&key, CallParams::default()) else { break };
        call.ended(end(Some(all), Ok(()))).await;
    }
    let budget = fixture.models.budget(&label("acme")).await.expect("it can be read");
    assert_eq!(budget.used.tokens, 1 << 62);
    let fixture = fixture.restarted().await;
    assert!(fixture.models.budget(&label("acme")).await.is_ok());
}
