//! Model calls: usage, events and verdict are written together.

use super::{empty, id, label, lines, new_task, with_one};
use crate::{
    CallEnd, EventFilter, NewTask, ProviderRecord, Store, TaskBegun, TaskGrant, TaskRecord, frame_data,
};
use hostd_core::{BudgetBounds, GrantTerms, GrantedModel, ModelFailure, Spend, TaskEnding, TaskLine};
use protocol::{
    Dialect, FailureReason, ModelCall, ModelCallState, TaskStatus, Usage,
    api::{BudgetPeriod, TaskEventView},
};

const DAY_MS: u64 = 24 * 3600 * 1000;

async fn accepted_task(store: &Store) -> TaskRecord {
    let model = GrantedModel {
        dialect: Dialect::Openai,
        provider: "p".to_owned(),
        name: "m".to_owned(),
        model: "m".to_owned(),
    };
    let terms = GrantTerms { model, bounds: BudgetBounds::default() };
    let task = NewTask { grant: Some(TaskGrant { key_hash: [9; 32], terms }), ..new_task("t1") };
    let TaskBegun::New(task) = store.begin_task(task).await.unwrap() else { panic!("it is new") };
    store.mark_task_dispatched(task.number).await.unwrap();
    store.mark_task_accepted(task.number).await.unwrap()
}

fn end(task: &TaskRecord, call: u64, state: ModelCallState) -> CallEnd {
    let usage = Usage { input_tokens: 10, output_tokens: 5, cost_micro_usd: Some(3), ..Usage::default() };
    let error = (state == ModelCallState::Failed).then(|| "no".to_owned());
    let call = ModelCall {
        call,
        state,
        attempt: 2,
        error,
        usage: Some(usage),
        provider: "p".to_owned(),
        ..ModelCall::default()
    };
    let used = Spend { tokens: 15, cost_micro_usd: 3, requests: 1 };
    CallEnd { task: task.number, call, used, time_ms: 10, ..CallEnd::default() }
}

async fn events(store: &Store, task: &TaskRecord) -> Vec<TaskEventView> {
    let filter = EventFilter { task: Some(task.number), ..EventFilter::default() };
    let part = store.log(filter, 0).await.unwrap();
    let views = part.batches.iter().flat_map(|batch| frame_data(&batch.frames).collect::<Vec<_>>());
    views.map(|data| serde_json::from_slice(data).unwrap()).collect()
}

fn claims_success(task: &TaskRecord) -> TaskLine {
    let result = protocol::TaskResult {
        status: TaskStatus::Succeeded,
        failure_reason: None,
        message: None,
        ..TaskEnding::Lost.result(true)
    };
    TaskLine::done(task.followed + 1, 20, Box::new(result)).unwrap()
}

#[tokio::test]
async fn what_was_granted_comes_back_and_lists_do_not_have_it() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store).await;
    assert_eq!(task.grant.as_ref().map(|grant| grant.key_hash), Some([9; 32]));
    assert_eq!(store.tasks(&id(1), None, 9, 9).await.unwrap()[0].grant, None);
}

#[tokio::test]
async fn calls_become_events_between_those_of_the_agent_and_are_summed() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store).await;
    store.append_task(task.number, lines(1..=2)).await.unwrap();
    let retry = ModelCall { call: 1, state: ModelCallState::Retrying, ..ModelCall::default() };
    let retried = store.call_retried(task.number, retry, 9);
    store.call_ended(end(&task, 1, ModelCallState::Succeeded)).written().await.unwrap();
    retried.written().await.unwrap();
    store.append_task(task.number, lines(3..=3)).await.unwrap();
    store.call_ended(end(&task, 2, ModelCallState::Abandoned)).written().await.unwrap();
    let followed = store.task(&id(1), &task.id).await.unwrap().unwrap();
    assert_eq!(followed.followed, 3, "what hostd saw is not among the numbers of the sandbox");
    let done = store.append_task(task.number, vec![claims_success(&followed)]).await.unwrap();
    let usage = done.result.as_ref().and_then(|result| result.usage).unwrap();
    assert_eq!((usage.input_tokens, usage.calls, usage.retries, usage.cost_micro_usd), (20, 2, 2, Some(6)));
    // After the end of the task a call only counts as usage.
    store.call_ended(end(&task, 3, ModelCallState::Failed)).written().await.unwrap();
    assert_eq!(store.task(&id(1), &task.id).await.unwrap().unwrap(), done);
    let views = events(&store, &task).await;
    let kinds: Vec<_> = views.iter().map(|event| (event.kind.as_str(), event.number)).collect();
    let expected = [
        ("message", Some(1)),
        ("message", Some(2)),
        ("model", None),
        ("model", None),
        ("usage", None),
        ("message", Some(3)),
        ("model", None),
        ("usage", None),
        ("done", Some(4)),
    ];
    assert_eq!(kinds, expected);
    assert!(views.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(views.last().unwrap().fact["result"]["usage"]["calls"], 2);
    let budget =
        store.put_budget(label("acme"), BudgetBounds::default(), BudgetPeriod::Total, 10).await.unwrap();
    assert_eq!(budget.unwrap().used, Spend { tokens: 45, cost_micro_usd: 9, requests: 3 });
}

#[tokio::test]
async fn a_task_whose_last_call_failed_did_not_succeed() {
    use ModelCallState::{Abandoned, Failed, Succeeded};
    let table: [(&[(u64, ModelCallState)], TaskStatus); 7] = [
        (&[(1, Failed)], TaskStatus::Failed),
        (&[(1, Failed), (2, Succeeded)], TaskStatus::Succeeded),
        (&[(1, Succeeded), (2, Failed), (3, Abandoned)], TaskStatus::Failed),
        // A call that began before the last successful one, and took longer.
        (&[(2, Succeeded), (1, Failed)], TaskStatus::Succeeded),
        // An auxiliary call failed meanwhile.
        (&[(2, Failed), (1, Succeeded)], TaskStatus::Succeeded),
        (&[(2, Failed), (1, Succeeded), (3, Failed)], TaskStatus::Failed),
        (&[(1, Abandoned)], TaskStatus::Succeeded),
    ];
    for (calls, expected) in table {
        let (_dir, store, _) = with_one().await;
        let task = accepted_task(&store).await;
        for (call, state) in calls {
            store.call_ended(end(&task, *call, *state)).written().await.unwrap();
        }
        let done = store.append_task(task.number, vec![claims_success(&task)]).await.unwrap();
        assert_eq!(done.status, expected, "{calls:?}");
        let reason = done.failure_reason;
        assert_eq!(reason.is_some(), expected == TaskStatus::Failed);
        assert!(reason.is_none_or(|reason| reason == FailureReason::ModelFailed));
    }
}

#[tokio::test]
async fn the_first_verdict_stays_and_a_cancel_before_it_too() {
    let verdict =
        |message: &str| ModelFailure { reason: FailureReason::BudgetExceeded, message: message.to_owned() };
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store).await;
    store.judge_task(task.number, verdict("first")).written().await.unwrap();
    store.judge_task(task.number, verdict("second")).written().await.unwrap();
    store.cancel_task(task.number, 9).await.unwrap();
    // The verdict applies however the end becomes known.
    let done = store.conclude_task(task.number, TaskEnding::Lost, 9).await.unwrap();
    let result = done.result.unwrap();
    assert_eq!(
        (done.failure_reason, result.message.as_deref()),
        (Some(FailureReason::BudgetExceeded), Some("first"))
    );
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store).await;
    store.cancel_task(task.number, 9).await.unwrap();
    store.judge_task(task.number, verdict("late")).written().await.unwrap();
    let done = store.conclude_task(task.number, TaskEnding::Cancelled, 9).await.unwrap();
    assert_eq!((done.status, done.verdict), (TaskStatus::Cancelled, None));
}

#[tokio::test]
async fn what_is_used_counts_for_its_day_and_its_month() {
    let (_dir, store, _) = with_one().await;
    let task = accepted_task(&store).await;
    // The 31st of January, the 1st of February and the day after.
    let days = [30 * DAY_MS, 31 * DAY_MS, 32 * DAY_MS];
    for time_ms in days {
        let end = CallEnd { time_ms, ..end(&task, 1, ModelCallState::Succeeded) };
        store.call_ended(end).written().await.unwrap();
    }
    for (per, requests) in [(BudgetPeriod::Day, 1), (BudgetPeriod::Month, 2), (BudgetPeriod::Total, 3)] {
        store.put_budget(label("acme"), BudgetBounds::default(), per, days[2]).await.unwrap();
        let budget = store.budget(&label("acme"), days[2]).await.unwrap().unwrap();
        assert_eq!(budget.used.requests, requests, "{per:?}");
    }
    assert!(store.remove_budget(&label("acme")).await.unwrap());
    assert!(store.budgets(0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_provider_is_put_in_the_place_of_the_one_with_its_name_and_tenant() {
    let (_dir, store) = empty();
    let provider = |tenant: Option<&str>, base_url: &str, created_ms| ProviderRecord {
        tenant: tenant.map(label),
        name: "p".to_owned(),
        dialect: Dialect::Gemini,
        base_url: base_url.to_owned(),
        sealed: Some(vec![1, 2]),
        key_from: None,
        models: Vec::new(),
        default: None,
        created_ms,
    };
    store.put_provider(provider(None, "a", 1)).await.unwrap();
    store.put_provider(provider(Some("acme"), "b", 2)).await.unwrap();
    let again = store.put_provider(provider(None, "c", 3)).await.unwrap().unwrap();
    assert_eq!((again.base_url.as_str(), again.created_ms), ("c", 1), "it is as old as it was");
    let all = store.providers().await.unwrap();
    assert_eq!(all.iter().map(|one| one.base_url.as_str()).collect::<Vec<_>>(), ["c", "b"]);
    assert!(store.remove_provider(None, "p").await.unwrap());
    assert!(!store.remove_provider(None, "p").await.unwrap());
    assert_eq!(store.providers().await.unwrap().len(), 1);
}
