//! Errors of commands to a sandbox.

use hostd_core::TransitionRefused;
use hostd_drivers::{DriverError, control::ControlError};
use hostd_store::{StoreError, disk_space::DiskState};
use protocol::api::{Problem, SandboxId};

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("no sandbox with this id (or it belongs to another tenant)")]
    NotFound,
    #[error(transparent)]
    Refused(#[from] TransitionRefused),
    /// The operation was given up: the sandbox went to `error`, or stays as it was because its backend is away.
    #[error("{}", .problem.message)]
    Failed { sandbox: SandboxId, problem: Box<Problem> },
    /// The operation is still under way.
    #[error("the operation is still under way; get the sandbox to see how it went")]
    InProgress,
    #[error("the sandbox is {status}; start it first")]
    NotRunning { status: &'static str },
    #[error("too many sandboxes on this host, or too much asked of one; try again later")]
    TooMany,
    /// The disk is below its floor: nothing is begun that would fill it more.
    #[error(
        "the data disk is low: {} MB are free and hostd keeps {} MB; delete files in a sandbox that runs, or \
         destroy sandboxes, and try again", .0.free_bytes >> 20, .0.floor_bytes.div_ceil(1 << 20)
    )]
    DiskFull(DiskState),
    #[error("hostd is shutting down")]
    ShuttingDown,
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A transition that the store refuses is refused by the fleet.
impl From<StoreError> for FleetError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refused) => Self::Refused(refused),
            StoreError::NotFound => Self::NotFound,
            StoreError::Full
            | StoreError::Busy
            | StoreError::Closed
            | StoreError::Broken
            | StoreError::Exists
            | StoreError::ScopeTaken { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Row { .. }
            | StoreError::Unfit { .. }
            | StoreError::Sqlite { .. } => Self::Store(error),
        }
    }
}
