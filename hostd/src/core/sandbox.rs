//! The state of a sandbox, and which moves it allows.
//!
//! ```text
//!            Accept(goal)                     Settle
//!  settled ───────────────▶ effort towards ───────────▶ settled: Running, Paused, Stopped, Destroyed,
//!     ▲                        the goal                 or Error with a problem
//!     └── Lost, Ended, Restart: it died while nobody asked for that
//! ```
//!
//! `goal` is what was asked for last (the intent), `status` what was last seen to be true, `operation` what
//! is being done to get from one to the other, with a deadline. Without an effort nothing is done, so an
//! `Error` stays until somebody asks for something; unless the goal is still to run, because only the backend
//! was away. One that hostd stopped by itself because the disk is full (*evicted*) is `Stopped` with that problem.
//! A sandbox that *dozes* is paused because nothing happened,
//! not because somebody wants that: it may be stopped after a while, and a byte wakes it.

use super::Death;
use protocol::api::{Phase, Problem, ProblemCode, SandboxStatus};
use serde::{Deserialize, Serialize};

/// What the owner wants.
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

/// What must happen before it is brought up: it is made anew.
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
    /// Only with the goal `Paused`: nobody asked for that, nothing happened in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dozing: bool,
    /// Why, when `status` is `Error`; otherwise why what was asked for last was not done.
    pub problem: Option<Problem>,
}

/// A change of state. Nothing else changes one.
#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    /// Somebody wants this.
    Accept { goal: Goal, deadline_ms: u64 },
    /// Nothing happens in one that runs, and somebody may come back: it is frozen.
    Doze { deadline_ms: u64 },
    /// The disk is full and this one fills it: it is stopped, and `problem` says so until something is asked.
    Evict { problem: Problem, deadline_ms: u64 },
    /// Somebody wants it made anew: stopped, its files emptied unless kept, and brought up.
    Renew { renewal: Renewal, deadline_ms: u64 },
    /// It was stopped, and emptied if that was wanted; now it can be brought up.
    Renewed,
    /// The effort needs longer: it is tried again.
    Extend { deadline_ms: u64 },
    /// The goal is reached.
    Reached,
    /// The effort is given up. Not for destroy, which goes on until it is done. `found` is what the last look
    /// showed, if it showed anything.
    GiveUp { problem: Problem, found: Option<Goal> },
    /// It died while it should have run or been frozen.
    Lost { death: Box<Death> },
    /// The same, and it is to be brought up again.
    Restart { death: Box<Death>, deadline_ms: u64 },
    /// The same, and nothing was wrong with it: somebody shut it, or what runs it, down.
    Ended { death: Box<Death> },
}

impl Transition {
    /// How it ended, if it did while it should have run.
    pub fn death(&self) -> Option<&Death> {
        match self {
            Self::Lost { death } | Self::Restart { death, .. } | Self::Ended { death } => Some(death),
            Self::Accept { .. }
            | Self::Doze { .. }
            | Self::Evict { .. }
            | Self::Renew { .. }
            | Self::Renewed
            | Self::Extend { .. }
            | Self::Reached
            | Self::GiveUp { .. } => None,
        }
    }
}

/// Why a move is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransitionRefused {
    #[error("it was destroyed")]
    Destroyed,
    #[error("it is being destroyed")]
    Destroying,
    #[error("it does not run, so it cannot be paused")]
    NotRunning,
    #[error("nothing is being done that this could end")]
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

    /// One that is as it should be.
    pub fn at(goal: Goal) -> Self {
        settled(goal)
    }

    /// Whether it is, and should be, up.
    pub fn is_up(&self) -> bool {
        self.status == SandboxStatus::Running && self.operation.is_none()
    }

    /// Whether nobody wants its processes to end.
    pub fn stays_up(&self) -> bool {
        matches!(self.goal, Goal::Running | Goal::Paused) && self.renewal.is_none()
    }

    /// Whether it is up or on its way there.
    pub fn is_wanted_up(&self) -> bool {
        let up = matches!(self.status, SandboxStatus::Running | SandboxStatus::Paused);
        matches!(self.goal, Goal::Running | Goal::Paused) && (up || self.operation.is_some())
    }

    /// Why hostd stopped it, or is about to, though nobody asked for that.
    pub fn evicted(&self) -> Option<&Problem> {
        let not_failed = self.status != SandboxStatus::Error;
        let problem = self.problem.as_ref().filter(|_| self.goal == Goal::Stopped && not_failed);
        problem.filter(|problem| problem.code == ProblemCode::DiskFull)
    }

    /// Whether it is, and should be, frozen because nothing happens in it.
    pub fn dozes(&self) -> bool {
        self.dozing && self.operation.is_none()
    }
}

/// The state after a move, or why there is none.
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
        // It was never to end.
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

/// Where it stands when nothing comes of what was being done.
fn given_up(state: &State, phase: Phase, problem: Problem, found: Option<Goal>) -> State {
    // What could not be frozen runs on.
    if state.goal == Goal::Paused && state.status == SandboxStatus::Running {
        return settled(Goal::Running);
    }
    if problem.code != ProblemCode::DriverUnavailable {
        return failed(problem);
    }
    // Nothing is wrong with it. What was made once and is to run is still wanted when its backend is back.
    let after = match before(state, phase, found) {
        Some(goal) => State { problem: Some(problem), ..settled(goal) },
        None => failed(problem),
    };
    let still_wanted = state.goal == Goal::Running && state.status != SandboxStatus::Creating;
    if still_wanted { State { goal: Goal::Running, ..after } } else { after }
}

/// What was reached last, if that is where it still is.
fn before(state: &State, phase: Phase, found: Option<Goal>) -> Option<Goal> {
    let last = match state.status {
        SandboxStatus::Stopped => return Some(Goal::Stopped),
        SandboxStatus::Running => Goal::Running,
        SandboxStatus::Paused => Goal::Paused,
        SandboxStatus::Creating | SandboxStatus::Error | SandboxStatus::Destroyed => return None,
    };
    // Where nobody can see it, only what was never to end counts as alive.
    let untouched = matches!(phase, Phase::Resuming | Phase::Pausing);
    found.or_else(|| untouched.then_some(last))
}

/// After a failure nothing is wanted until somebody says so.
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
mod tests {
    use super::*;
    use protocol::api::ProblemCode;

    fn accepted(state: &State, goal: Goal) -> Result<State, TransitionRefused> {
        apply(state, Transition::Accept { goal, deadline_ms: 9 })
    }

    #[test]
    fn what_cannot_be_frozen_runs_on() {
        let pausing = accepted(&settled(Goal::Running), Goal::Paused).expect("it runs");
        let problem = Problem { code: ProblemCode::DeadlinePassed, message: "late".into(), output: vec![] };
        let after = apply(&pausing, Transition::GiveUp { problem: problem.clone(), found: None })
            .expect("it was tried");
        assert_eq!(after, settled(Goal::Running));
        // One that could not be stopped is in error.
        let stopping = accepted(&settled(Goal::Running), Goal::Stopped).expect("it runs");
        let after = apply(&stopping, Transition::GiveUp { problem, found: None }).expect("it was tried");
        assert_eq!(after.status, SandboxStatus::Error);
    }

    #[test]
    fn when_the_backend_is_away_it_stands_where_it_is_known_to_stand() {
        use Goal::{Paused, Running, Stopped};
        use SandboxStatus as Is;
        let renewal = Renewal { keep_workspace: true };
        let renewing =
            apply(&settled(Running), Transition::Renew { renewal, deadline_ms: 9 }).expect("legal");
        let renewed = apply(&renewing, Transition::Renewed).expect("legal");
        assert_eq!(renewed.status, Is::Stopped);
        let towards = |from, goal| accepted(&settled(from), goal).expect("legal");
        let and_back = |from| accepted(&towards(from, Stopped), Running).expect("legal");
        let table = [
            // Nobody sees it: only what was not to end is as it was.
            (towards(Stopped, Running), None, (Running, Is::Stopped)),
            (towards(Paused, Running), None, (Running, Is::Paused)),
            (towards(Running, Stopped), None, (Stopped, Is::Error)),
            (towards(Paused, Stopped), None, (Stopped, Is::Error)),
            (and_back(Running), None, (Running, Is::Error)),
            (and_back(Paused), None, (Running, Is::Error)),
            (renewing.clone(), None, (Running, Is::Error)),
            (renewed.clone(), None, (Running, Is::Stopped)),
            (State::new(9), None, (Stopped, Is::Error)),
            // What is seen counts.
            (towards(Running, Stopped), Some(Running), (Running, Is::Running)),
            (towards(Running, Stopped), Some(Stopped), (Stopped, Is::Stopped)),
            (towards(Paused, Running), Some(Paused), (Running, Is::Paused)),
            (towards(Paused, Running), Some(Stopped), (Running, Is::Stopped)),
            (and_back(Running), Some(Stopped), (Running, Is::Stopped)),
            (and_back(Paused), Some(Paused), (Running, Is::Paused)),
            (renewing, Some(Running), (Running, Is::Running)),
            (State::new(9), Some(Stopped), (Stopped, Is::Error)),
        ];
        let code = ProblemCode::DriverUnavailable;
        let problem = Problem { code, message: "gone fishing".into(), output: vec![] };
        for (state, found, expected) in table {
            let after =
                apply(&state, Transition::GiveUp { problem: problem.clone(), found }).expect("it was tried");
            assert_eq!((after.goal, after.status), expected, "{state:?} {found:?}");
            assert_eq!((after.operation, after.renewal), (None, None), "{state:?}");
            assert_eq!(after.problem, Some(problem.clone()));
        }
    }

    #[test]
    fn one_that_is_evicted_says_why_until_something_is_asked_of_it() {
        let problem = Problem { code: ProblemCode::DiskFull, message: "full".into(), output: vec![] };
        let evict =
            |state: &State| apply(state, Transition::Evict { problem: problem.clone(), deadline_ms: 9 });
        for up in [settled(Goal::Running), settled(Goal::Paused)] {
            let going = evict(&up).expect("it is up");
            assert_eq!((going.goal, going.evicted()), (Goal::Stopped, Some(&problem)));
            // Whoever stops it now gets what it gets.
            assert_eq!(accepted(&going, Goal::Stopped), Ok(going.clone()));
            let stopped = apply(&going, Transition::Reached).expect("it was on its way");
            assert_eq!((stopped.status, stopped.evicted()), (SandboxStatus::Stopped, Some(&problem)));
            assert_eq!(accepted(&stopped, Goal::Stopped), Ok(settled(Goal::Stopped)));
            let woken = accepted(&stopped, Goal::Running).expect("legal");
            assert_eq!(woken.evicted(), None);
            assert_eq!(apply(&woken, Transition::Reached), Ok(settled(Goal::Running)));
        }
        // A stop of one that is in error for another reason, or for the same, ends that error.
        let stopping = accepted(&failed(problem.clone()), Goal::Stopped);
        let stopped = stopping.and_then(|state| apply(&state, Transition::Reached));
        assert_eq!(stopped, Ok(settled(Goal::Stopped)));
        for other in [settled(Goal::Stopped), failed(problem.clone()), State::new(9)] {
            assert_eq!(evict(&other), Err(TransitionRefused::NotRunning), "{other:?}");
        }
        let going = accepted(&settled(Goal::Running), Goal::Destroyed).expect("always");
        assert_eq!(evict(&going), Err(TransitionRefused::Destroying));
    }

    #[test]
    fn only_what_stays_up_can_be_paused() {
        let running = settled(Goal::Running);
        let renewal = Renewal { keep_workspace: true };
        let going = [
            accepted(&running, Goal::Stopped).expect("legal"),
            apply(&running, Transition::Renew { renewal, deadline_ms: 9 }).expect("legal"),
            State::new(9),
            settled(Goal::Stopped),
        ];
        for state in going {
            assert_eq!(accepted(&state, Goal::Paused), Err(TransitionRefused::NotRunning), "{state:?}");
        }
        assert!(accepted(&settled(Goal::Paused), Goal::Paused).is_ok());
    }

    #[test]
    fn only_one_that_runs_dozes_off_and_every_ask_ends_that() {
        let doze = |state: &State| apply(state, Transition::Doze { deadline_ms: 9 });
        let running = settled(Goal::Running);
        let going = doze(&running).expect("it runs");
        assert_eq!(
            (going.goal, going.dozing, going.dozes(), going.is_up()),
            (Goal::Paused, true, false, false)
        );
        let dozing = apply(&going, Transition::Reached).expect("it was on its way");
        assert_eq!((dozing.status, dozing.dozes()), (SandboxStatus::Paused, true));
        for state in [&going, &dozing] {
            for goal in [Goal::Running, Goal::Paused, Goal::Stopped, Goal::Destroyed] {
                let asked = accepted(state, goal).expect("legal");
                assert_eq!((asked.goal, asked.dozing), (goal, false), "{state:?}");
            }
            let renewal = Renewal { keep_workspace: true };
            let renewed = apply(state, Transition::Renew { renewal, deadline_ms: 9 }).expect("legal");
            assert!(!renewed.dozing);
            assert_eq!(doze(state), Err(TransitionRefused::NotRunning));
        }
        // Asked for, it is a pause like any other.
        assert_eq!(accepted(&dozing, Goal::Paused), Ok(settled(Goal::Paused)));
        for goal in [Goal::Paused, Goal::Stopped] {
            assert_eq!(doze(&settled(goal)), Err(TransitionRefused::NotRunning));
        }
        assert_eq!(
            doze(&accepted(&running, Goal::Destroyed).expect("always")),
            Err(TransitionRefused::Destroying)
        );
    }
}
