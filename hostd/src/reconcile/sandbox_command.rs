//! What the fleet tells the actor of a sandbox to do.

use protocol::api::LimitsChange;

/// A command to one sandbox.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SandboxCommand {
    Start,
    Stop,
    Pause,
    Resume,
    /// Resume a frozen sandbox; one that is stopped, or is to be, stays so.
    Thaw,
    Destroy {
        keep_workspace: bool,
    },
    /// Stop it because of the space that its workspace takes, or because memory is short and it is idle.
    Evict(EvictionCause),
    /// Freeze it because memory is short, if it is idle.
    Doze,
    /// Change its limits, also while it runs.
    Resize(LimitsChange),
    /// Stop, empty the workspace unless it is to be kept, and launch again from the frozen blueprint.
    Recreate {
        keep_workspace: bool,
    },
}

/// Why a sandbox is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionCause {
    /// The disk is full, and the workspace has grown.
    Grew { grown_bytes: u64 },
    /// The workspace is larger than its limit.
    OverLimit { used_bytes: u64, limit_bytes: u64 },
    /// Memory is short, and the sandbox is idle.
    MemoryPressure { available_bytes: u64, reserve_bytes: u64 },
}
