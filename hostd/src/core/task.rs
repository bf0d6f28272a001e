//! What to do next for a task that has no end yet.

use super::State;
use protocol::{
    BuildOutcome, BuildStatus, Checkpoint, Durations, FailureReason, HealthOutcome, HealthStatus, TaskResult,
    TaskStatus,
    api::{Problem, SandboxStatus},
};

/// What is known of the task itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskFacts {
    /// runtimed may have it.
    pub taken: bool,
    /// runtimed has it, and tells its end.
    pub given: bool,
    pub cancelling: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TaskStep {
    /// Wake the sandbox, and give the task to its runtimed.
    Deliver,
    /// runtimed tells what happens.
    Follow,
    /// Wake the sandbox: there is something to tell it.
    Wake,
    /// Until the sandbox is something else.
    Wait,
    /// Nobody else will ever tell its end.
    Conclude(TaskEnding),
}

/// An end that runtimed does not tell.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskEnding {
    Cancelled,
    /// The sandbox stopped or died under it.
    Lost,
    Destroyed,
    SandboxFailed(Option<Problem>),
    /// runtimed will never run it.
    Refused(String),
    /// Its agent is not there: what to do about that.
    AgentMissing(String),
    /// runtimed told how it ended, and not as its last event.
    Reported(Box<TaskResult>),
}

pub fn task_step(task: TaskFacts, sandbox: &State) -> TaskStep {
    let settled = sandbox.operation.is_none();
    match (sandbox.status, task.taken) {
        (SandboxStatus::Destroyed, _) => TaskStep::Conclude(TaskEnding::Destroyed),
        (_, false) if task.cancelling => TaskStep::Conclude(TaskEnding::Cancelled),
        (SandboxStatus::Error, false) if settled => {
            TaskStep::Conclude(TaskEnding::SandboxFailed(sandbox.problem.clone()))
        }
        (SandboxStatus::Error, true) if settled && !task.given => {
            TaskStep::Conclude(TaskEnding::SandboxFailed(sandbox.problem.clone()))
        }
        (_, false) => TaskStep::Deliver,
        // Whether it came there is not known: it is given again, which does no harm.
        (_, true) if !task.given => TaskStep::Deliver,
        (SandboxStatus::Running, true) if settled => TaskStep::Follow,
        (SandboxStatus::Paused, true) if settled && task.cancelling => TaskStep::Wake,
        (SandboxStatus::Stopped | SandboxStatus::Error, true) if settled => {
            TaskStep::Conclude(TaskEnding::Lost)
        }
        (_, true) => TaskStep::Wait,
    }
}

impl TaskEnding {
    /// The result of a task that ends so.
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

/// The result of a task that was lost with its sandbox, with why that ended.
pub fn explain_loss(result: TaskResult, death: Option<&str>) -> TaskResult {
    match (result.failure_reason, death) {
        (Some(FailureReason::Lost), Some(why)) => {
            TaskResult { message: Some(format!("the sandbox ended under it: {why}")), ..result }
        }
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Goal, Operation};
    use protocol::api::Phase;

    fn state(status: SandboxStatus, busy: bool) -> State {
        let operation = busy.then_some(Operation { phase: Phase::Provisioning, deadline_ms: 1 });
        State { goal: Goal::Running, status, operation, renewal: None, dozing: false, problem: None }
    }

    #[test]
    fn every_task_gets_an_end_or_somebody_who_tells_it() {
        use SandboxStatus::{Creating, Destroyed, Error, Paused, Running, Stopped};
        for status in [Creating, Running, Paused, Stopped, Error, Destroyed] {
            for busy in [false, true] {
                for (taken, given) in [(false, false), (true, false), (true, true)] {
                    for cancelling in [false, true] {
                        let step = task_step(TaskFacts { taken, given, cancelling }, &state(status, busy));
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
                        assert_eq!(step, expected, "{status:?} {busy} {taken} {given} {cancelling}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_end_that_we_tell_is_a_final_one_with_a_reason() {
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
    fn only_one_that_was_lost_is_told_why_the_sandbox_ended() {
        let said =
            |ending: TaskEnding, death| explain_loss(ending.result(true), death).message.unwrap_or_default();
        assert_eq!(said(TaskEnding::Lost, Some("it burnt")), "the sandbox ended under it: it burnt");
        assert_eq!(said(TaskEnding::Lost, None), "the sandbox ended under it");
        assert_eq!(said(TaskEnding::AgentMissing("install it".to_owned()), Some("it burnt")), "install it");
    }
}
