//! Inputs, effects and phases of the job machine.

use serde::{Deserialize, Serialize};

/// The exit of a process as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawExit {
    Exited(i32),
    Signalled(i32),
}

/// Policy for processes that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    Keep,
    Kill,
}

/// Why the shim ended a job that would have continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    TimedOut,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running {
        deadline: Option<u64>,
    },
    /// The conversation is over; the job may exit by itself until then.
    Leaving {
        until: u64,
    },
    /// The job did not exit and its leader alone was killed: processes it started may live on.
    KillingLeader {
        give_up_at: u64,
    },
    StopRequested {
        end: End,
        until: u64,
        kill_at: u64,
    },
    Stopping {
        end: End,
        kill_at: u64,
    },
    Killing {
        end: End,
        give_up_at: u64,
    },
    Draining {
        leader: RawExit,
        until: u64,
    },
    Background,
    Over,
}

/// The end of a job, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    pub reason: Option<StopReason>,
    pub leader: Option<RawExit>,
    pub leaky: bool,
    /// SIGKILL did not empty the tree in time.
    pub gave_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    LeaderExited(RawExit),
    /// The job printed something.
    Output,
    /// Whether the job waits for a decision, and so may print nothing.
    AwaitsDecision(bool),
    /// The conversation with the job is over.
    Concluded,
    /// No process holds the output any more, and all of it is in the log.
    OutputClosed,
    /// No descendant is left.
    TreeEmpty,
    Cancel {
        grace_ms: u64,
    },
    /// PID 1 is gone, so there is no receiver for reports.
    ControlLost,
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Send the stop request of the agent's protocol.
    RequestStop,
    /// SIGKILL to the leader only.
    KillLeader,
    /// SIGTERM to every descendant, once.
    TermTree,
    /// SIGKILL to every descendant, repeated while in `Killing`.
    KillTree,
    Report(End),
    /// The shim may exit.
    Finish,
}
