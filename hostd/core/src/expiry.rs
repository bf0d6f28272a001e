//! The end of a sandbox's TTL: what is due then, and when the next one is.
//!
//! A TTL that pauses or stops is over once that is accepted: a later command of a client wins. It counts anew for each
//! run, so that no sandbox that was resumed, or could not be paused, goes on for ever.

use super::{Blueprint, Goal, State, limits, parse_duration_ms};
use protocol::api::{ApiError, OnTtl, SandboxStatus};

/// `ttl` as milliseconds.
pub fn ttl_ms(text: &str) -> Result<u64, ApiError> {
    let ms = parse_duration_ms(text).map_err(|why| ApiError::invalid("ttl", why))?;
    if ms <= limits::TTL_MAX_MS { Ok(ms) } else { Err(ApiError::invalid("ttl", "must be at most 365d")) }
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// There is no TTL, or it is not over.
    NotDue,
    /// The sandbox has to reach this goal.
    Reach(Goal),
    /// The sandbox is at rest already: only the TTL is over.
    Over,
    /// The operation under way has to end first.
    AfterOperation,
}

/// Returns what is due at the end of the TTL. Only a sandbox that is up can be paused or stopped.
pub fn expiry(on_ttl: OnTtl, state: &State, expires_ms: Option<u64>, now_ms: u64) -> Expiry {
    if expires_ms.is_none_or(|expires_ms| expires_ms > now_ms) || state.goal == Goal::Destroyed {
        return Expiry::NotDue;
    }
    let goal = match on_ttl {
        OnTtl::Destroy => return Expiry::Reach(Goal::Destroyed),
        OnTtl::Pause => Goal::Paused,
        OnTtl::Stop => Goal::Stopped,
    };
    let alive = state.stays_up();
    match state.status {
        SandboxStatus::Running if alive => Expiry::Reach(goal),
        // A byte would thaw a sandbox that is paused because it is idle.
        SandboxStatus::Paused
            if alive && (goal == Goal::Stopped || state.dozing || state.operation.is_some()) =>
        {
            Expiry::Reach(goal)
        }
        SandboxStatus::Creating
        | SandboxStatus::Running
        | SandboxStatus::Paused
        | SandboxStatus::Stopped
        | SandboxStatus::Error
        | SandboxStatus::Destroyed => match state.operation {
            Some(_) => Expiry::AfterOperation,
            None => Expiry::Over,
        },
    }
}

/// Returns the end of the TTL after a transition to this state.
pub fn expiry_after(
    blueprint: &Blueprint,
    state: &State,
    expires_ms: Option<u64>,
    now_ms: u64,
) -> Option<u64> {
    match blueprint.on_ttl {
        OnTtl::Pause | OnTtl::Stop if state.goal == Goal::Running && expires_ms.is_none() => {
            blueprint.ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms))
        }
        OnTtl::Destroy | OnTtl::Pause | OnTtl::Stop => expires_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Transition, apply};
    use protocol::api::{Problem, ProblemCode};

    const DEADLINE: u64 = 50;

    fn towards(from: &State, goal: Goal) -> State {
        apply(from, Transition::Accept { goal, deadline_ms: DEADLINE }).expect("a good transition")
    }

    fn problem() -> Problem {
        Problem { code: ProblemCode::LaunchFailed, message: "no".to_owned(), output: vec![], step: None }
    }

    #[test]
    fn what_is_due_depends_on_the_state() {
        let (running, paused, stopped) =
            (State::at(Goal::Running), State::at(Goal::Paused), State::at(Goal::Stopped));
        let creating = State::new(DEADLINE);
        let failed =
            apply(&creating, Transition::GiveUp { problem: problem(), found: None }).expect("given up");
        let dozing = apply(&running, Transition::Doze { deadline_ms: DEADLINE }).expect("up");
        let dozes = apply(&dozing, Transition::Reached).expect("frozen");
        let table = [
            (&running, Expiry::Reach(Goal::Paused), Expiry::Reach(Goal::Stopped)),
            (&paused, Expiry::Over, Expiry::Reach(Goal::Stopped)),
            (&stopped, Expiry::Over, Expiry::Over),
            (&failed, Expiry::Over, Expiry::Over),
            (&creating, Expiry::AfterOperation, Expiry::AfterOperation),
            (&dozing, Expiry::Reach(Goal::Paused), Expiry::Reach(Goal::Stopped)),
            (&dozes, Expiry::Reach(Goal::Paused), Expiry::Reach(Goal::Stopped)),
            (&towards(&stopped, Goal::Running), Expiry::AfterOperation, Expiry::AfterOperation),
            (&towards(&paused, Goal::Running), Expiry::Reach(Goal::Paused), Expiry::Reach(Goal::Stopped)),
            (&towards(&running, Goal::Stopped), Expiry::AfterOperation, Expiry::AfterOperation),
        ];
        for (state, pause, stop) in table {
            for (on_ttl, due) in
                [(OnTtl::Pause, pause), (OnTtl::Stop, stop), (OnTtl::Destroy, Expiry::Reach(Goal::Destroyed))]
            {
                assert_eq!(expiry(on_ttl, state, Some(10), 10), due, "{on_ttl:?} {state:?}");
                assert_eq!(expiry(on_ttl, state, Some(10), 9), Expiry::NotDue);
                assert_eq!(expiry(on_ttl, state, None, 10), Expiry::NotDue);
                let destroying = towards(state, Goal::Destroyed);
                assert_eq!(expiry(on_ttl, &destroying, Some(10), 10), Expiry::NotDue);
            }
        }
    }

    /// What is due is accepted, and then nothing more is due: an actor that does it comes to rest.
    #[test]
    fn what_is_due_can_be_done() {
        let settled = [Goal::Running, Goal::Paused, Goal::Stopped].map(State::at);
        let all = settled.iter().flat_map(|state| {
            let under_way = [Goal::Running, Goal::Paused, Goal::Stopped]
                .into_iter()
                .filter_map(|goal| apply(state, Transition::Accept { goal, deadline_ms: DEADLINE }).ok());
            under_way.chain([state.clone()])
        });
        for state in all {
            for on_ttl in [OnTtl::Pause, OnTtl::Stop] {
                if let Expiry::Reach(goal) = expiry(on_ttl, &state, Some(0), 1) {
                    let next = towards(&state, goal);
                    assert_eq!(next.goal, goal, "{on_ttl:?} {state:?}");
                    assert!(!next.dozing, "{on_ttl:?} {state:?}");
                }
            }
        }
    }

    #[test]
    fn a_ttl_that_keeps_the_sandbox_counts_anew_for_each_run() {
        let (running, paused) = (State::at(Goal::Running), State::at(Goal::Paused));
        let blueprint = |on_ttl, ttl_ms| Blueprint { on_ttl, ttl_ms, ..Blueprint::sample() };
        let table = [
            (OnTtl::Pause, Some(5), &running, None, Some(105)),
            (OnTtl::Stop, Some(5), &running, None, Some(105)),
            (OnTtl::Pause, Some(5), &running, Some(101), Some(101)),
            (OnTtl::Pause, None, &running, None, None),
            (OnTtl::Pause, Some(5), &paused, None, None),
            (OnTtl::Destroy, Some(5), &running, None, None),
        ];
        for (on_ttl, ttl_ms, state, expires_ms, expected) in table {
            let blueprint = blueprint(on_ttl, ttl_ms);
            assert_eq!(expiry_after(&blueprint, state, expires_ms, 100), expected, "{on_ttl:?} {state:?}");
        }
    }
}
