//! Inputs and effects of the task machine.

use protocol::{Durations, FailureReason, TaskPhase, TaskStatus};

/// Time limits of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub timeout_ms: Option<u64>,
    pub health_timeout_ms: u64,
}

/// The jobs of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Checkpoint,
    Agent,
    Changes,
    Build,
}

/// How the agent ended when it was not stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    Succeeded,
    Failed,
    /// No output for too long.
    Idle,
    NotStarted,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The task leaves the queue.
    Begin,
    Prepared,
    /// The checkpoint was taken, or failed.
    Checkpointed,
    AgentEnded(AgentEnd),
    /// The changed files were counted, or could not be; whether there is something to build.
    ChangesCounted {
        build: bool,
    },
    Built {
        passed: bool,
    },
    /// Whether all services are ready; only matters in `Health`.
    Services {
        ready: bool,
    },
    Cancel {
        grace_ms: u64,
    },
    /// The sandbox stops.
    Shutdown {
        grace_ms: u64,
    },
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Report the phase.
    Enter(TaskPhase),
    Prepare,
    /// Start a job; the input for its end follows.
    Start(Stage),
    /// Stop the running job.
    Stop {
        grace_ms: u64,
    },
    /// The agent may have fixed something: retry failed services.
    RetryServices,
    /// Report the readiness of services, now and on each change.
    CheckServices,
    Finish(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub status: TaskStatus,
    pub reason: Option<FailureReason>,
    pub durations: Durations,
}
