//! What the machine of a job is told and what it says.

use serde::{Deserialize, Serialize};

/// How the kernel says a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawExit {
    Exited(i32),
    Signalled(i32),
}

/// What becomes of processes that outlive the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    Keep,
    Kill,
}

/// StopReason we ended a job that would have gone on.
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
    /// It said all it has to say, and may go by itself until then.
    Leaving {
        until: u64,
    },
    /// It did not go, and was killed alone: what it started may live on.
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

/// What is known about the end so far.
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
    /// It printed something.
    Output,
    /// Whether it waits for somebody, and so may print nothing.
    AwaitsDecision(bool),
    /// It said all it has to say.
    Concluded,
    /// Nobody holds the output any more, and all of it is in the log.
    OutputClosed,
    /// No descendant is left.
    TreeEmpty,
    Cancel {
        grace_ms: u64,
    },
    /// PID 1 is gone: nobody is left to report to.
    ControlLost,
    Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Say "stop" in the language of the program.
    RequestStop,
    /// SIGKILL to the leader, and to nobody else.
    KillLeader,
    /// SIGTERM to every descendant, once.
    TermTree,
    /// SIGKILL to every descendant, again and again while in `Killing`.
    KillTree,
    Report(End),
    /// The shim may exit.
    Finish,
}
