//! Runners of tasks, from the row to `done`. Each task without an end has one: it wakes the sandbox, delivers the
//! task to runtimed, follows its events and, where nothing else will, records the end. The client that submitted the
//! task may be gone; a hostd that dies leaves the task to the next one.

use super::{
    Fleet, FleetError,
    cause::Cause,
    event_recovery::recover_events,
    locate_agent,
    task_queue::{QueueTicket, TaskQueues},
    wake::reachable,
};
use hostd_core::{Delivery, ModelFailure, TaskEnding, TaskFacts, TaskStep, limits, task_step};
use hostd_drivers::control::{Control, ControlError};
use hostd_models::OpenGrant;
use hostd_store::{NewTask, StoreError, TaskBegun, TaskRecord};
use hyper::Method;
use protocol::{
    ErrorCode, TaskRequest, TaskView,
    api::{ProblemCode, SandboxId},
};
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicU32},
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};
use tracing::{debug, error, info};

/// The pause after a step that failed: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a change of the sandbox, after which the runner looks again.
const RECHECK_MAX: Duration = Duration::from_secs(30);

pub(super) const CALL_TIMEOUT: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

/// The runners of all tasks.
#[derive(Default)]
pub(super) struct TaskRunners {
    queues: TaskQueues,
    /// Wake-ups of runners, by the row of the task.
    wakeups: Mutex<HashMap<i64, Arc<Notify>>>,
    /// Notified when a quota may have room for a task that waits.
    room: Notify,
}

impl TaskRunners {
    fn add(&self, task: i64) -> Arc<Notify> {
        self.wakeups.lock().expect("no panic while held").entry(task).or_default().clone()
    }

    fn wake(&self, task: i64) {
        if let Some(wakeup) = self.wakeups.lock().expect("no panic while held").get(&task) {
            wakeup.notify_one();
        }
    }

    /// The task has ended: another one may have waited for its room.
    fn remove(&self, task: i64) {
        self.wakeups.lock().expect("no panic while held").remove(&task);
        self.notify_room();
    }

    pub(super) fn notify_room(&self) {
        self.room.notify_waiters();
    }
}

impl Fleet {
    /// Records a task and starts its runner.
    pub async fn submit(&self, task: NewTask) -> Result<TaskBegun, FleetError> {
        self.check_open()?;
        reachable(&*self.record(&task.sandbox).await?)?;
        let begun = self.store().begin_task(task).await?;
        if let TaskBegun::New(task) = &begun {
            self.run_task(task.number, task.sandbox);
        }
        Ok(begun)
    }

    /// Cancels a task. A task that has ended stays as it is.
    pub async fn cancel(&self, task: &TaskRecord) -> Result<TaskRecord, FleetError> {
        self.check_open()?;
        let task = self.store().cancel_task(task.number, self.clock().now_ms()).await?;
        self.runners().wake(task.number);
        Ok(task)
    }

    /// Starts runners for the tasks that an earlier hostd left without an end.
    pub(super) async fn resume_tasks(&self) -> Result<(), FleetError> {
        self.resume_open_tasks(None).await
    }

    /// Starts runners for the tasks of one sandbox that have no end.
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
        let runners = self.runners();
        let (ticket, wakeup) = (runners.queues.enqueue(sandbox, number), runners.add(number));
        let grant = OnceLock::new();
        let changes_tries = AtomicU32::new(0);
        let runner =
            TaskRunner { fleet: self.clone(), sandbox, number, ticket, wakeup, grant, changes_tries };
        let (fleet, open) = (self.clone(), self.metrics().open_task());
        let cause = Cause::current();
        self.spawn(async move {
            // Boxed: the future of a runner is large.
            Box::pin(cause.within(runner.run())).await;
            drop(open);
            fleet.runners().remove(number);
        });
    }
}

pub(super) struct TaskRunner {
    pub fleet: Fleet,
    pub sandbox: SandboxId,
    pub number: i64,
    /// The place in the queue of the sandbox, until runtimed has the task.
    ticket: QueueTicket,
    /// Notified when the task is to end.
    pub wakeup: Arc<Notify>,
    /// The model grant, whose key is good from when runtimed may have the task until the runner ends.
    grant: OnceLock<Option<OpenGrant>>,
    /// How often reading the changes failed.
    pub changes_tries: AtomicU32,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TaskError {
    #[error(transparent)]
    Fleet(#[from] FleetError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("the stream of the task's events broke")]
    Broken(#[source] hyper::Error),
    #[error("the stream of the task's events ended")]
    Ended,
    #[error("the last event of the task cannot be read")]
    BadDone,
    #[error("the task runs, but the stream of its events ended")]
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
                Ok(true) => return self.count_end().await,
                Ok(false) => pause = RETRY_MIN,
                Err(TaskError::Fleet(FleetError::ShuttingDown)) => return,
                Err(TaskError::Fleet(FleetError::QuotaExceeded(refused))) => {
                    debug!(sandbox = %self.sandbox, task = self.number, %refused, "task waits for its quota");
                    self.wait_for_room().await;
                }
                Err(error) => {
                    self.log_failure(&error);
                    sleep(pause).await;
                    pause = (pause * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Waits until a quota may have room. A wake-up that is lost costs a moment: the runner looks again.
    async fn wait_for_room(&self) {
        tokio::select! {
            // All arms only wait.
            () = self.fleet.runners().room.notified() => {}
            () = self.wakeup.notified() => {}
            () = sleep(RETRY_MAX) => {}
        }
    }

    async fn count_end(&self) {
        // Without its row the task is not counted.
        if let Ok(Some(task)) = self.fleet.store().task_by_number(self.number).await {
            self.fleet.metrics().count_task(&task);
        }
    }

    fn log_failure(&self, error: &TaskError) {
        let error = error as &dyn std::error::Error;
        debug!(sandbox = %self.sandbox, task = self.number, error, "task step failed");
    }

    /// Performs one step. Returns whether the task has ended.
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
            (true, false) => Delivery::Dispatched,
            (true, true) => Delivery::Accepted,
        };
        let facts = TaskFacts { delivery, cancelling: self.should_end(&task) };
        if given {
            self.ticket.leave();
        }
        match task_step(facts, &record.state) {
            TaskStep::Deliver if self.ticket.is_first() => {
                self.check_quota(&task).await?;
                self.deliver(&task).await
            }
            TaskStep::Follow => self.follow(task).await,
            TaskStep::Wake => {
                self.check_quota(&task).await?;
                Ok(self.fleet.wake_for_work(&self.sandbox).await.map(|_| false)?)
            }
            TaskStep::Wait | TaskStep::Deliver => {
                tokio::select! {
                    // All arms only wait.
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

    /// Checks for room before the sandbox is woken; that there is room is certain only when it is taken.
    async fn check_quota(&self, task: &TaskRecord) -> Result<(), TaskError> {
        if task.taken { Ok(()) } else { Ok(self.fleet.store().check_task_quota(self.number).await?) }
    }

    async fn deliver(&self, task: &TaskRecord) -> Result<bool, TaskError> {
        // The lease is held until runtimed has the task: the sandbox does not fall asleep in between.
        let (_, control) = match self.fleet.wake_for_work(&self.sandbox).await {
            // The backend was away for as long as a start may take: the client may submit the task again.
            Err(FleetError::Failed { problem, .. }) if problem.code == ProblemCode::DriverUnavailable => {
                return self.conclude(TaskEnding::SandboxFailed(Some(*problem))).await;
            }
            woken => woken?,
        };
        let Some(request) = &task.request else {
            return self.conclude(TaskEnding::Refused("its request is not stored any more".to_owned())).await;
        };
        // A hostd died between the reply of runtimed and recording it: the task runs, whatever is checked now.
        if task.taken && runtimed_has_task(task, &control).await? {
            return self.delivered().await;
        }
        let agents = self.fleet.agents();
        let request = match locate_agent(&control, agents, &task.agent, &request.0.agent).await? {
            Ok(agent) => TaskRequest { agent, ..request.0.clone() },
            Err(message) => return self.conclude(TaskEnding::AgentMissing(message)).await,
        };
        // Recorded first: from here on the task may be running, which matters to its end.
        if self.fleet.store().mark_task_dispatched(self.number).await?.done_seq.is_some() {
            return Ok(true);
        }
        self.open_models(task);
        match control.json::<TaskView>(Method::POST, "/v1/tasks", Some(&request), CALL_TIMEOUT).await {
            Ok(_) => {}
            Err(ControlError::Refused(body)) if is_permanent(body.error.code) => {
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

    /// Opens the model grant: from when runtimed has started the task, its agent may call models.
    fn open_models(&self, task: &TaskRecord) {
        self.grant.get_or_init(|| self.fleet.models().open_grant(task, self.wakeup.clone()));
        if task.has_begun() {
            self.on_task_started();
        }
    }

    /// runtimed has started the task.
    pub(super) fn on_task_started(&self) {
        if let Some(Some(grant)) = self.grant.get() {
            grant.begun();
        }
    }

    /// Whether the task is to end: it is cancelled, or its model calls failed for good. A model outcome that could
    /// not be recorded counts too.
    pub(super) fn should_end(&self, task: &TaskRecord) -> bool {
        task.must_end() || self.model_failure().is_some()
    }

    fn model_failure(&self) -> Option<&ModelFailure> {
        self.grant.get().and_then(Option::as_ref).and_then(OpenGrant::verdict)
    }

    /// Records the use of models and their outcome before the end of the task, which they explain.
    pub(super) async fn settle_models(&self) -> Result<(), TaskError> {
        if let Some(Some(grant)) = self.grant.get() {
            grant.settle().await;
        }
        self.record_model_failure().await
    }

    /// Records the model outcome before the end of the task, which it explains.
    async fn record_model_failure(&self) -> Result<(), TaskError> {
        if let Some(failure) = self.model_failure() {
            self.fleet.store().judge_task(self.number, failure.clone()).written().await?;
        }
        Ok(())
    }

    pub(super) async fn cancel(&self, task: &TaskRecord, control: &Control) -> Result<(), TaskError> {
        self.record_model_failure().await?;
        let path = format!("/v1/tasks/{}/cancel", task.id);
        match control.json::<TaskView>(Method::POST, &path, Some(&json!({})), CALL_TIMEOUT).await {
            Ok(_) => Ok(()),
            // The task has ended by itself, or runtimed does not know it any more: its events tell which.
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
        info!(sandbox = %self.sandbox, task = self.number, ?ending, "recording the end of a task");
        let now_ms = self.fleet.clock().now_ms();
        let task = self.fleet.store().conclude_task(self.number, ending, now_ms).await?;
        if task.done_seq.is_none() {
            error!(task = self.number, "failed to end a task");
        }
        Ok(task.done_seq.is_some())
    }
}

/// Whether runtimed knows the task.
async fn runtimed_has_task(task: &TaskRecord, control: &Control) -> Result<bool, TaskError> {
    match control.get::<TaskView>(&format!("/v1/tasks/{}", task.id), CALL_TIMEOUT).await {
        Ok(_) => Ok(true),
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether runtimed will never accept the same request.
fn is_permanent(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::InvalidRequest | ErrorCode::Conflict | ErrorCode::TooLarge)
}
