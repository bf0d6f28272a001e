//! Tests of models over a real store.

mod interrupted_calls;
mod kept_provider_key;
mod model_names;
mod rejected_call;
mod secret_keys;
mod spending;

use super::{
    Call, CallParams, CallRefusal, CallReport, CallTarget, Fault, GrantRequest, Models, ModelsError,
    OpenGrant, TokenUsage,
};
use futures_util::FutureExt;
use hostd_core::{BudgetBounds, TaskEnding, TaskLine};
use hostd_store::{
    NewTask, Store, TaskBegun, TaskRecord,
    fixture::{id, label, new_task, with_one},
};
use protocol::{
    Dialect, FailureReason, TaskStatus,
    api::{BudgetPeriod, BudgetSpec, ModelPrice, ModelSpec, ProviderSpec, TaskBudget},
};
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::sync::Notify;

const KEY: &str = "sk-the-real-key-of-the-provider";
const OTHER_KEY: &str = "sk-another-real-key-of-it";

struct ModelsFixture {
    dir: TempDir,
    store: Store,
    models: Models,
}

fn priced(name: &str) -> ModelSpec {
    let price = ModelPrice { input: 1.0, output: 2.0, cache_read: Some(0.1), cache_write: None };
    ModelSpec { name: name.to_owned(), alias: None, price: Some(price) }
}

fn provider(key: &str) -> ProviderSpec {
    ProviderSpec { key: Some(key.to_owned()), models: Some(vec![priced("large")]), ..ProviderSpec::default() }
}

impl ModelsFixture {
    async fn new() -> Self {
        let (dir, store, _) = with_one().await;
        let models =
            Models::load(store.clone(), dir.path(), BudgetBounds::default()).await.expect("nothing is there");
        models.put_provider("openai", &provider(KEY)).await.expect("a good provider");
        Self { dir, store, models }
    }

    /// Restarts hostd on the same directory.
    async fn restarted(self) -> Self {
        let path = self.dir.path().join("slipway.db");
        drop(self.models);
        self.store.close().await;
        let store = Store::open(&path).expect("it opens again");
        let models =
            Models::load(store.clone(), self.dir.path(), BudgetBounds::default()).await.expect("as it was");
        Self { store, models, dir: self.dir }
    }

    /// Returns a running task and the key of its agent.
    async fn task(&self, name: &str, budget: Option<TaskBudget>) -> (TaskRecord, String) {
        let tenant = label("acme");
        let request = GrantRequest { tenant: &tenant, model: None, dialects: &[Dialect::Openai], budget };
        let granted = self.models.grant(request).await.expect("granted");
        assert_eq!((granted.model.name.as_str(), granted.model.provider.as_str()), ("large", "openai"));
        let task = NewTask { grant: Some(granted.row), ..new_task(name) };
        let TaskBegun::New(task) = self.store.begin_task(task).await.expect("written") else { panic!("new") };
        self.store.mark_task_dispatched(task.number).await.expect("written");
        (self.store.mark_task_accepted(task.number).await.expect("written"), granted.key)
    }

    fn open(&self, task: &TaskRecord) -> (OpenGrant, Arc<Notify>) {
        let nudge = Arc::new(Notify::new());
        (self.models.open_grant(task, nudge.clone()).expect("it has models"), nudge)
    }

    fn begin(&self, key: &str, params: CallParams) -> Result<Call, CallRefusal> {
        let grant = self.models.authenticate(&id(1), key).expect("a good key");
        let target = grant.target(Dialect::Openai, "large").expect("a model");
        grant.begin(&target, params).inspect(Call::sent)
    }

    async fn finish(&self, task: &TaskRecord) -> TaskRecord {
        let result = protocol::TaskResult {
            status: TaskStatus::Succeeded,
            failure_reason: None,
            message: None,
            ..TaskEnding::Lost.result(true)
        };
        let line = TaskLine::done(1, 20, Box::new(result)).expect("JSON");
        self.store.append_task(task.number, vec![line]).await.expect("written")
    }
}

fn params(input_tokens: u64, max_output_tokens: Option<u64>, streams: bool) -> CallParams {
    CallParams { input_tokens, max_output_tokens, streams, count_only: false }
}

fn end(tokens: Option<TokenUsage>, outcome: Result<(), Fault>) -> CallReport {
    let status = Some(if outcome.is_ok() { 200 } else { 401 });
    CallReport { attempt: 1, status, tokens, first_byte_ms: Some(1), outcome, abandoned: false }
}

fn used(input: u64, output: u64) -> Option<TokenUsage> {
    Some(TokenUsage { input, output, ..TokenUsage::default() })
}

fn holds(directory: &Path, text: &str) -> Vec<String> {
    let files = fs::read_dir(directory).expect("a directory").flatten();
    let with = files.filter(|file| {
        let bytes = fs::read(file.path()).unwrap_or_default();
        memchr::memmem::find(&bytes, text.as_bytes()).is_some()
    });
    with.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test]
async fn a_key_is_valid_from_its_sandbox_while_its_task_runs() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    assert!(key.starts_with("slw-") && key.len() > 40);
    assert!(fixture.models.authenticate(&id(1), &key).is_none(), "not before");
    let (open, _) = fixture.open(&task);
    assert!(fixture.models.authenticate(&id(1), &key).is_some());
    assert!(fixture.models.authenticate(&id(2), &key).is_none(), "from another sandbox");
    assert!(fixture.models.authenticate(&id(1), "slw-other").is_none());
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    drop(open);
    assert!(fixture.models.authenticate(&id(1), &key).is_none(), "not after");
    let target = grant.target(Dialect::Openai, "large").expect("a model");
    assert!(matches!(grant.begin(&target, CallParams::default()), Err(CallRefusal::Ended)));
    assert!(holds(fixture.dir.path(), &key).is_empty(), "only its hash is kept");
}

#[tokio::test]
async fn a_queued_task_calls_no_model() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    assert!(grant.wait_until_begun().now_or_never().is_none(), "it waits");
    open.begun();
    assert_eq!(grant.wait_until_begun().now_or_never(), Some(Ok(())));
}

#[tokio::test]
async fn what_was_used_is_in_the_result_and_survives_a_restart() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let call = fixture.begin(&key, params(10, None, true)).expect("allowed");
    let busy = Fault { status: Some(529), message: "busy".to_owned(), permanent: false };
    call.retrying(1, &busy, 100);
    let tokens =
        TokenUsage { input: 1_000_000, output: 500_000, cache_read: 1_000_000, ..TokenUsage::default() };
    call.ended(CallReport { attempt: 2, ..end(Some(tokens), Ok(())) }).await;
    drop(open);
    let fixture = fixture.restarted().await;
    let task = fixture.store.task_by_number(task.number).await.expect("read").expect("there");
    let (open, _) = fixture.open(&task);
    // Abandoned during the response: counted as far as it came.
    let call = fixture.begin(&key, params(7, None, true)).expect("allowed");
    call.streamed(3).expect("no bound");
    drop(call);
    open.settle().await;
    let result = fixture.finish(&task).await.result.expect("a result");
    let usage = result.usage.expect("calls");
    assert_eq!((usage.calls, usage.retries, usage.failed_calls, usage.estimated), (2, 1, 0, true));
    assert_eq!((usage.input_tokens, usage.output_tokens), (1_000_007, 500_003));
    // One dollar of input, one of output, a tenth of a dollar of cached input, and 13 millionths.
    assert_eq!(usage.cost_micro_usd, Some(2_100_013));
    assert_eq!(result.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn a_permanent_fault_ends_the_task_with_the_message_of_the_provider() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, nudge) = fixture.open(&task);
    let call = fixture.begin(&key, params(10, None, false)).expect("allowed");
    let fault = Fault { status: Some(401), message: "invalid key".to_owned(), permanent: true };
    call.ended(end(None, Err(fault))).await;
    nudge.notified().await;
    assert_eq!(open.verdict().map(|verdict| verdict.reason), Some(FailureReason::ModelFailed));
    assert!(matches!(fixture.begin(&key, CallParams::default()), Err(CallRefusal::Ended)));
    let done = fixture.finish(&task).await;
    assert_eq!((done.status, done.failure_reason), (TaskStatus::Failed, Some(FailureReason::ModelFailed)));
    let result = done.result.expect("a result");
    assert_eq!(
        result.message.as_deref(),
        Some(
            "the model provider openai refused its key (401): invalid key; `slipway model add openai` replaces the key"
        )
    );
    assert_eq!(result.usage.map(|usage| (usage.failed_calls, usage.input_tokens)), Some((1, 0)));
}

#[tokio::test]
async fn a_model_that_is_not_there_ends_the_task_only_when_it_is_its_own() {
    let fixture = ModelsFixture::new().await;
    let both = ProviderSpec {
        models: Some(vec![priced("large"), priced("small")]),
        default: Some("large".to_owned()),
        ..ProviderSpec::default()
    };
    fixture.models.put_provider("openai", &both).await.expect("changed");
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let fault = |status| Fault { status: Some(status), message: "no".to_owned(), permanent: true };
    for (model, status, ends) in [("small", 404, false), ("large", 404, true), ("small", 401, true)] {
        let (task, key) = fixture.task(&format!("{model}-{status}"), None).await;
        let (open, _) = fixture.open(&task);
        let grant = fixture.models.authenticate(&id(1), &key).expect("good");
        let target = grant.target(Dialect::Openai, model).expect("a model");
        let call = grant.begin(&target, CallParams::default()).expect("allowed");
        call.ended(end(None, Err(fault(status)))).await;
        assert_eq!(open.verdict().is_some(), ends, "{model} {status}");
    }
    // The agent went on without the missing model.
    for (model, outcome) in [("small", Err(fault(404))), ("large", Ok(()))] {
        let target = grant.target(Dialect::Openai, model).expect("a model");
        grant.begin(&target, CallParams::default()).expect("allowed").ended(end(None, outcome)).await;
    }
    drop(open);
    assert_eq!(fixture.finish(&task).await.status, TaskStatus::Succeeded);
}

#[tokio::test]
async fn a_budget_bounds_calls_and_its_end_is_that_of_the_task() {
    let fixture = ModelsFixture::new().await;
    let budget = TaskBudget { tokens: Some(100), ..TaskBudget::default() };
    let (task, key) = fixture.task("t1", Some(budget)).await;
    let (_open, nudge) = fixture.open(&task);
    let first = fixture.begin(&key, params(20, Some(30), true)).expect("allowed");
    assert_eq!(first.max_output_tokens, Some(30));
    let second = fixture.begin(&key, params(20, Some(30), false)).expect("allowed");
    assert_eq!(second.max_output_tokens, Some(30));
    first.streamed(30).expect("that much is set aside");
    first.streamed(10).expect("what came before is counted once");
    second.ended(end(used(20, 10), Ok(()))).await;
    first.streamed(50).expect("the other used less than it might have");
    let Err(CallRefusal::Budget(message)) = first.streamed(51) else { panic!("more than there is") };
    let why = "30 of 100 tokens are used, 70 are set aside for calls under way, and this call would take at least 1 more";
    assert_eq!(message, format!("the budget of this task does not allow more: {why}"));
    nudge.notified().await;
    assert!(matches!(fixture.begin(&key, CallParams::default()), Err(CallRefusal::Budget(_))));
    let cut = Fault { status: None, message: message.clone(), permanent: false };
    first.ended(end(None, Err(cut))).await;
    let done = fixture.finish(&task).await;
    assert_eq!(
        (done.failure_reason, done.result.and_then(|result| result.message)),
        (Some(FailureReason::BudgetExceeded), Some(message))
    );
}

#[tokio::test]
async fn the_budget_of_a_tenant_is_for_all_its_tasks_and_outlives_hostd() {
    let fixture = ModelsFixture::new().await;
    let spec = BudgetSpec { tokens: None, cost_usd: None, requests: Some(2), per: BudgetPeriod::Total };
    fixture.models.put_budget(label("acme"), &spec).await.expect("a good budget");
    let (one, one_key) = fixture.task("t1", None).await;
    let (_one_open, _) = fixture.open(&one);
    fixture.begin(&one_key, CallParams::default()).expect("allowed").ended(end(None, Ok(()))).await;
    let fixture = fixture.restarted().await;
    let (one, _) = (fixture.store.task_by_number(one.number).await.expect("read").expect("there"), ());
    let (_one_open, _) = fixture.open(&one);
    let (two, two_key) = fixture.task("t2", None).await;
    let (_two_open, nudge) = fixture.open(&two);
    let call = fixture.begin(&one_key, CallParams::default()).expect("the second");
    let Err(CallRefusal::Budget(message)) = fixture.begin(&two_key, CallParams::default()) else {
        panic!("the third")
    };
    assert_eq!(message, "the budget of the tenant acme does not allow more: 1 of 2 requests are used");
    nudge.notified().await;
    call.ended(end(None, Ok(()))).await;
    let tenant = label("acme");
    let request = GrantRequest { tenant: &tenant, model: None, dialects: &Dialect::ALL, budget: None };
    assert!(matches!(fixture.models.grant(request.clone()).await, Err(ModelsError::BudgetUsedUp(_))));
    fixture.models.remove_budget(&tenant).await.expect("removed");
    assert!(fixture.models.grant(request).await.is_ok());
}

#[tokio::test]
async fn cost_cannot_be_bounded_without_a_price() {
    let fixture = ModelsFixture::new().await;
    let bare = ProviderSpec { dialect: Some(Dialect::Openai), no_key: true, ..ProviderSpec::default() };
    fixture.models.put_provider("local", &bare).await.expect("a good provider");
    let tenant = label("acme");
    let budget = Some(TaskBudget { cost_usd: Some(1.0), ..TaskBudget::default() });
    let model = Some("local/any".to_owned());
    let request = GrantRequest { tenant: &tenant, model, dialects: &[Dialect::Openai], budget };
    assert!(matches!(fixture.models.grant(request).await, Err(ModelsError::Unpriced { .. })));
    // A model without a price is no way around the bound either.
    let (task, key) = fixture.task("t1", budget).await;
    let (_open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    assert!(matches!(grant.target(Dialect::Openai, "local/any"), Err(CallRefusal::Model { .. })));
    assert!(grant.target(Dialect::Openai, "large").is_ok());
}

#[tokio::test]
async fn the_key_of_a_provider_is_in_no_file_and_goes_where_it_should() {
    let fixture = ModelsFixture::new().await;
    let (task, key) = fixture.task("t1", None).await;
    let (open, _) = fixture.open(&task);
    let grant = fixture.models.authenticate(&id(1), &key).expect("good");
    let shown = |target: &CallTarget| target.provider.key.as_ref().map(|key| key.0.as_str().to_owned());
    assert_eq!(shown(&grant.target(Dialect::Openai, "large").expect("a model")).as_deref(), Some(KEY));
    fixture.begin(&key, params(1, None, false)).expect("allowed").ended(end(used(1, 1), Ok(()))).await;
    // The key is rotated while a task runs; a later change of other fields keeps it.
    fixture.models.put_provider("openai", &provider(OTHER_KEY)).await.expect("changed");
    let same =
        ProviderSpec { models: Some(vec![priced("large"), priced("small")]), ..ProviderSpec::default() };
    let configured = fixture.models.put_provider("openai", &same).await.expect("changed");
    assert_eq!(shown(&grant.target(Dialect::Openai, "small").expect("a model")).as_deref(), Some(OTHER_KEY));
    assert!(!format!("{configured:?}").contains(OTHER_KEY), "it does not print");
    fixture.models.remove_provider(None, "openai").await.expect("removed");
    assert!(matches!(grant.target(Dialect::Openai, "large"), Err(CallRefusal::Model { .. })));
    drop(open);
    for secret in [KEY, OTHER_KEY, &key] {
        assert!(holds(fixture.dir.path(), secret).is_empty(), "{:?}", holds(fixture.dir.path(), secret));
    }
    let fixture = fixture.restarted().await;
    assert!(holds(fixture.dir.path(), KEY).is_empty());
}

#[tokio::test]
async fn a_lost_key_file_is_a_problem_of_the_provider_that_says_what_to_do() {
    let fixture = ModelsFixture::new().await;
    fs::remove_file(fixture.dir.path().join("models.key")).expect("it was there");
    let fixture = fixture.restarted().await;
    let configured = &fixture.models.providers(None)[0];
    let problem = configured.problem.as_ref().map(ToString::to_string).expect("a problem");
    assert!(problem.contains("models.key is gone") && problem.contains("give the key again"), "{problem}");
    let tenant = label("acme");
    let request = GrantRequest { tenant: &tenant, model: None, dialects: &Dialect::ALL, budget: None };
    assert!(matches!(fixture.models.grant(request).await, Err(ModelsError::Key { .. })));
    // Giving the key again repairs the provider.
    fixture.models.put_provider("openai", &provider(KEY)).await.expect("sealed anew");
    let (task, key) = fixture.task("t1", None).await;
    let (_open, _) = fixture.open(&task);
    assert!(fixture.begin(&key, CallParams::default()).is_ok());
}
