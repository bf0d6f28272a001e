//! Nothing is spent past a budget, however calls end.

use super::{World, ask, end, used};
use crate::models::{Ask, Call, End, Fault, Refused, Speech, Tokens};
use crate::store::tests::{id, label};
use protocol::{
    FailureReason,
    api::{BudgetPeriod, BudgetSpec, TaskBudget},
};

fn tokens(tokens: u64) -> Option<TaskBudget> {
    Some(TaskBudget { tokens: Some(tokens), ..TaskBudget::default() })
}

fn gone() -> End {
    End { abandoned: true, ..end(None, Ok(())) }
}

/// What two calls are left after one that ended like this: the budget is 1000 tokens, and it asked for 10 and
/// at most 600.
async fn left_after(streams: bool, act: impl AsyncFnOnce(Call)) -> Option<u64> {
    let world = World::new().await;
    let (task, key) = world.task("t1", tokens(1_000)).await;
    let (_open, _) = world.open(&task);
    act(world.begin(&key, ask(10, Some(600), streams)).expect("allowed")).await;
    world.begin(&key, ask(0, None, true)).expect("something is left").max_output_tokens
}

#[tokio::test]
async fn what_nobody_told_counts_as_all_that_was_allowed() {
    let reckoned = Some(Tokens { input: 10, output: 3, estimated: true, ..Tokens::default() });
    for streams in [true, false] {
        // Dropped, ended by the agent, or to its end without a word of what it used.
        assert_eq!(left_after(streams, async |call| drop(call)).await, Some(390));
        assert_eq!(left_after(streams, async |call| call.ended(gone()).await).await, Some(390));
        let silent = async |call: Call| call.ended(end(reckoned, Ok(()))).await;
        assert_eq!(left_after(streams, silent).await, Some(390));
        // Told, or refused before a word of it.
        let told = async |call: Call| call.ended(end(used(10, 40), Ok(()))).await;
        assert_eq!(left_after(streams, told).await, Some(950));
        let fault = Fault { status: Some(400), message: "no".to_owned(), permanent: false };
        let refused = async |call: Call| call.ended(end(None, Err(fault))).await;
        assert_eq!(left_after(streams, refused).await, Some(1_000));
    }
}

#[tokio::test]
async fn without_a_bound_what_was_seen_counts() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (open, _) = world.open(&task);
    drop(world.begin(&key, ask(10, Some(600), true)).expect("allowed"));
    open.settle().await;
    let usage = world.done(&task).await.result.and_then(|result| result.usage).expect("a call");
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (10, 0, true));
}

/// The agent leaves, or its task ends, while no provider has the request.
#[tokio::test]
async fn what_no_provider_got_counts_nothing() {
    let world = World::new().await;
    let (task, key) = world.task("t1", tokens(1_000)).await;
    let (open, _) = world.open(&task);
    let grant = world.models.claim(&id(1), &key).expect("good");
    let aim = grant.aim(Speech::Chat, "large").expect("a model");
    let begun = || grant.begin(&aim, ask(10, Some(600), true)).expect("allowed");
    drop(begun());
    let unreachable = Fault { status: None, message: "unreachable".to_owned(), permanent: false };
    let retried = begun();
    retried.sent();
    retried.retrying(1, &unreachable, 500);
    drop(retried);
    open.settle().await;
    let usage = world.done(&task).await.result.and_then(|result| result.usage).expect("calls");
    assert_eq!((usage.calls, usage.input_tokens, usage.output_tokens, usage.estimated), (2, 0, 0, false));
}

#[tokio::test]
async fn streams_side_by_side_have_what_is_left_and_others_wait_for_them() {
    let world = World::new().await;
    let (task, key) = world.task("t1", tokens(10_000)).await;
    let (open, _) = world.open(&task);
    let first = world.begin(&key, ask(0, Some(6_000), true)).expect("allowed");
    assert!(matches!(world.begin(&key, ask(0, Some(6_000), true)), Err(Refused::Busy)));
    assert!(open.verdict().is_none(), "nothing is used up");
    let grant = world.models.claim(&id(1), &key).expect("good");
    let aim = grant.aim(Speech::Chat, "large").expect("a model");
    let waits = grant.begin_in_turn(&aim, ask(0, Some(6_000), true));
    let (second, ()) = tokio::join!(waits, first.ended(end(used(0, 1_000), Ok(()))));
    assert_eq!(second.expect("its turn").max_output_tokens, Some(6_000));
}

#[tokio::test]
async fn who_waits_for_a_turn_waits_no_longer_than_its_task() {
    let world = World::new().await;
    let (task, key) = world.task("t1", tokens(10_000)).await;
    let (open, _) = world.open(&task);
    let _first = world.begin(&key, ask(0, None, true)).expect("allowed");
    let grant = world.models.claim(&id(1), &key).expect("good");
    let aim = grant.aim(Speech::Chat, "large").expect("a model");
    let waits = grant.begin_in_turn(&aim, Ask::default());
    let (second, ()) = tokio::join!(waits, async { drop(open) });
    assert!(matches!(second, Err(Refused::Ended)));
}

#[tokio::test]
async fn calls_end_with_their_task() {
    let world = World::new().await;
    let (task, key) = world.task("t1", tokens(1_000)).await;
    let (open, _) = world.open(&task);
    let call = world.begin(&key, ask(10, Some(90), true)).expect("allowed");
    let over = call.over();
    let ends = async {
        over.cancelled().await;
        call.ended(gone()).await;
    };
    tokio::join!(ends, open.settle());
    let usage = world.done(&task).await.result.and_then(|result| result.usage).expect("it is counted");
    assert_eq!((usage.calls, usage.output_tokens), (1, 90));
}

#[tokio::test]
async fn a_count_that_succeeds_says_nothing_about_a_call_that_failed() {
    let world = World::new().await;
    let (task, key) = world.task("t1", None).await;
    let (_open, _) = world.open(&task);
    let fault = Fault { status: Some(500), message: "fell over".to_owned(), permanent: false };
    world.begin(&key, Ask::default()).expect("allowed").ended(end(None, Err(fault))).await;
    let count = Ask { only_counts: true, ..Ask::default() };
    world.begin(&key, count).expect("allowed").ended(end(used(0, 0), Ok(()))).await;
    assert_eq!(world.done(&task).await.failure_reason, Some(FailureReason::ModelFailed));
}

#[tokio::test]
async fn sums_have_a_largest_one() {
    let world = World::new().await;
    let spec =
        BudgetSpec { tokens: Some(u64::MAX >> 1), cost_usd: None, requests: None, per: BudgetPeriod::Total };
    world.models.put_budget(label("acme"), &spec).await.expect("a good budget");
    let (task, key) = world.task("t1", None).await;
    let (_open, _) = world.open(&task);
    let all = Tokens { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, ..Tokens::default() };
    for _ in 0..2 {
        let Ok(call) = world.begin(&key, Ask::default()) else { break };
        call.ended(end(Some(all), Ok(()))).await;
    }
    let budget = world.models.budget(&label("acme")).await.expect("it can be read");
    assert_eq!(budget.used.tokens, 1 << 62);
    let world = world.again().await;
    assert!(world.models.budget(&label("acme")).await.is_ok());
}
