//! The state of a sandbox, and which transitions it allows.
//!
//! ```text
//!           Accept, Doze, Evict, Renew
//!  settled ────────────────────────────▶ operation ───┐ Accept, Evict, Renew: towards another goal
//!     ▲                                  │       ▲    │ Renewed, Extend: towards the same goal
//!     └──── Reached, GiveUp, TakeBack ───┘       └────┘
//!
//!  PID 1 died, from either:  Lost ──▶ settled in Error   Ended ──▶ settled in Stopped   Restart ──▶ operation
//! ```
//!
//! `goal` is what was asked for last (the intent), `status` what was last seen to be true, `operation` the work that
//! leads from one to the other, with a deadline. A sandbox without an operation is *settled*: nothing is done to it,
//! so an `Error` stays until a client asks for something; unless the goal is still `Running`, because only the
//! backend was away. A sandbox that hostd stopped by itself because disk or memory ran out (*evicted*) is
//! `Stopped` with that problem. A *dozing* sandbox is paused because it was idle, not because a client paused it: it may be stopped
//! after a while, and a byte wakes it. `Destroyed` is the end: no transition leaves it.

use super::Death;
use protocol::api::{Phase, Problem, ProblemCode, SandboxStatus};
use serde::{Deserialize, Serialize};

/// The state that a sandbox is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    Running,
    Paused,
    Stopped,
    Destroyed,
}

/// Work that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    pub phase: Phase,
    pub deadline_ms: u64,
}

/// A sandbox to be recreated: stopped, and its workspace emptied unless it is kept, before it is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    pub keep_workspace: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub goal: Goal,
    pub status: SandboxStatus,
    #[serde(rename = "effort")]
    pub operation: Option<Operation>,
    /// Only with the goal `Running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Renewal>,
    /// Only with the goal `Paused`: hostd paused the sandbox because it was idle.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dozing: bool,
    /// The cause of an `Error`; in another status, why the newest command was not carried out.
    pub problem: Option<Problem>,
}

/// A change of state. Nothing else changes one.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// A client wants this goal.
    Accept { goal: Goal, deadline_ms: u64 },
    /// A running sandbox is idle while browsers are connected: it is frozen.
    Doze { deadline_ms: u64 },
    /// The disk is full and this sandbox fills it, or memory is short and it is idle: it is stopped, and has `problem`
    /// until the next command.
    Evict { problem: Problem, deadline_ms: u64 },
    /// A client came while a doze or an eviction was recorded, and nothing was done to the sandbox yet: its state is
    /// as it was before.
    TakeBack { before: Box<State> },
    /// A client wants it recreated.
    Renew { renewal: Renewal, deadline_ms: u64 },
    /// The sandbox is stopped, and emptied if that was wanted: it can be launched.
    Renewed,
    /// The operation gets a new deadline.
    Extend { deadline_ms: u64 },
    /// The goal is reached.
    Reached,
    /// The operation is given up; never a destroy, which goes on until it is done. `found` is the goal that the
    /// newest inspection showed to be reached, if it showed any.
    GiveUp { problem: Problem, found: Option<Goal> },
    /// PID 1 died while it should have run or been frozen.
    Lost { death: Box<Death> },
    /// PID 1 died so, and the sandbox is to be launched again.
    Restart { death: Box<Death>, deadline_ms: u64 },
    /// PID 1 ended so, and nothing was wrong with it: the sandbox, or its backend, was shut down in order.
    Ended { death: Box<Death> },
}

impl Transition {
    /// The death that the transition records.
    pub fn death(&self) -> Option<&Death> {
        match self {
            Self::Lost { death } | Self::Restart { death, .. } | Self::Ended { death } => Some(death),
            Self::Accept { .. }
            | Self::Doze { .. }
            | Self::Evict { .. }
            | Self::TakeBack { .. }
            | Self::Renew { .. }
            | Self::Renewed
            | Self::Extend { .. }
            | Self::Reached
            | Self::GiveUp { .. } => None,
        }
    }
}

/// Why a transition is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefused {
    #[error("the sandbox was destroyed")]
    Destroyed,
    #[error("the sandbox is being destroyed")]
    Destroying,
    #[error("the sandbox does not run, so it cannot be paused; start it first")]
    NotRunning,
    #[error("no operation is under way that this could end")]
    NoOperation,
}

impl State {
    /// A sandbox that is being created.
    pub fn new(deadline_ms: u64) -> Self {
        Self {
            goal: Goal::Running,
            status: SandboxStatus::Creating,
            operation: Some(Operation { phase: Phase::Provisioning, deadline_ms }),
            renewal: None,
            dozing: false,
            problem: None,
        }
    }

    /// A sandbox that has reached this goal.
    pub fn at(goal: Goal) -> Self {
        settled(goal)
    }

    /// Whether the sandbox is, and should be, up.
    pub fn is_up(&self) -> bool {
        self.status == SandboxStatus::Running && self.operation.is_none()
    }

    /// Whether its processes are to stay alive.
    pub fn stays_up(&self) -> bool {
        matches!(self.goal, Goal::Running | Goal::Paused) && self.renewal.is_none()
    }

    /// Whether the sandbox is up or on its way there.
    pub fn is_wanted_up(&self) -> bool {
        let up = matches!(self.status, SandboxStatus::Running | SandboxStatus::Paused);
        matches!(self.goal, Goal::Running | Goal::Paused) && (up || self.operation.is_some())
    }

    /// Why hostd stopped the sandbox, or is about to, without a command.
    pub fn evicted(&self) -> Option<&Problem> {
        let not_failed = self.status != SandboxStatus::Error;
        let problem = self.problem.as_ref().filter(|_| self.goal == Goal::Stopped && not_failed);
        problem.filter(|problem| matches!(problem.code, ProblemCode::DiskFull | ProblemCode::MemoryPressure))
    }

    /// Whether the sandbox is, and should be, frozen because it is idle.
    pub fn dozes(&self) -> bool {
        self.dozing && self.operation.is_none()
    }

    /// Whether the sandbox is down, or on its way there, for another reason than that hostd put it to sleep because it
    /// was idle or memory was short: by a command, at the end of its TTL, or by a failure.
    pub fn is_put_down(&self) -> bool {
        match self.goal {
            Goal::Paused => !self.dozing,
            Goal::Stopped => self.evicted().is_none(),
            Goal::Running | Goal::Destroyed => false,
        }
    }
}

/// Returns the state after a transition, or why there is none.
pub fn apply(state: &State, change: Transition) -> Result<State, TransitionRefused> {
    if state.status == SandboxStatus::Destroyed {
        return Err(TransitionRefused::Destroyed);
    }
    match change {
        Transition::Accept { goal, deadline_ms } => accept(state, goal, deadline_ms),
        Transition::Doze { deadline_ms } => {
            not_destroying(state)?;
            if !state.is_up() {
                return Err(TransitionRefused::NotRunning);
            }
            let operation = Some(Operation { phase: Phase::Pausing, deadline_ms });
            Ok(State { goal: Goal::Paused, operation, dozing: true, ..state.clone() })
        }
        Transition::Evict { problem, deadline_ms } => {
            not_destroying(state)?;
            let up = matches!(state.status, SandboxStatus::Running | SandboxStatus::Paused);
            if !up || !state.stays_up() {
                return Err(TransitionRefused::NotRunning);
            }
            let operation = Some(Operation { phase: Phase::Stopping, deadline_ms });
            Ok(State {
                goal: Goal::Stopped,
                operation,
                dozing: false,
                problem: Some(problem),
                ..state.clone()
            })
        }
        Transition::TakeBack { before } => take_back(state, *before),
        Transition::Renew { renewal, deadline_ms } => {
            not_destroying(state)?;
            let operation = Some(Operation { phase: Phase::Provisioning, deadline_ms });
            let renewal = Some(renewal);
            Ok(State { goal: Goal::Running, operation, renewal, dozing: false, ..state.clone() })
        }
        Transition::Renewed => {
            let status = SandboxStatus::Stopped;
            Ok(State { renewal: None, status, problem: None, ..state.clone() })
        }
        Transition::Extend { deadline_ms } => {
            let operation = state.operation.as_ref().ok_or(TransitionRefused::NoOperation)?;
            Ok(State { operation: Some(Operation { phase: operation.phase, deadline_ms }), ..state.clone() })
        }
        Transition::Reached => {
            state.operation.as_ref().ok_or(TransitionRefused::NoOperation)?;
            let problem = state.evicted().cloned();
            Ok(State { dozing: state.dozing, problem, ..settled(state.goal) })
        }
        Transition::GiveUp { problem, found } => {
            let operation = state.operation.as_ref().ok_or(TransitionRefused::NoOperation)?;
            not_destroying(state)?;
            Ok(given_up(state, operation.phase, problem, found))
        }
        Transition::Lost { death } => {
            not_destroying(state)?;
            Ok(failed(death.problem()))
        }
        Transition::Restart { death, deadline_ms } => {
            not_destroying(state)?;
            let operation = Some(Operation { phase: Phase::Starting, deadline_ms });
            Ok(State { goal: Goal::Running, operation, ..failed(death.problem()) })
        }
        Transition::Ended { .. } => {
            not_destroying(state)?;
            Ok(settled(Goal::Stopped))
        }
    }
}

/// Undoes a doze or an eviction that is only recorded.
fn take_back(state: &State, before: State) -> Result<State, TransitionRefused> {
    not_destroying(state)?;
    let put_to_sleep = state.operation.is_some() && (state.dozing || state.evicted().is_some());
    if !put_to_sleep || state.status != before.status {
        return Err(TransitionRefused::NoOperation);
    }
    Ok(before)
}

fn accept(state: &State, goal: Goal, deadline_ms: u64) -> Result<State, TransitionRefused> {
    if goal != Goal::Destroyed {
        not_destroying(state)?;
    }
    let up = matches!(state.status, SandboxStatus::Running | SandboxStatus::Paused);
    let may_pause = up && state.stays_up();
    if goal == Goal::Paused && !may_pause {
        return Err(TransitionRefused::NotRunning);
    }
    if state.goal == goal && state.operation.is_some() {
        return Ok(State { dozing: false, ..state.clone() });
    }
    if state.goal == goal && state.status == status_at(goal) {
        return Ok(settled(goal));
    }
    let phase = match (goal, state.status) {
        (Goal::Running, SandboxStatus::Creating) => Phase::Provisioning,
        // Its processes were never to end.
        (Goal::Running, SandboxStatus::Running | SandboxStatus::Paused) if state.stays_up() => {
            Phase::Resuming
        }
        (
            Goal::Running,
            SandboxStatus::Running
            | SandboxStatus::Paused
            | SandboxStatus::Stopped
            | SandboxStatus::Error
            | SandboxStatus::Destroyed,
        ) => Phase::Starting,
        (Goal::Paused, _) => Phase::Pausing,
        (Goal::Stopped, _) => Phase::Stopping,
        (Goal::Destroyed, _) => Phase::Destroying,
    };
    let operation = Some(Operation { phase, deadline_ms });
    Ok(State { goal, operation, renewal: None, dozing: false, ..state.clone() })
}

fn not_destroying(state: &State) -> Result<(), TransitionRefused> {
    if state.goal == Goal::Destroyed { Err(TransitionRefused::Destroying) } else { Ok(()) }
}

/// The state after an operation that was given up.
fn given_up(state: &State, phase: Phase, problem: Problem, found: Option<Goal>) -> State {
    // A sandbox that could not be frozen runs on.
    if state.goal == Goal::Paused && state.status == SandboxStatus::Running {
        return settled(Goal::Running);
    }
    if problem.code != ProblemCode::DriverUnavailable {
        return failed(problem);
    }
    // Nothing is wrong with the sandbox. If it ran once and is to run, that is still wanted when the backend is back.
    let after = match before(state, phase, found) {
        Some(goal) => State { problem: Some(problem), ..settled(goal) },
        None => failed(problem),
    };
    let still_wanted = state.goal == Goal::Running && state.status != SandboxStatus::Creating;
    if still_wanted { State { goal: Goal::Running, ..after } } else { after }
}

/// The goal that was reached last, if the sandbox is still there.
fn before(state: &State, phase: Phase, found: Option<Goal>) -> Option<Goal> {
    let last = match state.status {
        SandboxStatus::Stopped => return Some(Goal::Stopped),
        SandboxStatus::Running => Goal::Running,
        SandboxStatus::Paused => Goal::Paused,
        SandboxStatus::Creating | SandboxStatus::Error | SandboxStatus::Destroyed => return None,
    };
    // Without an inspection, only a sandbox whose processes were never to end counts as alive.
    let untouched = matches!(phase, Phase::Resuming | Phase::Pausing);
    found.or_else(|| untouched.then_some(last))
}

/// A sandbox in error: nothing is done until a client asks.
fn failed(problem: Problem) -> State {
    State { status: SandboxStatus::Error, problem: Some(problem), ..settled(Goal::Stopped) }
}

fn settled(goal: Goal) -> State {
    State { goal, status: status_at(goal), operation: None, renewal: None, dozing: false, problem: None }
}

fn status_at(goal: Goal) -> SandboxStatus {
    match goal {
        Goal::Running => SandboxStatus::Running,
        Goal::Paused => SandboxStatus::Paused,
        Goal::Stopped => SandboxStatus::Stopped,
        Goal::Destroyed => SandboxStatus::Destroyed,
    }
}

#[cfg(test)]
mod tests;
