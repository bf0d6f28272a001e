//! What the machine of a task is told and what it says.

use protocol::{Durations, FailureReason, TaskPhase, TaskStatus};

/// What a request says about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub timeout_ms: Option<u64>,
    pub health_timeout_ms: u64,
}

/// What a job of a task is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    Checkpoint,
    Agent,
    Changes,
    Build,
}

/// How the agent ended when nobody stopped it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    Succeeded,
    Failed,
    /// It printed nothing for too long.
    Idle,
    NotStarted,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// It is its turn.
    Begin,
    Prepared,
    /// The checkpoint is there, or cannot be had.
    Checkpointed,
    AgentEnded(AgentEnd),
    /// Its changes are counted, or cannot be; whether there is something to build.
    ChangesCounted {
        build: bool,
    },
    Built {
        passed: bool,
    },
    /// How the services stand; means something in `Health` only.
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
    /// Tell the phase.
    Enter(TaskPhase),
    Prepare,
    /// Start a job; the input for its end follows sooner or later.
    Start(Stage),
    /// Stop the job that runs.
    Stop {
        grace_ms: u64,
    },
    /// The agent did what it did: services may be worth another try.
    RetryServices,
    /// Say how services stand, now and whenever that changes.
    CheckServices,
    Finish(Outcome),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub status: TaskStatus,
    pub reason: Option<FailureReason>,
    pub durations: Durations,
}
