//! What a container's state means for its sandbox, given what is known of its runs. Nothing is asked here.

use super::{engine::ContainerState, limits::OOM_TOLD_MAX_MS, run::Run};
use protocol::api::DeathCause;

/// A state in our words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Made, and never started.
    New,
    Up,
    Over,
    /// On its way out.
    Leaving,
}

pub fn phase(state: &ContainerState) -> Phase {
    match state.status.as_str() {
        "created" | "configured" | "initialized" => Phase::New,
        "running" | "paused" | "restarting" | "stopping" => Phase::Up,
        "removing" => Phase::Leaving,
        "exited" | "stopped" | "dead" => Phase::Over,
        // A word of another version.
        _ if state.running || state.paused => Phase::Up,
        _ => Phase::Over,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing runs, and nothing is to be dealt with.
    Absent,
    Alive,
    Dead,
    /// It ran, and is not there any more.
    Removed,
}

/// `state` is that of the sandbox's own container, if there is one.
pub fn meaning(run: &Run, state: Option<&ContainerState>) -> Meaning {
    let gone = if run.is_open() { Meaning::Removed } else { Meaning::Absent };
    let Some(state) = state else { return gone };
    match phase(state) {
        // After a reboot of the host Podman knows no more of it.
        Phase::New if run.is_open() => Meaning::Dead,
        Phase::New => Meaning::Absent,
        Phase::Leaving => gone,
        // The engine may not have noticed yet that it ended.
        Phase::Up | Phase::Over if run.has_cleared(&state.started_at) => Meaning::Absent,
        Phase::Up => Meaning::Alive,
        Phase::Over => Meaning::Dead,
    }
}

/// What there is to judge a death by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Absent when the container is gone.
    pub state: Option<&'a ContainerState>,
    /// runtimed said that it shuts down.
    pub in_order: bool,
    /// It died while the engine that owns it was away, or with the host.
    pub backend_away: bool,
    /// The container runs again already: what the engine says is about another run.
    pub restarted: bool,
    /// Whether the kernel killed for memory since it was last seen to run, if it could be asked.
    pub oom_counted: Option<bool>,
    /// It was seen to run after a kill for memory, of a job.
    pub oom_before: bool,
    /// How long ago the engine told that memory was short, if it did.
    pub oom_told_ms_ago: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    pub cause: DeathCause,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
}

/// By SIGKILL, and not for memory.
pub fn was_killed(state: &ContainerState) -> bool {
    state.exit_code == 128 + i64::from(SIGKILL) && !state.oom_killed
}

/// What the engine says when it lost track of a container.
const EXIT_UNKNOWN: i64 = 255;
const SIGKILL: i32 = 9;

pub fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let Some(state) = evidence.state else {
        return Verdict { cause: DeathCause::Removed, exit_code: None, signal: None };
    };
    if evidence.restarted {
        return Verdict { cause: DeathCause::Backend, exit_code: None, signal: None };
    }
    let code = state.exit_code;
    let signal = i32::try_from(code - 128).ok().filter(|signal| (1..=64).contains(signal));
    let exit_code = i32::try_from(code).ok().filter(|_| signal.is_none());
    // The engine remembers any kill for memory, also of other processes, long before; and forgets some.
    let told = evidence.oom_told_ms_ago.is_some_and(|ms| ms <= OOM_TOLD_MAX_MS);
    let oom = evidence.oom_counted.unwrap_or(state.oom_killed && (told || !evidence.oom_before));
    let cause = if evidence.in_order {
        DeathCause::ShutDown
    } else if oom && signal == Some(SIGKILL) {
        DeathCause::Oom
    } else if evidence.backend_away || code == EXIT_UNKNOWN {
        DeathCause::Backend
    } else if signal.is_some() {
        DeathCause::Killed
    } else {
        DeathCause::Exited
    };
    Verdict { cause, exit_code, signal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: &str, started_at: &str) -> ContainerState {
        ContainerState { status: status.into(), started_at: started_at.into(), ..ContainerState::default() }
    }

    fn run(seen: Option<&str>, cleared: Option<&str>) -> Run {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Run { seen: text(seen), cleared: text(cleared), ..Run::default() }
    }

    #[test]
    fn a_state_means_something_only_beside_what_was_seen() {
        use Meaning::{Absent, Alive, Dead, Removed};
        let (never, open, dealt_with) = (run(None, None), run(Some("1"), None), run(Some("1"), Some("1")));
        for (run, there, expected) in [
            // hostd died between the nonce and the container, or between the container and its start.
            (&never, None, Absent),
            (&never, Some(("created", "")), Absent),
            (&never, Some(("configured", "")), Absent),
            // Or between the start and the pid file.
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
            // The engine is slow to notice that we ended it.
            (&dealt_with, Some(("running", "1")), Absent),
            // Somebody started it again.
            (&dealt_with, Some(("running", "2")), Alive),
            (&dealt_with, Some(("exited", "2")), Dead),
            (&dealt_with, Some(("a word of tomorrow", "2")), Dead),
        ] {
            let there = there.map(|(status, started_at)| state(status, started_at));
            assert_eq!(meaning(run, there.as_ref()), expected, "{run:?} {there:?}");
        }
    }

    #[test]
    fn a_death_has_the_cause_that_the_evidence_shows() {
        use DeathCause::{Backend, Exited, Killed, Oom, Removed, ShutDown};
        let ended = |exit_code, oom_killed| ContainerState { exit_code, oom_killed, ..state("exited", "1") };
        let followed = Evidence::default();
        let away = Evidence { backend_away: true, ..followed };
        let in_order = Evidence { in_order: true, ..followed };
        let counted = |oom| Evidence { oom_counted: Some(oom), ..followed };
        let short = |ms| Evidence { oom_told_ms_ago: Some(ms), ..followed };
        for (evidence, state, cause, exit_code, signal) in [
            (followed, None, Removed, None, None),
            (in_order, Some(ended(0, false)), ShutDown, Some(0), None),
            (Evidence { in_order: true, ..away }, Some(ended(143, false)), ShutDown, None, Some(15)),
            (followed, Some(ended(137, false)), Killed, None, Some(9)),
            (followed, Some(ended(1, false)), Exited, Some(1), None),
            (followed, Some(ended(0, false)), Exited, Some(0), None),
            (short(5), Some(ended(137, true)), Oom, None, Some(9)),
            (followed, Some(ended(137, true)), Oom, None, Some(9)),
            // An old kill of a job, and then somebody killed PID 1.
            (Evidence { oom_before: true, ..short(60_000) }, Some(ended(137, true)), Killed, None, Some(9)),
            (Evidence { oom_before: true, ..short(5) }, Some(ended(137, true)), Oom, None, Some(9)),
            (counted(false), Some(ended(137, true)), Killed, None, Some(9)),
            // Podman often does not know.
            (counted(true), Some(ended(137, false)), Oom, None, Some(9)),
            (counted(true), Some(ended(1, false)), Exited, Some(1), None),
            (Evidence { restarted: true, ..followed }, Some(ended(0, false)), Backend, None, None),
            (short(5), Some(ended(1, true)), Exited, Some(1), None),
            (away, Some(ended(137, false)), Backend, None, Some(9)),
            (followed, Some(ended(255, false)), Backend, Some(255), None),
        ] {
            let evidence = Evidence { state: state.as_ref(), ..evidence };
            let found = verdict(&evidence);
            assert_eq!(found, Verdict { cause, exit_code, signal }, "{evidence:?}");
        }
    }
}
