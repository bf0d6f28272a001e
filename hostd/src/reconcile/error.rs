//! Errors of commands to a sandbox.

use hostd_core::{QuotaExceeded, TransitionRefused};
use hostd_drivers::{DriverError, control::ControlError};
use hostd_store::{StoreError, disk_space::DiskState};
use protocol::api::{CapacityDetail, Problem, SandboxId};

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
    /// The quota of its owner has no room for what this would use.
    #[error(transparent)]
    QuotaExceeded(Box<QuotaExceeded>),
    /// Memory is short: nothing is brought up that would need more.
    #[error(
        "the host has not enough memory for this sandbox: it needs about {} MB; {} MB are available, of which hostd \
         keeps {} MB free and {} MB are for sandboxes that are starting; stop or destroy sandboxes that are not in use, \
         and try again",
        .0.needed_bytes.div_ceil(1 << 20), .0.available_bytes >> 20, .0.reserve_bytes.div_ceil(1 << 20),
        .0.admitted_bytes.div_ceil(1 << 20)
    )]
    Capacity(Box<CapacityDetail>),
    /// hostd does not pause or stop a sandbox that is in use.
    #[error("the sandbox is in use")]
    InUse,
    /// Nothing may start in files that may yet be taken back.
    #[error("the files of the sandbox are being restored from a snapshot; try again when that has ended")]
    Restoring,
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
            StoreError::QuotaExceeded(refused) => Self::QuotaExceeded(refused),
            StoreError::Full
            | StoreError::Busy
            | StoreError::Closed
            | StoreError::Broken
            | StoreError::Exists
            | StoreError::ScopeTaken { .. }
            | StoreError::NameTaken { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Row { .. }
            | StoreError::Unfit { .. }
            | StoreError::Sqlite { .. } => Self::Store(error),
        }
    }
}
