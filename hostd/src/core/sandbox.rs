//! The state of a sandbox, and which moves it allows.
//!
//! ```text
//!            Accept(goal)                     Settle
//!  settled ───────────────▶ effort towards ───────────▶ settled: Running, Paused, Stopped, Destroyed,
//!     ▲                        the goal                 or Error with a problem
//!     └── Lost: it died while nobody asked for that
//! ```
//!
//! `goal` is what was asked for last (the intent), `status` what was last seen to be true, `effort` what
//! is being done to get from one to the other, with a deadline. Without an effort nothing is done, so an
//! `Error` stays until somebody asks for something. A sandbox that *dozes* is paused because nothing happened,
//! not because somebody wants that: it may be stopped after a while, and a byte wakes it.

use protocol::api::{Phase, Problem, SandboxStatus};
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
pub struct Effort {
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
    pub effort: Option<Effort>,
    /// Only with the goal `Running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Renewal>,
    /// Only with the goal `Paused`: nobody asked for that, nothing happened in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dozing: bool,
    /// Why, when `status` is `Error`.
    pub problem: Option<Problem>,
}

/// A change of state. Nothing else changes one.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// Somebody wants this.
    Accept { goal: Goal, deadline_ms: u64 },
    /// Nothing happens in one that runs, and somebody may come back: it is frozen.
    Doze { deadline_ms: u64 },
    /// Somebody wants it made anew: stopped, its files emptied unless kept, and brought up.
    Renew { renewal: Renewal, deadline_ms: u64 },
    /// It was stopped and emptied; now it can be brought up.
    Renewed,
    /// The effort needs longer: it is tried again.
    Extend { deadline_ms: u64 },
    /// The goal is reached.
    Reached,
    /// The effort is given up. Not for destroy, which goes on until it is done.
    GiveUp { problem: Problem },
    /// It died while it should have run or been frozen.
    Lost { problem: Problem },
    /// The same, and it is to be brought up again.
    Restart { problem: Problem, deadline_ms: u64 },
    /// It ended in order while it should have run: somebody shut it down from inside.
    Ended,
}

/// Why a move is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("it was destroyed")]
    Destroyed,
    #[error("it is being destroyed")]
    Destroying,
    #[error("it does not run, so it cannot be paused")]
    NotRunning,
    #[error("nothing is being done that this could end")]
    NoEffort,
}

impl State {
    /// A sandbox that is being created.
    pub fn new(deadline_ms: u64) -> Self {
        Self {
            goal: Goal::Running,
            status: SandboxStatus::Creating,
            effort: Some(Effort { phase: Phase::Provisioning, deadline_ms }),
            renewal: None,
            dozing: false,
            problem: None,
        }
    }

    /// One that was found without a record: left as it is seen to be, once somebody looks.
    pub fn found() -> Self {
        Self { status: SandboxStatus::Running, ..settled(Goal::Running) }
    }

    /// Whether it is, and should be, up.
    pub fn is_up(&self) -> bool {
        self.status == SandboxStatus::Running && self.effort.is_none()
    }

    /// Whether nobody wants its processes to end.
    pub fn stays_up(&self) -> bool {
        matches!(self.goal, Goal::Running | Goal::Paused) && self.renewal.is_none()
    }

    /// Whether it is, and should be, frozen because nothing happens in it.
    pub fn dozes(&self) -> bool {
        self.dozing && self.effort.is_none()
    }
}

/// The state after a move, or why there is none.
pub fn apply(state: &State, change: Move) -> Result<State, Refused> {
    if state.status == SandboxStatus::Destroyed {
        return Err(Refused::Destroyed);
    }
    match change {
        Move::Accept { goal, deadline_ms } => accept(state, goal, deadline_ms),
        Move::Doze { deadline_ms } => {
            not_destroying(state)?;
            if !state.is_up() {
                return Err(Refused::NotRunning);
            }
            let effort = Some(Effort { phase: Phase::Pausing, deadline_ms });
            Ok(State { goal: Goal::Paused, effort, dozing: true, ..state.clone() })
        }
        Move::Renew { renewal, deadline_ms } => {
            not_destroying(state)?;
            let effort = Some(Effort { phase: Phase::Provisioning, deadline_ms });
            let renewal = Some(renewal);
            Ok(State { goal: Goal::Running, effort, renewal, dozing: false, ..state.clone() })
        }
        Move::Renewed => Ok(State { renewal: None, ..state.clone() }),
        Move::Extend { deadline_ms } => {
            let effort = state.effort.as_ref().ok_or(Refused::NoEffort)?;
            Ok(State { effort: Some(Effort { phase: effort.phase, deadline_ms }), ..state.clone() })
        }
        Move::Reached => {
            state.effort.as_ref().ok_or(Refused::NoEffort)?;
            Ok(State { dozing: state.dozing, ..settled(state.goal) })
        }
        Move::GiveUp { problem } => {
            state.effort.as_ref().ok_or(Refused::NoEffort)?;
            not_destroying(state)?;
            // What could not be frozen runs on.
            let still_runs = state.goal == Goal::Paused && state.status == SandboxStatus::Running;
            Ok(if still_runs { settled(Goal::Running) } else { failed(problem) })
        }
        Move::Lost { problem } => {
            not_destroying(state)?;
            Ok(failed(problem))
        }
        Move::Restart { problem, deadline_ms } => {
            not_destroying(state)?;
            let effort = Some(Effort { phase: Phase::Starting, deadline_ms });
            Ok(State { goal: Goal::Running, effort, ..failed(problem) })
        }
        Move::Ended => {
            not_destroying(state)?;
            Ok(settled(Goal::Stopped))
        }
    }
}

fn accept(state: &State, goal: Goal, deadline_ms: u64) -> Result<State, Refused> {
    if goal != Goal::Destroyed {
        not_destroying(state)?;
    }
    let up = matches!(state.status, SandboxStatus::Running | SandboxStatus::Paused);
    let may_pause = up && state.stays_up();
    if goal == Goal::Paused && !may_pause {
        return Err(Refused::NotRunning);
    }
    if state.goal == goal && (state.effort.is_some() || state.status == status_at(goal)) {
        return Ok(State { dozing: false, ..state.clone() });
    }
    let phase = match (goal, state.status) {
        (Goal::Running, SandboxStatus::Creating) => Phase::Provisioning,
        (Goal::Running, SandboxStatus::Paused) => Phase::Resuming,
        (
            Goal::Running,
            SandboxStatus::Running | SandboxStatus::Stopped | SandboxStatus::Error | SandboxStatus::Destroyed,
        ) => Phase::Starting,
        (Goal::Paused, _) => Phase::Pausing,
        (Goal::Stopped, _) => Phase::Stopping,
        (Goal::Destroyed, _) => Phase::Destroying,
    };
    let effort = Some(Effort { phase, deadline_ms });
    Ok(State { goal, effort, renewal: None, dozing: false, ..state.clone() })
}

fn not_destroying(state: &State) -> Result<(), Refused> {
    if state.goal == Goal::Destroyed { Err(Refused::Destroying) } else { Ok(()) }
}

/// After a failure nothing is wanted until somebody says so.
fn failed(problem: Problem) -> State {
    State { status: SandboxStatus::Error, problem: Some(problem), ..settled(Goal::Stopped) }
}

fn settled(goal: Goal) -> State {
    State { goal, status: status_at(goal), effort: None, renewal: None, dozing: false, problem: None }
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

    fn accepted(state: &State, goal: Goal) -> Result<State, Refused> {
        apply(state, Move::Accept { goal, deadline_ms: 9 })
    }

    #[test]
    fn what_cannot_be_frozen_runs_on() {
        let pausing = accepted(&settled(Goal::Running), Goal::Paused).expect("it runs");
        let problem = Problem { code: ProblemCode::DeadlinePassed, message: "late".into(), output: vec![] };
        let after = apply(&pausing, Move::GiveUp { problem: problem.clone() }).expect("it was tried");
        assert_eq!(after, settled(Goal::Running));
        // One that could not be stopped is in error.
        let stopping = accepted(&settled(Goal::Running), Goal::Stopped).expect("it runs");
        let after = apply(&stopping, Move::GiveUp { problem }).expect("it was tried");
        assert_eq!(after.status, SandboxStatus::Error);
    }

    #[test]
    fn only_what_stays_up_can_be_paused() {
        let running = settled(Goal::Running);
        let renewal = Renewal { keep_workspace: true };
        let going = [
            accepted(&running, Goal::Stopped).expect("legal"),
            apply(&running, Move::Renew { renewal, deadline_ms: 9 }).expect("legal"),
            State::new(9),
            settled(Goal::Stopped),
        ];
        for state in going {
            assert_eq!(accepted(&state, Goal::Paused), Err(Refused::NotRunning), "{state:?}");
        }
        assert!(accepted(&settled(Goal::Paused), Goal::Paused).is_ok());
    }

    #[test]
    fn only_one_that_runs_dozes_off_and_every_ask_ends_that() {
        let doze = |state: &State| apply(state, Move::Doze { deadline_ms: 9 });
        let running = settled(Goal::Running);
        let going = doze(&running).expect("it runs");
        assert_eq!(
            (going.goal, going.dozing, going.dozes(), going.is_up()),
            (Goal::Paused, true, false, false)
        );
        let dozing = apply(&going, Move::Reached).expect("it was on its way");
        assert_eq!((dozing.status, dozing.dozes()), (SandboxStatus::Paused, true));
        for state in [&going, &dozing] {
            for goal in [Goal::Running, Goal::Paused, Goal::Stopped, Goal::Destroyed] {
                let asked = accepted(state, goal).expect("legal");
                assert_eq!((asked.goal, asked.dozing), (goal, false), "{state:?}");
            }
            let renewal = Renewal { keep_workspace: true };
            let renewed = apply(state, Move::Renew { renewal, deadline_ms: 9 }).expect("legal");
            assert!(!renewed.dozing);
            assert_eq!(doze(state), Err(Refused::NotRunning));
        }
        // Asked for, it is a pause like any other.
        assert_eq!(accepted(&dozing, Goal::Paused), Ok(settled(Goal::Paused)));
        for goal in [Goal::Paused, Goal::Stopped] {
            assert_eq!(doze(&settled(goal)), Err(Refused::NotRunning));
        }
        assert_eq!(doze(&accepted(&running, Goal::Destroyed).expect("always")), Err(Refused::Destroying));
    }
}
