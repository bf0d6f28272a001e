//! What is found other than it was left, by whom but us.

use super::{Container, Desired, State, Step};
use protocol::api::{DeathCause, SandboxStatus};
use serde::Serialize;

/// As it is told: what was left, what is there instead, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub expected: Found,
    pub found: Found,
    pub doing: Mending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    Running,
    Paused,
    Stopped,
    /// Not by us, nor by itself: see the post-mortem for what is known.
    Died,
    /// Shut down in order.
    Ended,
    Removed,
    /// It runs, and is not the one that ran before.
    Restarted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mending {
    Thaw,
    Freeze,
    Terminate,
    Restart,
    /// It counts as stopped: the next who needs it wakes it.
    Stop,
    /// It goes to `error`.
    GiveUp,
    /// It is told what it must know, and kept.
    TakeOver,
}

/// What is told of a sandbox at rest before the planned steps are performed. Nothing where they are part of
/// what was being done.
pub fn drift(desired: &Desired<'_>, container: &Container, steps: &[Step]) -> Option<Drift> {
    if desired.state.effort.is_some() {
        return None;
    }
    let expected = expected(desired.state)?;
    let found = match container {
        Container::Unknown | Container::OtherPidNamespace => return None,
        Container::Running { frozen: true, .. } => Found::Paused,
        Container::Running { frozen: false, .. } | Container::Launching => Found::Running,
        Container::Absent => Found::Removed,
        Container::Dead(death) => match death.cause {
            DeathCause::ShutDown => Found::Ended,
            DeathCause::Removed => Found::Removed,
            DeathCause::Oom
            | DeathCause::Killed
            | DeathCause::Exited
            | DeathCause::Backend
            | DeathCause::Unknown => Found::Died,
        },
    };
    let doing = steps.iter().find_map(|step| match step {
        Step::Thaw => Some(Mending::Thaw),
        Step::Freeze => Some(Mending::Freeze),
        Step::Terminate => Some(Mending::Terminate),
        Step::Restart(_) => Some(Mending::Restart),
        Step::Ended(_) => Some(Mending::Stop),
        Step::Lost(_) => Some(Mending::GiveUp),
        Step::Launch
        | Step::AwaitReady
        | Step::LookAgain
        | Step::Clear
        | Step::Empty
        | Step::Erase
        | Step::Renewed
        | Step::Reached
        | Step::GiveUp(_)
        | Step::TryAgain
        | Step::Extend => None,
    })?;
    Some(Drift { expected, found, doing })
}

/// What is told of one that runs, and that somebody else stopped and started unseen.
pub fn restarted(state: &State) -> Option<Drift> {
    let expected = expected(state)?;
    Some(Drift { expected, found: Found::Restarted, doing: Mending::TakeOver })
}

fn expected(state: &State) -> Option<Found> {
    match state.status {
        SandboxStatus::Running => Some(Found::Running),
        SandboxStatus::Paused => Some(Found::Paused),
        SandboxStatus::Stopped | SandboxStatus::Error => Some(Found::Stopped),
        SandboxStatus::Creating | SandboxStatus::Destroyed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Death, Goal, Move, State, apply, plan};
    use protocol::api::IdlePolicy::{self, AlwaysOn, Sleep};

    fn at(status: SandboxStatus) -> State {
        let up = apply(&State::new(9), Move::Reached).expect("it comes up");
        let towards = |goal| {
            let going = apply(&up, Move::Accept { goal, deadline_ms: 9 }).expect("legal");
            apply(&going, Move::Reached).expect("legal")
        };
        match status {
            SandboxStatus::Paused => towards(Goal::Paused),
            SandboxStatus::Stopped => towards(Goal::Stopped),
            SandboxStatus::Error => apply(&up, Move::Lost { death: Box::default() }).expect("legal"),
            _ => up,
        }
    }

    fn told(state: &State, idle_policy: IdlePolicy, container: &Container) -> Option<Drift> {
        let desired = Desired { state, idle_policy };
        drift(&desired, container, &plan(&desired, container, 0))
    }

    #[test]
    fn what_somebody_else_did_is_told_with_what_is_done_about_it() {
        use Found::{Died, Ended, Paused, Removed, Running, Stopped};
        let up = |frozen| Container::Running { frozen, ready: true };
        let dead = |cause| Container::Dead(Death { cause, ..Death::default() });
        let table = [
            (SandboxStatus::Running, Sleep, up(false), None),
            (SandboxStatus::Running, Sleep, Container::Unknown, None),
            (SandboxStatus::Running, Sleep, up(true), Some((Running, Paused, Mending::Thaw))),
            (SandboxStatus::Paused, Sleep, up(true), None),
            (SandboxStatus::Paused, Sleep, up(false), Some((Paused, Running, Mending::Freeze))),
            (SandboxStatus::Stopped, Sleep, Container::Absent, None),
            (SandboxStatus::Stopped, Sleep, dead(DeathCause::Killed), None),
            (SandboxStatus::Stopped, Sleep, up(false), Some((Stopped, Running, Mending::Terminate))),
            (SandboxStatus::Stopped, AlwaysOn, up(true), Some((Stopped, Paused, Mending::Terminate))),
            (SandboxStatus::Error, Sleep, up(false), Some((Stopped, Running, Mending::Terminate))),
            (SandboxStatus::Running, Sleep, dead(DeathCause::Oom), Some((Running, Died, Mending::GiveUp))),
            (
                SandboxStatus::Running,
                AlwaysOn,
                dead(DeathCause::Oom),
                Some((Running, Died, Mending::Restart)),
            ),
            (
                SandboxStatus::Running,
                Sleep,
                dead(DeathCause::ShutDown),
                Some((Running, Ended, Mending::Stop)),
            ),
            (SandboxStatus::Paused, Sleep, dead(DeathCause::Backend), Some((Paused, Died, Mending::Stop))),
            (SandboxStatus::Running, Sleep, Container::Absent, Some((Running, Removed, Mending::GiveUp))),
            (
                SandboxStatus::Running,
                AlwaysOn,
                dead(DeathCause::Removed),
                Some((Running, Removed, Mending::Restart)),
            ),
        ];
        for (status, policy, container, expected) in table {
            let expected = expected.map(|(expected, found, doing)| Drift { expected, found, doing });
            assert_eq!(
                told(&at(status), policy, &container),
                expected,
                "{status:?} {policy:?} {container:?}"
            );
        }
    }

    #[test]
    fn what_is_under_way_is_ours() {
        let going = apply(&at(SandboxStatus::Running), Move::Accept { goal: Goal::Paused, deadline_ms: 9 });
        let going = going.expect("legal");
        for frozen in [false, true] {
            assert_eq!(told(&going, Sleep, &Container::Running { frozen, ready: true }), None);
        }
    }
}
