//! The words of the service machine: what it is told, what it asks for and where it stands. No decision
//! is made here.

use protocol::{Exit, RestartPolicy, ServiceName, ServiceState};

/// Where a service stands. Times are monotonic milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing runs: never started, stopped by request, or ended and not to be repeated.
    #[default]
    Stopped,
    Waiting {
        on: Vec<ServiceName>,
    },
    FailedDependency {
        on: ServiceName,
    },
    /// The job runs and has not passed its check yet.
    Starting {
        since: u64,
        /// When to check next; `None` while a check is under way.
        next_probe: Option<u64>,
    },
    Ready {
        since: u64,
        next_probe: Option<u64>,
    },
    /// The job runs, was ready, and its check fails now.
    Unhealthy {
        since: u64,
        reason: String,
        next_probe: Option<u64>,
    },
    Backoff {
        until: u64,
        failures: u32,
    },
    /// The job was told to end; its end has not been seen.
    Stopping {
        then: AfterStop,
    },
}

/// What follows the end of a job that was told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterStop {
    Stay,
    Start,
}

/// How a service is to be treated. It stays the same for the length of a run: when it changes, the owner
/// sends a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub restart: RestartPolicy,
    pub restart_after_task: bool,
    /// Between checks once ready; `None` where readiness is seen once, as with a line in the log.
    pub probe_interval_ms: Option<u64>,
    /// Without a check, running is ready.
    pub checked: bool,
}

/// How the services that this one depends on stand, all together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Dependencies {
    #[default]
    Ready,
    Waiting(Vec<ServiceName>),
    Failed(ServiceName),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Start,
    Stop,
    Restart,
    /// Something changed that may help: tries at once when in backoff, never starts what was stopped.
    RetryNow,
    /// Restarts a service that asked for it and is wanted; a nudge for every other.
    TaskEnded,
    Dependencies(Dependencies),
    /// The whole tree of the job is gone, or it could not be spawned.
    Ended(Exit),
    /// What one check found. The owner drops a check that outlives the job it was started for.
    Probe(Result<(), String>),
    /// Time passed; sent at `next_wake`, harmless at any other time.
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Starts the job; an `Ended` follows sooner or later.
    Spawn,
    /// SIGTERM to the tree, SIGKILL after the grace; an `Ended` follows.
    Stop,
    /// Starts one check; a `Probe` follows.
    Probe,
}

/// The phase as callers see it. Monotonic times become wall-clock times by their distance from now.
pub fn view_state(phase: &Phase, now_mono: u64, now_wall_ms: u64) -> ServiceState {
    let ago = |since: u64| now_wall_ms.saturating_sub(now_mono.saturating_sub(since));
    match phase {
        Phase::Stopped => ServiceState::Stopped,
        Phase::Waiting { on } => ServiceState::Waiting { on: on.clone() },
        Phase::FailedDependency { on } => ServiceState::FailedDependency { on: on.clone() },
        Phase::Starting { .. } => ServiceState::Starting,
        Phase::Ready { since, .. } => ServiceState::Ready { since_ms: ago(*since) },
        Phase::Unhealthy { since, reason, .. } => {
            ServiceState::Unhealthy { since_ms: ago(*since), reason: reason.clone() }
        }
        Phase::Backoff { until, failures } => {
            let next_try_ms = now_wall_ms.saturating_add(until.saturating_sub(now_mono));
            ServiceState::Backoff { next_try_ms, failures: *failures }
        }
        Phase::Stopping { .. } => ServiceState::Stopping,
    }
}
