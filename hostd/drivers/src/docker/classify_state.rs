//! Classifies the state of a container, given the record of its runs, and decides the cause of a death. Pure
//! functions; no requests.

use super::{engine::InspectedState, limits::OOM_EVENT_AGE_MAX_MS, run_record::RunRecord};
use protocol::api::DeathCause;

/// A container status of either engine, reduced to what matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerPhase {
    /// Created and never started.
    Created,
    Running,
    Exited,
    /// Being removed.
    Removing,
}

pub fn container_phase(state: &InspectedState) -> ContainerPhase {
    match state.status.as_str() {
        "created" | "configured" | "initialized" => ContainerPhase::Created,
        "running" | "paused" | "restarting" | "stopping" => ContainerPhase::Running,
        "removing" => ContainerPhase::Removing,
        "exited" | "stopped" | "dead" => ContainerPhase::Exited,
        // A status of another engine version.
        _ if state.running || state.paused => ContainerPhase::Running,
        _ => ContainerPhase::Exited,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// Nothing runs, and there is no exit to handle.
    Absent,
    Alive,
    Dead,
    /// The container ran and is gone.
    Removed,
}

/// Classifies the state of the sandbox's own container; `None` when it has no container.
pub fn classify(run: &RunRecord, state: Option<&InspectedState>) -> RunState {
    let gone = if run.has_uncleared_start() { RunState::Removed } else { RunState::Absent };
    let Some(state) = state else { return gone };
    match container_phase(state) {
        // After a reboot of the host Podman reports a container that ran as new.
        ContainerPhase::Created if run.has_uncleared_start() => RunState::Dead,
        ContainerPhase::Created => RunState::Absent,
        ContainerPhase::Removing => gone,
        // The engine may not have noticed the exit yet.
        ContainerPhase::Running | ContainerPhase::Exited if run.has_cleared(&state.started_at) => {
            RunState::Absent
        }
        ContainerPhase::Running => RunState::Alive,
        ContainerPhase::Exited => RunState::Dead,
    }
}

/// Evidence about the death of a PID 1.
#[derive(Debug, Clone, Copy)]
pub struct DeathEvidence<'a> {
    pub last_run: LastRun<'a>,
    /// runtimed logged a shutdown.
    pub shut_down_cleanly: bool,
    /// PID 1 died while the engine was unreachable, or with the host.
    pub backend_away: bool,
    pub oom: OomEvidence,
}

/// The engine's view of the run that ended.
#[derive(Debug, Clone, Copy)]
pub enum LastRun<'a> {
    /// The container is gone.
    Removed,
    /// The container runs again already: the engine's exit code is about another run.
    Restarted,
    Exited(&'a InspectedState),
}

/// Evidence of an OOM kill.
#[derive(Debug, Clone, Copy)]
pub enum OomEvidence {
    /// Whether the kernel counted an OOM kill since PID 1 was last seen running.
    Counted { killed: bool },
    /// The counters were gone: only the engine's events and its `oom_killed` are left.
    Reported {
        /// PID 1 survived an earlier OOM kill, which hit a job.
        killed_before: bool,
        /// Age of the engine's last OOM event, if there was one.
        event_age_ms: Option<u64>,
    },
}

impl OomEvidence {
    /// Whether an OOM kill explains the exit. `oom_killed` stays set after a kill of any process of the
    /// container, and is sometimes missing.
    fn is_oom_kill(self, state: &InspectedState) -> bool {
        match self {
            Self::Counted { killed } => killed,
            Self::Reported { killed_before, event_age_ms } => {
                let recent = event_age_ms.is_some_and(|ms| ms <= OOM_EVENT_AGE_MAX_MS);
                state.oom_killed && (recent || !killed_before)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeathOutcome {
    pub cause: DeathCause,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
}

/// Whether PID 1 exited by SIGKILL, and not by the OOM killer.
pub fn was_killed(state: &InspectedState) -> bool {
    state.exit_code == 128 + i64::from(SIGKILL) && !state.oom_killed
}

/// Exit code of a container that the engine lost track of.
const EXIT_UNKNOWN: i64 = 255;
const SIGKILL: i32 = 9;

pub fn death_outcome(evidence: &DeathEvidence<'_>) -> DeathOutcome {
    let unknown_exit = |cause| DeathOutcome { cause, exit_code: None, signal: None };
    let state = match evidence.last_run {
        LastRun::Removed => return unknown_exit(DeathCause::Removed),
        LastRun::Restarted => return unknown_exit(DeathCause::Backend),
        LastRun::Exited(state) => state,
    };
    let code = state.exit_code;
    let signal = i32::try_from(code - 128).ok().filter(|signal| (1..=64).contains(signal));
    let exit_code = i32::try_from(code).ok().filter(|_| signal.is_none());
    let cause = if evidence.shut_down_cleanly {
        DeathCause::ShutDown
    } else if evidence.oom.is_oom_kill(state) && signal == Some(SIGKILL) {
        DeathCause::Oom
    } else if evidence.backend_away || code == EXIT_UNKNOWN {
        DeathCause::Backend
    } else if signal.is_some() {
        DeathCause::Killed
    } else {
        DeathCause::Exited
    };
    DeathOutcome { cause, exit_code, signal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: &str, started_at: &str) -> InspectedState {
        InspectedState { status: status.into(), started_at: started_at.into(), ..InspectedState::default() }
    }

    fn run(seen: Option<&str>, cleared: Option<&str>) -> RunRecord {
        let text = |text: Option<&str>| text.map(str::to_owned);
        RunRecord { observed_start: text(seen), cleared_start: text(cleared), ..RunRecord::default() }
    }

    #[test]
    fn a_state_is_classified_by_the_run_record() {
        use RunState::{Absent, Alive, Dead, Removed};
        let (never, open, dealt_with) = (run(None, None), run(Some("1"), None), run(Some("1"), Some("1")));
        for (run, given, expected) in [
            // hostd died after it wrote the nonce and before it created the container, or before it started
            // it.
            (&never, None, Absent),
            (&never, Some(("created", "")), Absent),
            (&never, Some(("configured", "")), Absent),
            // hostd died after the start and before it wrote the pid file.
            (&never, Some(("running", "1")), Alive),
            (&never, Some(("exited", "1")), Dead),
            (&open, Some(("running", "1")), Alive),
            (&open, Some(("paused", "1")), Alive),
            (&open, Some(("exited", "1")), Dead),
            (&open, Some(("stopped", "1")), Dead),
            (&open, Some(("dead", "1")), Dead),
            (&open, None, Removed),
            (&open, Some(("removing", "1")), Removed),
            (&open, Some(("created", "")), Dead),
            (&dealt_with, Some(("created", "")), Absent),
            (&dealt_with, None, Absent),
            (&dealt_with, Some(("removing", "1")), Absent),
            (&dealt_with, Some(("exited", "1")), Absent),
            // The engine has not noticed yet that hostd ended it.
            (&dealt_with, Some(("running", "1")), Absent),
            // Started again from outside.
            (&dealt_with, Some(("running", "2")), Alive),
            (&dealt_with, Some(("exited", "2")), Dead),
            (&dealt_with, Some(("a word of tomorrow", "2")), Dead),
        ] {
            let given = given.map(|(status, started_at)| state(status, started_at));
            assert_eq!(classify(run, given.as_ref()), expected, "{run:?} {given:?}");
        }
    }

    #[test]
    fn a_death_has_the_cause_that_the_evidence_shows() {
        use DeathCause::{Backend, Exited, Killed, Oom, Removed, ShutDown};
        let ended = |exit_code, oom_killed| InspectedState { exit_code, oom_killed, ..state("exited", "1") };
        let no_event = OomEvidence::Reported { killed_before: false, event_age_ms: None };
        let followed = DeathEvidence {
            last_run: LastRun::Removed,
            shut_down_cleanly: false,
            backend_away: false,
            oom: no_event,
        };
        let away = DeathEvidence { backend_away: true, ..followed };
        let shut_down_cleanly = DeathEvidence { shut_down_cleanly: true, ..followed };
        let counted = |killed| DeathEvidence { oom: OomEvidence::Counted { killed }, ..followed };
        let event = |killed_before, ms| DeathEvidence {
            oom: OomEvidence::Reported { killed_before, event_age_ms: Some(ms) },
            ..followed
        };
        for (evidence, state, cause, exit_code, signal) in [
            (followed, None, Removed, None, None),
            (shut_down_cleanly, Some(ended(0, false)), ShutDown, Some(0), None),
            (
                DeathEvidence { shut_down_cleanly: true, ..away },
                Some(ended(143, false)),
                ShutDown,
                None,
                Some(15),
            ),
            (followed, Some(ended(137, false)), Killed, None, Some(9)),
            (followed, Some(ended(1, false)), Exited, Some(1), None),
            (followed, Some(ended(0, false)), Exited, Some(0), None),
            (event(false, 5), Some(ended(137, true)), Oom, None, Some(9)),
            (followed, Some(ended(137, true)), Oom, None, Some(9)),
            // An earlier OOM kill of a job, then a SIGKILL of PID 1 from outside.
            (event(true, 60_000), Some(ended(137, true)), Killed, None, Some(9)),
            (event(true, 5), Some(ended(137, true)), Oom, None, Some(9)),
            (counted(false), Some(ended(137, true)), Killed, None, Some(9)),
            // Podman often misses OOM kills.
            (counted(true), Some(ended(137, false)), Oom, None, Some(9)),
            (counted(true), Some(ended(1, false)), Exited, Some(1), None),
            (event(false, 5), Some(ended(1, true)), Exited, Some(1), None),
            (away, Some(ended(137, false)), Backend, None, Some(9)),
            (followed, Some(ended(255, false)), Backend, Some(255), None),
        ] {
            let last_run = state.as_ref().map_or(LastRun::Removed, LastRun::Exited);
            let evidence = DeathEvidence { last_run, ..evidence };
            let found = death_outcome(&evidence);
            assert_eq!(found, DeathOutcome { cause, exit_code, signal }, "{evidence:?}");
        }
        let restarted = death_outcome(&DeathEvidence { last_run: LastRun::Restarted, ..followed });
        assert_eq!(restarted, DeathOutcome { cause: Backend, exit_code: None, signal: None });
    }
}
