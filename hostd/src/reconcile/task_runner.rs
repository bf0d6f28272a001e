//! Tasks, from the row to `done`. Each that has no end has a runner: it wakes the sandbox, gives the task to
//! runtimed, follows what happens and, when nobody else will, tells the end. Whoever submitted it may be gone;
//! a hostd that dies leaves all of it to the next one.

use super::{
    Fleet, FleetError, event_recovery::recover_events, fleet::reachable, locate_agent,
    task_queue::QueueTicket,
};
use crate::{
    control::{Control, ControlError},
    core::{Delivery, ModelFailure, TaskEnding, TaskFacts, TaskStep, task_step},
    limits,
    models::OpenGrant,
    store::{NewTask, StoreError, TaskBegun, TaskRecord},
};
use hyper::Method;
use protocol::{
    ErrorCode, TaskRequest, TaskView,
    api::{ProblemCode, SandboxId},
};
use serde_json::json;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};
use tracing::{debug, error, info};

/// After a step that failed: first, longest.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a sandbox is not looked at that does not change.
const RECHECK_MAX: Duration = Duration::from_secs(30);

pub(super) const CALL_TIMEOUT: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

impl Fleet {
    /// Writes a task down and begins with it.
    pub async fn submit(&self, task: NewTask) -> Result<TaskBegun, FleetError> {
        self.check_open()?;
        reachable(&*self.record(&task.sandbox).await?)?;
        let begun = self.store().begin_task(task).await?;
        if let TaskBegun::New(task) = &begun {
            self.run_task(task.number, task.sandbox);
        }
        Ok(begun)
    }

    /// Asks for the end of a task. As it is then: one that has ended stays as it is.
    pub async fn cancel(&self, task: &TaskRecord) -> Result<TaskRecord, FleetError> {
        self.check_open()?;
        let task = self.store().cancel_task(task.number, self.clock().now_ms()).await?;
        self.wake_runner(task.number);
        Ok(task)
    }

    /// Takes up what an earlier hostd left without an end.
    pub(super) async fn resume_tasks(&self) -> Result<(), FleetError> {
        self.resume_open_tasks(None).await
    }

    /// The same for one sandbox.
    pub(super) async fn resume_tasks_of(&self, sandbox: SandboxId) -> Result<(), FleetError> {
        self.resume_open_tasks(Some(sandbox)).await
    }

    async fn resume_open_tasks(&self, sandbox: Option<SandboxId>) -> Result<(), FleetError> {
        for task in self.store().open_tasks(sandbox).await? {
            self.run_task(task.number, task.sandbox);
        }
        Ok(())
    }

    fn run_task(&self, number: i64, sandbox: SandboxId) {
        let (ticket, wakeup) = (self.task_queues().enqueue(sandbox, number), self.runner_wakeup(number));
        let grant = OnceLock::new();
        let runner = TaskRunner { fleet: self.clone(), sandbox, number, ticket, wakeup, grant };
        let fleet = self.clone();
        self.spawn(async move {
            runner.run().await;
            fleet.forget_runner(number);
        });
    }
}

pub(super) struct TaskRunner {
    pub fleet: Fleet,
    pub sandbox: SandboxId,
    pub number: i64,
    /// Until runtimed has it.
    ticket: QueueTicket,
    /// Told when its end is wanted.
    pub wakeup: Arc<Notify>,
    /// Its key of models, which is good from when runtimed may have it until the runner ends.
    grant: OnceLock<Option<OpenGrant>>,
}

/// Why a step did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum TaskError {
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("the stream of its events broke")]
    Broken(#[source] hyper::Error),
    #[error("the stream of its events ended")]
    Ended,
    #[error("its last event cannot be read")]
    BadDone,
    #[error("it goes on, but its events ended")]
    StillRunning,
    #[error("an event of more than {} bytes", limits::TASK_LINE_MAX_BYTES)]
    TooLong,
}

impl From<StoreError> for TaskError {
    fn from(error: StoreError) -> Self {
        Self::Fleet(error.into())
    }
}

impl TaskRunner {
    async fn run(&self) {
        let mut pause = RETRY_MIN;
        loop {
            match self.step().await {
                Ok(true) => return,
                Ok(false) => pause = RETRY_MIN,
                Err(TaskError::Fleet(FleetError::ShuttingDown)) => return,
                Err(error) => {
                    self.log_failure(&error);
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_MAX);
                }
            }
        }
    }

    fn log_failure(&self, error: &TaskError) {
        let error = error as &dyn std::error::Error;
        debug!(sandbox = %self.sandbox, task = self.number, error, "a step of a task failed");
    }

    /// Whether it has ended.
    async fn step(&self) -> Result<bool, TaskError> {
        let Some(task) = self.fleet.store().task_by_number(self.number).await? else { return Ok(true) };
        if task.done_seq.is_some() {
            return Ok(true);
        }
        let record = self.fleet.record(&self.sandbox).await?;
        let given = task.request.is_none();
        if task.taken {
            self.open_models(&task);
        }
        let delivery = match (task.taken, given) {
            (false, _) => Delivery::Pending,
            (true, false) => Delivery::Offered,
            (true, true) => Delivery::Accepted,
        };
        let facts = TaskFacts { delivery, cancelling: self.should_end(&task) };
        if given {
            self.ticket.leave();
        }
        match task_step(facts, &record.state) {
            TaskStep::Deliver if self.ticket.is_first() => self.deliver(&task).await,
            TaskStep::Follow => self.follow(task).await,
            TaskStep::Wake => Ok(self.fleet.wake_for_work(&self.sandbox).await.map(|_| false)?),
            TaskStep::Wait | TaskStep::Deliver => {
                tokio::select! {
                    // All only wait.
                    () = self.ticket.changed() => {}
                    () = self.fleet.wait_changed(&self.sandbox, record.generation) => {}
                    () = self.wakeup.notified() => {}
                    () = sleep(RECHECK_MAX) => {}
                }
                Ok(false)
            }
            TaskStep::Conclude(ending) => self.conclude(ending).await,
        }
    }

    async fn deliver(&self, task: &TaskRecord) -> Result<bool, TaskError> {
        // Held until it is taken: it does not fall asleep in between.
        let (_, control) = match self.fleet.wake_for_work(&self.sandbox).await {
            // Its backend was waited for as long as a start may take. Whoever wants more submits it again.
            Err(FleetError::Failed { problem, .. }) if problem.code == ProblemCode::DriverUnavailable => {
                return self.conclude(TaskEnding::SandboxFailed(Some(*problem))).await;
            }
            woken => woken?,
        };
        let Some(request) = &task.request else {
            return self
                .conclude(TaskEnding::Refused("what it was to do is not known any more".to_owned()))
                .await;
        };
        // Given by a hostd that died before it wrote that down: nothing that is asked now can end it.
        if task.taken && runtimed_has_task(task, &control).await? {
            return self.delivered().await;
        }
        let agents = self.fleet.agents();
        let request = match locate_agent(&control, agents, &task.agent, &request.0.agent).await? {
            Ok(agent) => TaskRequest { agent, ..request.0.clone() },
            Err(message) => return self.conclude(TaskEnding::AgentMissing(message)).await,
        };
        // First: whoever ends it from here on knows that it may be running.
        if self.fleet.store().mark_task_dispatched(self.number).await?.done_seq.is_some() {
            return Ok(true);
        }
        self.open_models(task);
        match control.json::<TaskView>(Method::POST, "/v1/tasks", Some(&request), CALL_TIMEOUT).await {
            Ok(_) => {}
            Err(ControlError::Refused(body)) if is_final(body.error.code) => {
                return self.conclude(TaskEnding::Refused(body.error.message.clone())).await;
            }
            Err(error) => return Err(error.into()),
        }
        self.delivered().await
    }

    async fn delivered(&self) -> Result<bool, TaskError> {
        let task = self.fleet.store().mark_task_accepted(self.number).await?;
        Ok(task.done_seq.is_some())
    }

    /// From here on its agent may call models, when its turn has come.
    fn open_models(&self, task: &TaskRecord) {
        self.grant.get_or_init(|| self.fleet.models().open_grant(task, self.wakeup.clone()));
        if task.has_begun() {
            self.on_task_started();
        }
    }

    /// runtimed has begun with it.
    pub(super) fn on_task_started(&self) {
        if let Some(Some(grant)) = self.grant.get() {
            grant.begun();
        }
    }

    /// Somebody wants it, or its models allow nothing else. What could not be written down counts too.
    pub(super) fn should_end(&self, task: &TaskRecord) -> bool {
        task.must_end() || self.verdict().is_some()
    }

    fn verdict(&self) -> Option<&ModelFailure> {
        self.grant.get().and_then(Option::as_ref).and_then(OpenGrant::verdict)
    }

    /// Its end is about to be written down: what it used of models goes first, and what they say of that end.
    pub(super) async fn settle_models(&self) -> Result<(), TaskError> {
        if let Some(Some(grant)) = self.grant.get() {
            grant.settle().await;
        }
        self.write_verdict().await
    }

    /// Before its end, which it explains.
    async fn write_verdict(&self) -> Result<(), TaskError> {
        if let Some(verdict) = self.verdict() {
            self.fleet.store().judge_task(self.number, verdict.clone()).written().await?;
        }
        Ok(())
    }

    pub(super) async fn cancel(&self, task: &TaskRecord, control: &Control) -> Result<(), TaskError> {
        self.write_verdict().await?;
        let path = format!("/v1/tasks/{}/cancel", task.id);
        match control.json::<TaskView>(Method::POST, &path, Some(&json!({})), CALL_TIMEOUT).await {
            Ok(_) => Ok(()),
            // It has ended by itself, or is not known there any more: its events tell which.
            Err(ControlError::Refused(body))
                if matches!(body.error.code, ErrorCode::NotRunning | ErrorCode::NotFound) =>
            {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn conclude(&self, ending: TaskEnding) -> Result<bool, TaskError> {
        self.settle_models().await?;
        if matches!(ending, TaskEnding::Lost | TaskEnding::SandboxFailed(_)) {
            let record = self.fleet.record(&self.sandbox).await?;
            if let Some(logs) = self.fleet.driver_of(&record).logs(&self.sandbox) {
                recover_events(self.fleet.store(), logs, &self.sandbox).await?;
            }
        }
        info!(sandbox = %self.sandbox, task = self.number, ?ending, "a task ends that nobody else ends");
        let now_ms = self.fleet.clock().now_ms();
        let task = self.fleet.store().conclude_task(self.number, ending, now_ms).await?;
        if task.done_seq.is_none() {
            error!(task = self.number, "a task could not be ended");
        }
        Ok(task.done_seq.is_some())
    }
}

/// Whether runtimed knows of it.
async fn runtimed_has_task(task: &TaskRecord, control: &Control) -> Result<bool, TaskError> {
    match control.get::<TaskView>(&format!("/v1/tasks/{}", task.id), CALL_TIMEOUT).await {
        Ok(_) => Ok(true),
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the same request will never be taken.
fn is_final(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::Conflict | ErrorCode::TooLarge)
}
