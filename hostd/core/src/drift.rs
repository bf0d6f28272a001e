//! Drift: a container that differs from how hostd left it, because someone else changed it.

use super::{Desired, DriverVerb, Observed, PlanStep, State};
use protocol::api::{DeathCause, SandboxStatus};
use serde::Serialize;

/// The event `sandbox.drift`: how hostd left the sandbox, what is there instead, and what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Drift {
    pub expected: DriftState,
    pub found: DriftState,
    pub doing: Repair,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftState {
    Running,
    Paused,
    Stopped,
    /// Ended neither by hostd nor in order: the post-mortem has what is known.
    Died,
    /// Shut down in order.
    Ended,
    Removed,
    /// Runs, in another run than before.
    Restarted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repair {
    Thaw,
    Freeze,
    Terminate,
    Restart,
    /// Counts as stopped: the next client that needs it wakes it.
    Stop,
    /// Goes to `error`.
    GiveUp,
    /// The new run is configured and kept.
    TakeOver,
}

/// The drift of a sandbox at rest, reported before the planned steps repair it. `None` where the steps belong to an
/// operation.
pub fn drift(desired: &Desired<'_>, observed: &Observed, steps: &[PlanStep]) -> Option<Drift> {
    if desired.state.operation.is_some() {
        return None;
    }
    let expected = expected(desired.state)?;
    let found = match observed {
        Observed::Unknown | Observed::OtherPidNamespace => return None,
        Observed::Running { frozen: true, .. } => DriftState::Paused,
        Observed::Running { frozen: false, .. } | Observed::Launching => DriftState::Running,
        Observed::Absent => DriftState::Removed,
        Observed::Dead(death) => match death.cause {
            DeathCause::ShutDown => DriftState::Ended,
            DeathCause::Removed => DriftState::Removed,
            DeathCause::Oom
            | DeathCause::Killed
            | DeathCause::Exited
            | DeathCause::Backend
            | DeathCause::Unknown => DriftState::Died,
        },
    };
    let doing = steps.iter().find_map(|step| match step {
        PlanStep::Drive(verb) => match verb {
            DriverVerb::Thaw => Some(Repair::Thaw),
            DriverVerb::Freeze => Some(Repair::Freeze),
            DriverVerb::Terminate => Some(Repair::Terminate),
            DriverVerb::CleanUp | DriverVerb::ResetWorkspace | DriverVerb::Destroy => None,
        },
        PlanStep::Restart(_) => Some(Repair::Restart),
        PlanStep::Ended(_) => Some(Repair::Stop),
        PlanStep::Lost(_) => Some(Repair::GiveUp),
        PlanStep::Launch
        | PlanStep::AwaitReady
        | PlanStep::Provision
        | PlanStep::InspectAgain
        | PlanStep::Renewed
        | PlanStep::Reached
        | PlanStep::GiveUp(_)
        | PlanStep::TryAgain
        | PlanStep::Extend => None,
    })?;
    Some(Drift { expected, found, doing })
}

/// The drift of a sandbox that someone else stopped and started between two inspections.
pub fn restarted(state: &State) -> Option<Drift> {
    let expected = expected(state)?;
    Some(Drift { expected, found: DriftState::Restarted, doing: Repair::TakeOver })
}

fn expected(state: &State) -> Option<DriftState> {
    match state.status {
        SandboxStatus::Running => Some(DriftState::Running),
        SandboxStatus::Paused => Some(DriftState::Paused),
        SandboxStatus::Stopped | SandboxStatus::Error => Some(DriftState::Stopped),
        SandboxStatus::Creating | SandboxStatus::Destroyed => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Death, Goal, State, Transition, apply, plan};
    use protocol::api::IdlePolicy::{self, AlwaysOn, Sleep};

    fn at(status: SandboxStatus) -> State {
        let up = apply(&State::new(9), Transition::Reached).expect("it comes up");
        let towards = |goal| {
            let going = apply(&up, Transition::Accept { goal, deadline_ms: 9 }).expect("legal");
            apply(&going, Transition::Reached).expect("legal")
        };
        match status {
            SandboxStatus::Paused => towards(Goal::Paused),
            SandboxStatus::Stopped => towards(Goal::Stopped),
            SandboxStatus::Error => apply(&up, Transition::Lost { death: Box::default() }).expect("legal"),
            SandboxStatus::Creating | SandboxStatus::Running | SandboxStatus::Destroyed => up,
        }
    }

    fn drift_of(state: &State, idle_policy: IdlePolicy, observed: &Observed) -> Option<Drift> {
        let desired = Desired { state, idle_policy, to_provision: false };
        drift(&desired, observed, &plan(&desired, observed, 0))
    }

    #[test]
    fn external_changes_are_reported_with_their_repair() {
        use DriftState::{Died, Ended, Paused, Removed, Running, Stopped};
        let up = |frozen| Observed::Running { frozen, ready: true };
        let dead = |cause| Observed::Dead(Death { cause, ..Death::default() });
        let table = [
            (SandboxStatus::Running, Sleep, up(false), None),
            (SandboxStatus::Running, Sleep, Observed::Unknown, None),
            (SandboxStatus::Running, Sleep, up(true), Some((Running, Paused, Repair::Thaw))),
            (SandboxStatus::Paused, Sleep, up(true), None),
            (SandboxStatus::Paused, Sleep, up(false), Some((Paused, Running, Repair::Freeze))),
            (SandboxStatus::Stopped, Sleep, Observed::Absent, None),
            (SandboxStatus::Stopped, Sleep, dead(DeathCause::Killed), None),
            (SandboxStatus::Stopped, Sleep, up(false), Some((Stopped, Running, Repair::Terminate))),
            (SandboxStatus::Stopped, AlwaysOn, up(true), Some((Stopped, Paused, Repair::Terminate))),
            (SandboxStatus::Error, Sleep, up(false), Some((Stopped, Running, Repair::Terminate))),
            (SandboxStatus::Running, Sleep, dead(DeathCause::Oom), Some((Running, Died, Repair::GiveUp))),
            (SandboxStatus::Running, AlwaysOn, dead(DeathCause::Oom), Some((Running, Died, Repair::Restart))),
            (SandboxStatus::Running, Sleep, dead(DeathCause::ShutDown), Some((Running, Ended, Repair::Stop))),
            (SandboxStatus::Paused, Sleep, dead(DeathCause::Backend), Some((Paused, Died, Repair::Stop))),
            (SandboxStatus::Running, Sleep, Observed::Absent, Some((Running, Removed, Repair::GiveUp))),
            (
                SandboxStatus::Running,
                AlwaysOn,
                dead(DeathCause::Removed),
                Some((Running, Removed, Repair::Restart)),
            ),
        ];
        for (status, policy, observed, expected) in table {
            let expected = expected.map(|(expected, found, doing)| Drift { expected, found, doing });
            assert_eq!(
                drift_of(&at(status), policy, &observed),
                expected,
                "{status:?} {policy:?} {observed:?}"
            );
        }
    }

    #[test]
    fn an_operation_is_no_drift() {
        let going =
            apply(&at(SandboxStatus::Running), Transition::Accept { goal: Goal::Paused, deadline_ms: 9 });
        let going = going.expect("legal");
        for frozen in [false, true] {
            assert_eq!(drift_of(&going, Sleep, &Observed::Running { frozen, ready: true }), None);
        }
    }
}
