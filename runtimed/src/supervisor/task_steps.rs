//! Feeds the machine of a task and performs its effects.

use super::main_loop::Supervisor;
use super::task::{LiveTask, State};
use super::task_end::{MESSAGE_MAX_CHARS, truncated_to_fit};
use crate::core::task::{Effect, Input, Outcome, Stage};
use crate::shim::messages::Claim;
use crate::sys::clock::{monotonic_ms, wall_ms};
use protocol::{
    Exit, Fact, FailureReason, HealthOutcome, HealthStatus, ServiceName, TaskFact, TaskId, TaskPhase,
    TaskResult,
};
use std::collections::VecDeque;

impl Supervisor {
    /// Feeds a task an input and performs all that follows; then starts the next queued task.
    pub(super) fn step_task(&mut self, id: &TaskId, input: Input) {
        self.step_one(id, input);
        self.start_next_task();
    }

    /// Starts queued tasks while none runs and no revert is under way.
    pub(super) fn start_next_task(&mut self) {
        while self.tasks.active.is_none() && self.revert.is_none() && !self.is_shutting_down() {
            let Some(next) = self.tasks.queue.pop_front() else { return };
            self.tasks.active = Some(next.clone());
            self.step_one(&next, Input::Begin);
        }
    }

    fn step_one(&mut self, id: &TaskId, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(live) = self.tasks.live_mut(id) else { return };
            for effect in live.machine.step(input, monotonic_ms()) {
                inputs.extend(self.perform_for(id, effect));
            }
        }
    }

    /// Performs one effect; returns the input that follows at once.
    fn perform_for(&mut self, id: &TaskId, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Enter(phase) => {
                self.enter_phase(id, phase);
                None
            }
            Effect::Prepare => Some(Input::Prepared),
            Effect::Start(stage) => self.start_stage(id, stage),
            Effect::Stop { grace_ms } => {
                self.stop_stage(id, grace_ms);
                None
            }
            Effect::RetryServices => {
                self.load_manifest();
                self.services.task_ended(&mut self.context);
                None
            }
            Effect::CheckServices => Some(self.check_services(id)),
            Effect::Finish(outcome) => {
                self.finish_task(id, outcome);
                None
            }
        }
    }

    fn enter_phase(&mut self, id: &TaskId, phase: TaskPhase) {
        let Some(task) = self.tasks.get_mut(id) else { return };
        let checkpoint = match &task.state {
            State::Live(live) if phase == TaskPhase::Agent => Some(live.checkpoint.clone()),
            State::Live(_) | State::Ending(_) | State::Done(_) => None,
        };
        if phase == TaskPhase::Preparing {
            task.started_ms = Some(wall_ms());
        }
        self.tasks.write(id, TaskFact::Status { phase, checkpoint });
        if phase == TaskPhase::Preparing {
            self.context.record(Fact::TaskStarted { task: id.clone() });
        }
    }

    /// Checks the services for a task that waits for them.
    fn check_services(&mut self, id: &TaskId) -> Input {
        let (any_service, unready) = self.services.unready();
        let ready = unready.is_empty();
        if let Some(live) = self.tasks.live_mut(id) {
            live.any_service = any_service;
            live.unready = Some(unready);
        }
        Input::Services { ready }
    }

    /// Called after each event that may have changed the readiness of services.
    pub(super) fn recheck_services(&mut self) {
        let Some(id) = self.tasks.active.clone() else { return };
        if self.tasks.live_mut(&id).is_some_and(|live| live.machine.waits_for_services()) {
            let input = self.check_services(&id);
            self.step_task(&id, input);
        }
    }

    pub(super) fn tick_task(&mut self) {
        self.tasks.end_due(&mut self.context);
        if let Some(id) = self.tasks.active.clone() {
            self.step_task(&id, Input::Tick);
        }
    }

    /// Ends all tasks for a shutdown: queued ones never run, the running one is stopped.
    pub(super) fn stop_tasks(&mut self, grace_ms: u64) {
        let live: Vec<TaskId> = self.tasks.live().cloned().collect();
        for id in live {
            if let Some(live) = self.tasks.live_mut(&id) {
                live.message = Some("the sandbox was stopped".to_owned());
            }
            self.step_task(&id, Input::Shutdown { grace_ms });
        }
    }

    fn finish_task(&mut self, id: &TaskId, outcome: Outcome) {
        let writer = self.abandon_stage(id);
        let Some(live) = self.tasks.live_mut(id) else { return };
        let result = truncated_to_fit(result(live, outcome));
        self.tasks.finish(&mut self.context, id, result, writer);
    }
}

fn result(live: &mut LiveTask, outcome: Outcome) -> TaskResult {
    let explained = || match outcome.reason {
        Some(reason) => explain(reason, live),
        None => did_nothing(live).then(|| "the agent printed nothing and changed nothing".to_owned()),
    };
    let message = live.message.clone().or_else(explained);
    TaskResult {
        status: outcome.status,
        failure_reason: outcome.reason,
        message: message.map(|text| text.chars().take(MESSAGE_MAX_CHARS).collect()),
        exit: live.exit.take(),
        hints: std::mem::take(&mut live.hints),
        final_message: live.final_message.take(),
        agent_stderr: live
            .agent_stderr
            .take()
            .filter(|_| outcome.reason.is_some_and(FailureReason::is_of_agent)),
        files_changed: live.changes.take(),
        build: std::mem::replace(&mut live.build, super::task::no_build()),
        health: health(live.unready.take(), live.any_service),
        usage: None,
        models: Vec::new(),
        session: live.claim.take().and_then(|claim| claim.session),
        durations: outcome.durations,
        checkpoint: live.checkpoint.clone(),
    }
}

fn health(unready: Option<Vec<ServiceName>>, any_service: bool) -> HealthOutcome {
    let unready = unready.unwrap_or_default();
    let status = match (any_service, unready.is_empty()) {
        (false, _) => HealthStatus::Unknown,
        (true, true) => HealthStatus::Healthy,
        (true, false) => HealthStatus::Unhealthy,
    };
    HealthOutcome { status, unready }
}

/// Success without any trace deserves a message. Changes that could not be counted are no evidence.
fn did_nothing(live: &LiveTask) -> bool {
    let changed = live.changes.as_ref().map(|changes| changes.added + changes.modified + changes.deleted);
    live.final_message.is_none() && changed == Some(0)
}

/// The error message for the user.
fn explain(reason: FailureReason, live: &LiveTask) -> Option<String> {
    match reason {
        FailureReason::AgentFailed => Some(agent_failed(live)),
        FailureReason::SpawnFailed => match &live.exit {
            Some(Exit::SpawnFailed { message }) => Some(format!("could not {message}")),
            Some(
                Exit::Exited { .. }
                | Exit::Signalled { .. }
                | Exit::Oom
                | Exit::TimedOut
                | Exit::Cancelled
                | Exit::Lost,
            )
            | None => Some("the agent could not be started".to_owned()),
        },
        FailureReason::TimedOut => Some("the task exceeded its timeout".to_owned()),
        FailureReason::IdleTimedOut => Some("the agent printed nothing for too long".to_owned()),
        FailureReason::BuildFailed => Some("the build failed".to_owned()),
        FailureReason::Lost => Some("the process that runs the agent died".to_owned()),
        // Others are explained by the component that set them.
        FailureReason::Cancelled
        | FailureReason::ModelFailed
        | FailureReason::BudgetExceeded
        | FailureReason::SandboxFailed
        | FailureReason::Internal => None,
    }
}

/// The agent's own message, where it sent one.
fn agent_failed(live: &LiveTask) -> String {
    let own_words = live.claim.as_ref().filter(|claim| !claim.good).and_then(|claim| claim.message.clone());
    own_words.unwrap_or_else(|| match (&live.exit, &live.claim) {
        (Some(Exit::Exited { code: 0 }), _) => "the agent exited without reporting a result".to_owned(),
        (Some(Exit::Exited { code }), Some(Claim { good: true, .. })) => {
            format!("the agent reported success, but exited with {code}")
        }
        (Some(Exit::Exited { code }), _) => format!("the agent exited with {code}"),
        (Some(Exit::Signalled { signal }), _) => format!("the agent was killed by signal {signal}"),
        (Some(Exit::Oom), _) => "the agent was killed for memory".to_owned(),
        (Some(Exit::TimedOut | Exit::Cancelled | Exit::SpawnFailed { .. } | Exit::Lost) | None, _) => {
            "the agent failed".to_owned()
        }
    })
}

/// Whether a job of this stage writes the events of its task.
pub(super) fn writes_events(stage: Stage) -> bool {
    match stage {
        Stage::Agent | Stage::Build => true,
        Stage::Checkpoint | Stage::Changes => false,
    }
}
