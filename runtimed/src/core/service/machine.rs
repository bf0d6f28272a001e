//! The state machine of one service. Values in, effects out: no clock, no process and no check is touched
//! here.
//!
//! ```text
//!                      not ready
//!   Stopped ──Start──┬───────────► Waiting / FailedDependency
//!                    │ ready              │ dependencies ready
//!                    ▼                    │
//!              ╔═ Spawn ═╗ ◄──────────────┘
//!              ║         ║ ◄────────────────────────── Tick, RetryNow, Start, Restart ──┐
//!              ╚════╤════╝                                (or Waiting, as above)        │
//!                   ▼               ok            check failed                          │
//!               Starting ──────────────► Ready ◄──────────────► Unhealthy               │
//!                   │   without a check:   │         ok             │                   │
//!                   │   at once            │                        │                   │
//!                   └───────────┬──────────┴────────────────────────┘                   │
//!                             Ended ── to be restarted ─► Backoff (1 s, doubling to 30 s)
//!                               └───── otherwise ──► Stopped
//!
//!   Stop     without a job: Stopped at once.   With one: Stopping{Stay} ──Ended──► Stopped
//!   Restart  without a job: as Start.          With one: Stopping{Start} ──Ended──► as Start
//!   Start, Restart and Stop while Stopping only change what follows the end.
//! ```
//!
//! A running service keeps running when a dependency fails: failures do not cascade.

use super::{AfterStop, Dependencies, Effect, Input, Phase, Policy};
use crate::core::service_graph::Readiness;
use crate::limits::{
    BACKOFF_MAX_MS, BACKOFF_MIN_MS, HEALTH_INTERVAL_MIN_MS, PROBE_EAGER_FOR_MS, PROBE_STARTING_MS,
    STEADY_RUN_MS,
};
use protocol::{Exit, RestartPolicy};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    pub phase: Phase,
    /// Consecutive runs that ended before they were steady.
    pub failures: u32,
    /// Whether the service should run, as last requested. A service that ended and is not restarted stays
    /// wanted: it was never stopped.
    pub wanted: bool,
    pub dependencies: Dependencies,
    /// When the job was spawned; the length of a run counts from here.
    started: u64,
    /// Whether the service stopped because its last run succeeded and is not restarted.
    done: bool,
}

impl Machine {
    /// A stopped service whose dependencies are ready until an input says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    pub fn step(&mut self, input: Input, now: u64, policy: &Policy) -> Vec<Effect> {
        match input {
            Input::Start => self.start(now, policy),
            Input::Stop => self.stop(),
            Input::Restart => self.restart(now, policy),
            Input::RetryNow => self.retry_now(now, policy),
            Input::TaskEnded if self.wanted && policy.restart_after_task => self.restart(now, policy),
            Input::TaskEnded => self.retry_now(now, policy),
            Input::Dependencies(dependencies) => self.on_dependencies(dependencies, now, policy),
            Input::Ended(exit) => self.on_ended(&exit, now, policy),
            Input::Probe(result) => self.on_probe(result, now, policy),
            Input::Tick => self.tick(now, policy),
        }
    }

    /// When the next `Tick` is due, if ever.
    pub fn next_wake(&self) -> Option<u64> {
        match &self.phase {
            Phase::Backoff { until, .. } => Some(*until),
            Phase::Starting { next_probe, .. }
            | Phase::Ready { next_probe, .. }
            | Phase::Unhealthy { next_probe, .. } => *next_probe,
            Phase::Stopped
            | Phase::Waiting { .. }
            | Phase::FailedDependency { .. }
            | Phase::Stopping { .. } => None,
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    /// Whether a job was spawned whose end has not been reported.
    pub fn has_process(&self) -> bool {
        match self.job() {
            Job::None => false,
            Job::Runs | Job::Ends(_) => true,
        }
    }

    /// The readiness of this service for its dependents. A service that completed counts as ready: a finished
    /// migration must not delay a server that restarts later.
    pub fn readiness(&self) -> Readiness {
        match &self.phase {
            Phase::Ready { .. } => Readiness::Ready,
            Phase::Stopped if self.done => Readiness::Ready,
            Phase::Starting { .. }
            | Phase::Unhealthy { .. }
            | Phase::Waiting { .. }
            | Phase::Backoff { .. }
            | Phase::Stopping { then: AfterStop::Start } => Readiness::Pending,
            Phase::Stopped | Phase::FailedDependency { .. } | Phase::Stopping { then: AfterStop::Stay } => {
                Readiness::Failed
            }
        }
    }

    fn job(&self) -> Job {
        match &self.phase {
            Phase::Stopped
            | Phase::Waiting { .. }
            | Phase::FailedDependency { .. }
            | Phase::Backoff { .. } => Job::None,
            Phase::Starting { .. } | Phase::Ready { .. } | Phase::Unhealthy { .. } => Job::Runs,
            Phase::Stopping { then } => Job::Ends(*then),
        }
    }

    fn start(&mut self, now: u64, policy: &Policy) -> Vec<Effect> {
        self.wanted = true;
        match self.job() {
            Job::None => {
                self.failures = 0;
                self.spawn_or_wait(now, policy)
            }
            Job::Runs => vec![],
            Job::Ends(_) => self.enter(Phase::Stopping { then: AfterStop::Start }),
        }
    }

    fn stop(&mut self) -> Vec<Effect> {
        self.wanted = false;
        self.done = false;
        self.failures = 0;
        match self.job() {
            Job::None => self.enter(Phase::Stopped),
            Job::Runs => self.end_job(AfterStop::Stay),
            Job::Ends(_) => self.enter(Phase::Stopping { then: AfterStop::Stay }),
        }
    }

    fn restart(&mut self, now: u64, policy: &Policy) -> Vec<Effect> {
        match self.job() {
            Job::Runs => {
                self.failures = 0;
                self.end_job(AfterStop::Start)
            }
            Job::None | Job::Ends(_) => self.start(now, policy),
        }
    }

    /// Keeps the failure count: the change may have nothing to do with the failure.
    fn retry_now(&mut self, now: u64, policy: &Policy) -> Vec<Effect> {
        if matches!(self.phase, Phase::Backoff { .. }) { self.spawn_or_wait(now, policy) } else { vec![] }
    }

    fn on_dependencies(&mut self, dependencies: Dependencies, now: u64, policy: &Policy) -> Vec<Effect> {
        self.dependencies = dependencies;
        let waits = matches!(self.phase, Phase::Waiting { .. } | Phase::FailedDependency { .. });
        if waits { self.spawn_or_wait(now, policy) } else { vec![] }
    }

    fn on_ended(&mut self, exit: &Exit, now: u64, policy: &Policy) -> Vec<Effect> {
        match self.job() {
            Job::Runs => self.on_exit(exit, now, policy),
            Job::Ends(AfterStop::Stay) => self.enter(Phase::Stopped),
            Job::Ends(AfterStop::Start) => self.spawn_or_wait(now, policy),
            Job::None => vec![],
        }
    }

    fn on_exit(&mut self, exit: &Exit, now: u64, policy: &Policy) -> Vec<Effect> {
        let well = *exit == Exit::Exited { code: 0 };
        let again = match policy.restart {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => !well,
            RestartPolicy::Never => false,
        };
        if now.saturating_sub(self.started) >= STEADY_RUN_MS {
            self.failures = 0;
        }
        if !again {
            self.done = well;
            return self.enter(Phase::Stopped);
        }
        self.failures = self.failures.saturating_add(1);
        let until = now.saturating_add(pause_ms(self.failures));
        self.enter(Phase::Backoff { until, failures: self.failures })
    }

    fn on_probe(&mut self, result: Result<(), String>, now: u64, policy: &Policy) -> Vec<Effect> {
        let next_probe = steady_probe(now, policy);
        let next = match (&self.phase, result) {
            (Phase::Starting { .. } | Phase::Unhealthy { .. }, Ok(())) => {
                Phase::Ready { since: now, next_probe }
            }
            (Phase::Starting { since, .. }, Err(_)) => {
                let pause_ms = starting_pause_ms(now.saturating_sub(*since), policy);
                Phase::Starting { since: *since, next_probe: Some(now.saturating_add(pause_ms)) }
            }
            (Phase::Ready { since, .. }, Ok(())) => Phase::Ready { since: *since, next_probe },
            // Without a next check the service could never become ready again, so a single failure is
            // ignored.
            (Phase::Ready { .. }, Err(_)) if next_probe.is_none() => return vec![],
            (Phase::Ready { .. }, Err(reason)) => Phase::Unhealthy { since: now, reason, next_probe },
            (Phase::Unhealthy { since, .. }, Err(reason)) => {
                Phase::Unhealthy { since: *since, reason, next_probe }
            }
            // Stale: the job that was checked has ended or is stopping.
            (
                Phase::Stopped
                | Phase::Waiting { .. }
                | Phase::FailedDependency { .. }
                | Phase::Backoff { .. }
                | Phase::Stopping { .. },
                _,
            ) => return vec![],
        };
        self.enter(next)
    }

    fn tick(&mut self, now: u64, policy: &Policy) -> Vec<Effect> {
        if self.next_wake().is_none_or(|wake| now < wake) {
            return vec![];
        }
        match &mut self.phase {
            Phase::Backoff { .. } => self.spawn_or_wait(now, policy),
            Phase::Starting { next_probe, .. }
            | Phase::Ready { next_probe, .. }
            | Phase::Unhealthy { next_probe, .. } => {
                *next_probe = None;
                vec![Effect::Probe]
            }
            Phase::Stopped
            | Phase::Waiting { .. }
            | Phase::FailedDependency { .. }
            | Phase::Stopping { .. } => vec![],
        }
    }

    /// Spawns the job, or waits for its dependencies. Called only where no job exists.
    fn spawn_or_wait(&mut self, now: u64, policy: &Policy) -> Vec<Effect> {
        match &self.dependencies {
            Dependencies::Waiting(on) => {
                let on = on.clone();
                return self.enter(Phase::Waiting { on });
            }
            Dependencies::Failed(on) => {
                let on = on.clone();
                return self.enter(Phase::FailedDependency { on });
            }
            Dependencies::Ready => {}
        }
        self.started = now;
        if policy.checked {
            self.phase = Phase::Starting { since: now, next_probe: None };
            vec![Effect::Spawn, Effect::Probe]
        } else {
            self.phase = Phase::Ready { since: now, next_probe: None };
            vec![Effect::Spawn]
        }
    }

    fn end_job(&mut self, then: AfterStop) -> Vec<Effect> {
        self.phase = Phase::Stopping { then };
        vec![Effect::Stop]
    }

    fn enter(&mut self, phase: Phase) -> Vec<Effect> {
        self.phase = phase;
        vec![]
    }
}

/// Whether there is a job, for decisions that need nothing else of the phase.
enum Job {
    None,
    Runs,
    Ends(AfterStop),
}

/// Interval between checks of a service that is not ready: short at first, then as when ready.
fn starting_pause_ms(started_ms_ago: u64, policy: &Policy) -> u64 {
    let patient = started_ms_ago >= PROBE_EAGER_FOR_MS;
    let steady_ms = policy.probe_interval_ms.filter(|_| patient).unwrap_or(0);
    steady_ms.max(PROBE_STARTING_MS)
}

/// When to check again once ready. The minimum guards against a policy without an interval.
fn steady_probe(now: u64, policy: &Policy) -> Option<u64> {
    let interval_ms = policy.probe_interval_ms.filter(|_| policy.checked)?;
    Some(now.saturating_add(interval_ms.max(HEALTH_INTERVAL_MIN_MS)))
}

/// Backoff after consecutive failures: doubles from the shortest to the longest.
fn pause_ms(failures: u32) -> u64 {
    let doublings = failures.saturating_sub(1);
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    BACKOFF_MIN_MS.saturating_mul(factor).clamp(BACKOFF_MIN_MS, BACKOFF_MAX_MS)
}
