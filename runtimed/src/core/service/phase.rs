//! Inputs, effects and phases of the service machine. No decision is made here.

use protocol::{Exit, RestartPolicy, ServiceName, ServiceState};

/// The phase of a service. Times are monotonic milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Phase {
    /// No job: never started, stopped by request, or ended and not restarted.
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
        /// When to check next; `None` while a check is running.
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
    /// The job was told to stop; its end has not been reported.
    Stopping {
        then: AfterStop,
    },
}

/// The action after the end of a stopping job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterStop {
    Stay,
    Start,
}

/// How a service is run. Constant for the length of a run: when it changes, the supervisor restarts the
/// service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub restart: RestartPolicy,
    pub restart_after_task: bool,
    /// Interval between checks once ready; `None` where readiness is seen once, as with a log line.
    pub probe_interval_ms: Option<u64>,
    /// Without a check, a running service is ready.
    pub checked: bool,
}

/// Combined readiness of the services that this one depends on.
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
    /// Something changed that may help: a service in backoff is retried at once. Never starts a stopped
    /// service.
    RetryNow,
    /// Restarts a wanted service that asks for it; `RetryNow` for every other.
    TaskEnded,
    Dependencies(Dependencies),
    /// The whole tree of the job is gone, or the job could not be spawned.
    Ended(Exit),
    /// The result of one check. The supervisor drops a check that outlives its job.
    Probe(Result<(), String>),
    /// Time passed; sent at `next_wake`, harmless at any other time.
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Start the job; an `Ended` follows.
    Spawn,
    /// SIGTERM to the tree, SIGKILL after the grace; an `Ended` follows.
    Stop,
    /// Start one check; a `Probe` follows.
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
