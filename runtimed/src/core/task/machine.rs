//! The state machine of a task: an input and the time in, effects out.

use super::input_effect::{AgentEnd, Effect, Input, Outcome, Policy, Stage};
use crate::limits::{GRACE_DEFAULT_MS, KILL_MAX_MS};
use protocol::{Durations, FailureReason, TaskPhase, TaskStatus};

/// Beyond the bounds of a shim: a shim that has not reported by then never will.
const SHIM_SLACK_MS: u64 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Queued,
    Preparing,
    Working {
        stage: Stage,
        /// Set once the stage was told to stop: when its end is no longer waited for.
        give_up_at: Option<u64>,
    },
    Health {
        until: u64,
    },
    Done,
}

#[derive(Debug, Clone)]
pub struct Machine {
    state: State,
    policy: Policy,
    deadline: Option<u64>,
    /// Why the task fails; the first reason stays.
    reason: Option<FailureReason>,
    shutdown: bool,
    phase: TaskPhase,
    created: u64,
    phase_since: u64,
    durations: Durations,
}

impl Machine {
    pub fn new(policy: Policy, now: u64) -> Self {
        Self {
            state: State::Queued,
            policy,
            deadline: None,
            reason: None,
            shutdown: false,
            phase: TaskPhase::Queued,
            created: now,
            phase_since: now,
            durations: Durations::default(),
        }
    }

    pub fn phase(&self) -> TaskPhase {
        self.phase
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The stage whose job runs, if one does.
    pub fn stage(&self) -> Option<Stage> {
        match self.state {
            State::Working { stage, .. } => Some(stage),
            State::Queued | State::Preparing | State::Health { .. } | State::Done => None,
        }
    }

    /// Whether the running stage was told to stop.
    pub fn is_stopping(&self) -> bool {
        matches!(self.state, State::Working { give_up_at: Some(_), .. })
    }

    pub fn waits_for_services(&self) -> bool {
        matches!(self.state, State::Health { .. })
    }

    /// When the next `Tick` is due, if ever.
    pub fn next_wake(&self) -> Option<u64> {
        match self.state {
            State::Working { give_up_at: Some(at), .. } => Some(at),
            State::Working { stage: Stage::Changes, .. } => None,
            State::Working { .. } => self.deadline,
            State::Health { until } => Some(until),
            State::Queued | State::Preparing | State::Done => None,
        }
    }

    pub fn step(&mut self, input: Input, now: u64) -> Vec<Effect> {
        match (input, self.state) {
            (Input::Begin, State::Queued) => {
                self.deadline = self.policy.timeout_ms.map(|ms| now.saturating_add(ms));
                self.state = State::Preparing;
                vec![self.enter(TaskPhase::Preparing, now), Effect::Prepare]
            }
            (Input::Prepared, State::Preparing) => {
                let entered = self.enter(TaskPhase::Checkpoint, now);
                vec![entered, self.start(Stage::Checkpoint)]
            }
            (Input::Checkpointed, State::Working { stage: Stage::Checkpoint, .. }) => self.on_checkpoint(now),
            (Input::AgentEnded(end), State::Working { stage: Stage::Agent, .. }) => {
                self.on_agent_end(end, now)
            }
            (Input::ChangesCounted { build }, State::Working { stage: Stage::Changes, .. }) => {
                self.on_changes_counted(build, now)
            }
            (Input::Built { passed }, State::Working { stage: Stage::Build, .. }) => {
                self.on_build(passed, now)
            }
            (Input::Services { ready: true }, State::Health { .. }) => self.finish(now),
            (Input::Cancel { grace_ms }, _) => self.stop(FailureReason::Cancelled, grace_ms, now),
            (Input::Shutdown { grace_ms }, _) => {
                self.shutdown = true;
                self.stop(FailureReason::Lost, grace_ms, now)
            }
            (Input::Tick, _) => self.tick(now),
            (
                Input::Begin
                | Input::Prepared
                | Input::Checkpointed
                | Input::AgentEnded(_)
                | Input::ChangesCounted { .. }
                | Input::Built { .. }
                | Input::Services { .. },
                _,
            ) => Vec::new(),
        }
    }

    fn on_checkpoint(&mut self, now: u64) -> Vec<Effect> {
        if self.reason.is_some() {
            return self.finish(now);
        }
        let entered = self.enter(TaskPhase::Agent, now);
        vec![entered, self.start(Stage::Agent)]
    }

    fn on_agent_end(&mut self, end: AgentEnd, now: u64) -> Vec<Effect> {
        let reason = match end {
            AgentEnd::Succeeded => None,
            AgentEnd::Failed => Some(FailureReason::AgentFailed),
            AgentEnd::Idle => Some(FailureReason::IdleTimedOut),
            AgentEnd::NotStarted => Some(FailureReason::SpawnFailed),
            AgentEnd::Lost => Some(FailureReason::Lost),
        };
        self.reason = self.reason.or(reason);
        if self.shutdown {
            return self.finish(now);
        }
        vec![self.start(Stage::Changes)]
    }

    fn on_changes_counted(&mut self, build: bool, now: u64) -> Vec<Effect> {
        if self.reason.is_some() {
            return self.settle(now);
        }
        if self.deadline.is_some_and(|at| now >= at) {
            self.reason = Some(FailureReason::TimedOut);
            return self.settle(now);
        }
        let entered = self.enter(TaskPhase::Build, now);
        if build {
            return vec![entered, self.start(Stage::Build)];
        }
        // Nothing to build counts as a build that ended at once: a successful task passes through every
        // phase.
        let settled = self.settle(now);
        std::iter::once(entered).chain(settled).collect()
    }

    fn on_build(&mut self, passed: bool, now: u64) -> Vec<Effect> {
        if !passed {
            self.reason = self.reason.or(Some(FailureReason::BuildFailed));
        }
        self.settle(now)
    }

    /// Ends the work: services are retried, and waited for unless the task was cut short.
    fn settle(&mut self, now: u64) -> Vec<Effect> {
        if self.shutdown {
            return self.finish(now);
        }
        let mut effects = vec![Effect::RetryServices];
        let skip_health = matches!(
            self.reason,
            Some(FailureReason::Cancelled | FailureReason::TimedOut | FailureReason::Lost)
        );
        if skip_health || self.policy.health_timeout_ms == 0 {
            effects.extend(self.finish(now));
            return effects;
        }
        effects.push(self.enter(TaskPhase::Health, now));
        let until = now.saturating_add(self.policy.health_timeout_ms);
        self.state = State::Health { until: self.deadline.map_or(until, |at| until.min(at)) };
        effects.push(Effect::CheckServices);
        effects
    }

    fn stop(&mut self, why: FailureReason, grace_ms: u64, now: u64) -> Vec<Effect> {
        match self.state {
            State::Done => Vec::new(),
            State::Queued | State::Preparing | State::Health { .. } => {
                self.reason = self.reason.or(Some(why));
                self.finish(now)
            }
            State::Working { stage, give_up_at } => {
                self.reason = self.reason.or(Some(why));
                let at = now.saturating_add(grace_ms).saturating_add(KILL_MAX_MS + SHIM_SLACK_MS);
                let at = give_up_at.map_or(at, |before| before.min(at));
                self.state = State::Working { stage, give_up_at: Some(at) };
                vec![Effect::Stop { grace_ms }]
            }
        }
    }

    fn tick(&mut self, now: u64) -> Vec<Effect> {
        if self.next_wake().is_none_or(|at| now < at) {
            return Vec::new();
        }
        match self.state {
            State::Working { give_up_at: None, .. } => {
                self.stop(FailureReason::TimedOut, GRACE_DEFAULT_MS, now)
            }
            // The shim was told to stop and does not report: the task ends all the same.
            State::Working { give_up_at: Some(_), .. } | State::Health { .. } => self.finish(now),
            State::Queued | State::Preparing | State::Done => Vec::new(),
        }
    }

    fn start(&mut self, stage: Stage) -> Effect {
        self.state = State::Working { stage, give_up_at: None };
        Effect::Start(stage)
    }

    fn enter(&mut self, phase: TaskPhase, now: u64) -> Effect {
        self.leave_phase(now);
        self.phase = phase;
        self.phase_since = now;
        Effect::Enter(phase)
    }

    fn leave_phase(&mut self, now: u64) {
        let spent_ms = now.saturating_sub(self.phase_since);
        let durations = &mut self.durations;
        match self.phase {
            TaskPhase::Queued => durations.queued_ms = spent_ms,
            TaskPhase::Preparing => durations.preparing_ms = spent_ms,
            TaskPhase::Checkpoint => durations.checkpoint_ms = spent_ms,
            TaskPhase::Agent => durations.agent_ms = spent_ms,
            TaskPhase::Build => durations.build_ms = spent_ms,
            TaskPhase::Health => durations.health_ms = spent_ms,
            TaskPhase::Done => {}
        }
    }

    fn finish(&mut self, now: u64) -> Vec<Effect> {
        if self.state == State::Done {
            return Vec::new();
        }
        self.leave_phase(now);
        self.phase = TaskPhase::Done;
        self.state = State::Done;
        let durations = Durations { total_ms: now.saturating_sub(self.created), ..self.durations };
        let status = match self.reason {
            None => TaskStatus::Succeeded,
            Some(FailureReason::Cancelled) => TaskStatus::Cancelled,
            Some(_) => TaskStatus::Failed,
        };
        vec![Effect::Finish(Outcome { status, reason: self.reason, durations })]
    }
}
