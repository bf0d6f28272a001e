//! The next step of a task that has no end yet.

use super::State;
use protocol::{
    BuildOutcome, BuildStatus, Checkpoint, Durations, FailureReason, HealthOutcome, HealthStatus, TaskResult,
    TaskStatus,
    api::{Problem, SandboxStatus},
};

/// How far a task has come on its way to runtimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// runtimed was never asked to take it.
    Pending,
    /// runtimed may have it: hostd asked, and does not know the reply.
    Dispatched,
    /// runtimed has it, and reports its end.
    Accepted,
}

/// The progress of a task, as its record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFacts {
    pub delivery: Delivery,
    pub cancelling: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// Wake the sandbox, and give the task to its runtimed.
    Deliver,
    /// Read the events of the task from runtimed.
    Follow,
    /// Wake the sandbox: the task in it is to be cancelled.
    Wake,
    /// Wait until the state of the sandbox changes.
    Wait,
    /// Record an end that nothing else will report.
    Conclude(TaskEnding),
}

/// An end that runtimed does not report as the last event of the task.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEnding {
    Cancelled,
    /// The sandbox stopped or died while the task ran.
    Lost,
    Destroyed,
    SandboxFailed(Option<Problem>),
    /// runtimed will never run it.
    Refused(String),
    /// The agent is not installed; the message says what to do.
    AgentMissing(String),
    /// runtimed has this result, and no event for it.
    Reported(Box<TaskResult>),
}

pub fn task_step(task: TaskFacts, sandbox: &State) -> TaskStep {
    if sandbox.status == SandboxStatus::Destroyed {
        return TaskStep::Conclude(TaskEnding::Destroyed);
    }
    let in_error = sandbox.status == SandboxStatus::Error && sandbox.operation.is_none();
    let failed = || TaskStep::Conclude(TaskEnding::SandboxFailed(sandbox.problem.clone()));
    match task.delivery {
        Delivery::Pending if task.cancelling => TaskStep::Conclude(TaskEnding::Cancelled),
        Delivery::Pending | Delivery::Dispatched if in_error => failed(),
        // A task that runtimed may have is offered again, which does no harm.
        Delivery::Pending | Delivery::Dispatched => TaskStep::Deliver,
        Delivery::Accepted => accepted_step(task.cancelling, sandbox),
    }
}

/// The next step of a task that runtimed has.
fn accepted_step(cancelling: bool, sandbox: &State) -> TaskStep {
    if sandbox.operation.is_some() {
        return TaskStep::Wait;
    }
    match sandbox.status {
        SandboxStatus::Running => TaskStep::Follow,
        SandboxStatus::Paused if cancelling => TaskStep::Wake,
        SandboxStatus::Creating | SandboxStatus::Paused => TaskStep::Wait,
        SandboxStatus::Stopped | SandboxStatus::Error => TaskStep::Conclude(TaskEnding::Lost),
        SandboxStatus::Destroyed => TaskStep::Conclude(TaskEnding::Destroyed),
    }
}

impl TaskEnding {
    /// The result of a task that ends so. `taken`: runtimed may have had it.
    pub fn result(&self, taken: bool) -> TaskResult {
        let (status, failure_reason, message) = match self {
            Self::Cancelled => (TaskStatus::Cancelled, FailureReason::Cancelled, None),
            Self::Lost => {
                (TaskStatus::Failed, FailureReason::Lost, Some("the sandbox ended under it".to_owned()))
            }
            Self::Destroyed => {
                (TaskStatus::Failed, FailureReason::Lost, Some("the sandbox was destroyed".to_owned()))
            }
            Self::SandboxFailed(problem) => {
                let why = problem.as_ref().map_or("it is in error", |problem| problem.message.as_str());
                let message = format!("the sandbox could not be brought up: {why}");
                (TaskStatus::Failed, FailureReason::SandboxFailed, Some(message))
            }
            Self::Refused(why) => {
                (TaskStatus::Failed, FailureReason::Internal, Some(format!("the sandbox refused it: {why}")))
            }
            Self::AgentMissing(message) => {
                (TaskStatus::Failed, FailureReason::SpawnFailed, Some(message.clone()))
            }
            Self::Reported(result) => return (**result).clone(),
        };
        let why = if taken { "its record was lost with the sandbox" } else { "the task never started" };
        TaskResult {
            status,
            failure_reason: Some(failure_reason),
            message,
            exit: None,
            hints: Vec::new(),
            final_message: None,
            agent_stderr: None,
            files_changed: None,
            build: BuildOutcome { status: BuildStatus::Skipped, exit: None, output: None, duration_ms: 0 },
            health: HealthOutcome { status: HealthStatus::Unknown, unready: Vec::new() },
            usage: None,
            models: Vec::new(),
            session: None,
            durations: Durations::default(),
            checkpoint: Checkpoint::Unavailable { why: why.to_owned() },
        }
    }
}

/// Adds to the result of a task that was lost with its sandbox why the sandbox ended.
pub fn explain_loss(result: TaskResult, death: Option<&str>) -> TaskResult {
    if result.failure_reason == Some(FailureReason::Lost)
        && let Some(why) = death
    {
        return TaskResult { message: Some(format!("the sandbox ended under it: {why}")), ..result };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Goal, Operation};
    use protocol::api::Phase;

    fn state(status: SandboxStatus, busy: bool) -> State {
        let operation = busy.then_some(Operation { phase: Phase::Provisioning, deadline_ms: 1 });
        State { goal: Goal::Running, status, operation, renewal: None, dozing: false, problem: None }
    }

    #[test]
    fn every_task_gets_an_end_or_a_source_of_one() {
        use SandboxStatus::{Creating, Destroyed, Error, Paused, Running, Stopped};
        for status in [Creating, Running, Paused, Stopped, Error, Destroyed] {
            for busy in [false, true] {
                for delivery in [Delivery::Pending, Delivery::Dispatched, Delivery::Accepted] {
                    let (taken, given) = (delivery != Delivery::Pending, delivery == Delivery::Accepted);
                    for cancelling in [false, true] {
                        let step = task_step(TaskFacts { delivery, cancelling }, &state(status, busy));
                        let expected = match (status, busy, taken, cancelling) {
                            (Error, false, true, _) if !given => {
                                TaskStep::Conclude(TaskEnding::SandboxFailed(None))
                            }
                            (Creating | Running | Paused | Stopped | Error, _, true, _) if !given => {
                                TaskStep::Deliver
                            }
                            (Destroyed, ..) => TaskStep::Conclude(TaskEnding::Destroyed),
                            (_, _, false, true) => TaskStep::Conclude(TaskEnding::Cancelled),
                            (Error, false, false, _) => TaskStep::Conclude(TaskEnding::SandboxFailed(None)),
                            (_, _, false, false) => TaskStep::Deliver,
                            (Running, false, true, _) => TaskStep::Follow,
                            (Paused, false, true, true) => TaskStep::Wake,
                            (Stopped | Error, false, true, _) => TaskStep::Conclude(TaskEnding::Lost),
                            (_, _, true, _) => TaskStep::Wait,
                        };
                        assert_eq!(step, expected, "{status:?} {busy} {delivery:?} {cancelling}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_end_that_hostd_records_is_final_and_has_a_reason() {
        for ending in [
            TaskEnding::Cancelled,
            TaskEnding::Lost,
            TaskEnding::Destroyed,
            TaskEnding::SandboxFailed(None),
            TaskEnding::Refused("no".to_owned()),
            TaskEnding::AgentMissing("install it".to_owned()),
        ] {
            let result = ending.result(true);
            assert!(result.status.is_final() && result.failure_reason.is_some(), "{ending:?}");
        }
    }

    #[test]
    fn only_a_lost_task_says_why_the_sandbox_ended() {
        let message =
            |ending: TaskEnding, death| explain_loss(ending.result(true), death).message.unwrap_or_default();
        assert_eq!(message(TaskEnding::Lost, Some("it burnt")), "the sandbox ended under it: it burnt");
        assert_eq!(message(TaskEnding::Lost, None), "the sandbox ended under it");
        assert_eq!(
            message(TaskEnding::AgentMissing("install it".to_owned()), Some("it burnt")),
            "install it"
        );
    }
}
