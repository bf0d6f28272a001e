//! Why something asked of a sandbox did not happen.

use crate::{
    control::ControlError, core::TransitionRefused, disk_space::DiskState, driver::DriverError,
    store::StoreError,
};
use protocol::api::{Problem, SandboxId};

#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("there is no such sandbox")]
    NotFound,
    #[error(transparent)]
    Refused(#[from] TransitionRefused),
    /// It went to `error`, or its backend was away and it stays as it was.
    #[error("{}", .problem.message)]
    Failed { sandbox: SandboxId, problem: Box<Problem> },
    /// It is still at it.
    #[error("not done yet; it goes on, ask for the sandbox again")]
    InProgress,
    #[error("the sandbox is {status}; start it first")]
    NotRunning { status: &'static str },
    #[error("too many sandboxes on this host, or too much asked of one; try again later")]
    TooMany,
    /// The disk is below its floor: nothing is begun that would take more of it.
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

/// What the store refuses because of the sandbox's state is refused by the fleet.
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
