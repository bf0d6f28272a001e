//! A task whose model fails for good ends at once, and its end says so; a task that a client cancels is cancelled.

use super::fixture::{new_sandbox, open, patient};
use crate::reconcile::Fleet;
use hostd_drivers::fake::FakeDriver;
use hostd_models::{CallParams, CallRefusal, CallReport, Fault, Grant, GrantRequest};
use hostd_store::{
    NewTask, Secret, TaskBegun, TaskRecord,
    fixture::{new_task, no_room_for},
};
use protocol::{
    Dialect, FailureReason, TaskId, TaskStatus,
    api::{Label, ProviderSpec, SandboxId, SandboxSpec, TaskBudget},
};
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);
const IDLE_MS: u64 = 3_600_000;

struct TaskFixture {
    fleet: Fleet,
    sandbox: SandboxId,
    task: TaskRecord,
    grant: Arc<Grant>,
    driver: Arc<FakeDriver>,
    key: String,
    _dir: TempDir,
}

/// A running task whose agent has used its key.
async fn running(budget: Option<TaskBudget>) -> TaskFixture {
    let dir = tempfile::tempdir().expect("a directory");
    let driver = Arc::new(FakeDriver::default());
    let fleet = open(&driver, dir.path(), patient(IDLE_MS)).await;
    let spec = ProviderSpec { default: Some("m".to_owned()), no_key: true, ..ProviderSpec::default() };
    fleet.models().put_provider("openai", &spec).await.expect("a good provider");
    let sandbox = fleet.create(new_sandbox(&fleet, 1, &SandboxSpec::default())).await.expect("made").id;
    let tenant = Label::parse("t").expect("a label");
    let wish = GrantRequest { tenant: &tenant, model: None, dialects: &[Dialect::Openai], budget };
    let granted = fleet.models().grant(wish).await.expect("granted");
    let mut new = NewTask { sandbox, grant: Some(granted.row), ..new_task("t1") };
    new.request = Secret(protocol::TaskRequest { id: TaskId::parse("t1").ok(), ..new.request.0 });
    let TaskBegun::New(task) = fleet.submit(new).await.expect("submitted") else { panic!("it is new") };
    let key = granted.key;
    let claimed = async {
        loop {
            match fleet.models().authenticate(&sandbox, &key) {
                Some(grant) => return grant,
                None => sleep(Duration::from_millis(2)).await,
            }
        }
    };
    let grant = timeout(PATIENCE, claimed).await.expect("the key is good when the task is taken");
    TaskFixture { fleet, sandbox, task: *task, grant, driver, key, _dir: dir }
}

impl TaskFixture {
    async fn done(&self) -> TaskRecord {
        let done = async {
            loop {
                let task = self.fleet.store().task_by_number(self.task.number).await.expect("read");
                match task.filter(|task| task.done_seq.is_some()) {
                    Some(task) => return task,
                    None => sleep(Duration::from_millis(2)).await,
                }
            }
        };
        let task = timeout(PATIENCE, done).await.expect("it ends");
        let closed = async {
            while self.fleet.models().authenticate(&self.sandbox, &self.key).is_some() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, closed).await.expect("its key is worth nothing then");
        self.fleet.close().await;
        task
    }
}

fn refused() -> CallReport {
    let fault = Fault { status: Some(401), message: "wrong key".to_owned(), permanent: true };
    CallReport {
        attempt: 1,
        status: Some(401),
        tokens: None,
        first_byte_ms: None,
        outcome: Err(fault),
        abandoned: false,
    }
}

#[tokio::test]
async fn a_key_opens_when_runtimed_has_begun_with_its_task() {
    let fixture = running(None).await;
    let turn = timeout(PATIENCE, fixture.grant.wait_until_begun()).await.expect("in time");
    assert_eq!(turn, Ok(()));
    fixture.driver.end_tasks();
    fixture.done().await;
}

#[tokio::test]
async fn a_refusal_for_good_ends_the_task_at_once() {
    let fixture = running(None).await;
    let aim = fixture.grant.target(Dialect::Openai, "m").expect("a model");
    let call = fixture.grant.begin(&aim, CallParams::default()).expect("allowed");
    call.ended(refused()).await;
    let task = fixture.done().await;
    assert_eq!((task.status, task.failure_reason), (TaskStatus::Failed, Some(FailureReason::ModelFailed)));
    let message = task.result.and_then(|result| result.message);
    assert_eq!(
        message.as_deref(),
        Some(
            "the model provider openai wants a key (401): wrong key; `slipway model add openai` gives it one"
        )
    );
}

#[tokio::test]
async fn a_refusal_that_could_not_be_recorded_is_not_forgotten() {
    const MODELS: &str = "model_seen, model_verdict ON tasks";
    /// Time for the runner to find that nothing can be written.
    const WHILE: Duration = Duration::from_millis(100);
    for ends_by_itself in [false, true] {
        let fixture = running(None).await;
        let aim = fixture.grant.target(Dialect::Openai, "m").expect("a model");
        let call = fixture.grant.begin(&aim, CallParams::default()).expect("allowed");
        no_room_for(fixture.fleet.store(), MODELS, true).await;
        call.ended(refused()).await;
        if ends_by_itself {
            fixture.driver.end_tasks();
        }
        sleep(WHILE).await;
        no_room_for(fixture.fleet.store(), MODELS, false).await;
        let task = fixture.done().await;
        assert_eq!(task.failure_reason, Some(FailureReason::ModelFailed), "{ends_by_itself}");
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_ends_the_task_at_once() {
    let budget = TaskBudget { requests: Some(1), ..TaskBudget::default() };
    let fixture = running(Some(budget)).await;
    let aim = fixture.grant.target(Dialect::Openai, "m").expect("a model");
    let _call = fixture.grant.begin(&aim, CallParams::default()).expect("allowed");
    assert!(matches!(fixture.grant.begin(&aim, CallParams::default()), Err(CallRefusal::Budget(_))));
    let task = fixture.done().await;
    assert_eq!((task.status, task.failure_reason), (TaskStatus::Failed, Some(FailureReason::BudgetExceeded)));
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled() {
    let fixture = running(None).await;
    fixture.fleet.cancel(&fixture.task).await.expect("accepted");
    let task = fixture.done().await;
    assert_eq!((task.status, task.failure_reason), (TaskStatus::Cancelled, Some(FailureReason::Cancelled)));
}
