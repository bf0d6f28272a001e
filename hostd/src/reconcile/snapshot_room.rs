//! The room that a snapshot has while its files are written: above the floor of the disk, and within the quota of its
//! owner.

use super::{Fleet, FleetError};
use hostd_drivers::{CopyRoom, DriverError};
use protocol::api::{Owner, SnapshotId};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::runtime::Handle;

pub struct SnapshotRoom {
    fleet: Fleet,
    snapshot: SnapshotId,
    /// Whose disk quota it counts in; `None` for a snapshot that a backup takes for a moment.
    owner: Option<Owner>,
    /// Why there is none.
    refused: Mutex<Option<FleetError>>,
}

impl SnapshotRoom {
    pub fn new(fleet: Fleet, snapshot: SnapshotId, owner: Owner) -> Arc<Self> {
        Arc::new(Self { fleet, snapshot, owner: Some(owner), refused: Mutex::default() })
    }

    /// Room on the disk only.
    pub fn without_quota(fleet: Fleet, snapshot: SnapshotId) -> Arc<Self> {
        Arc::new(Self { fleet, snapshot, owner: None, refused: Mutex::default() })
    }

    /// Records that so many bytes were written, and refuses more where there is no room for them.
    pub async fn check(&self, bytes: u64) -> Result<(), FleetError> {
        self.fleet.check_disk_room()?;
        let Some(owner) = &self.owner else { return Ok(()) };
        // Counts from now on, for all that its owner does.
        self.fleet.store().snapshot_grew(&self.snapshot, bytes).await?;
        Ok(self.fleet.store().check_disk_quota(owner).await?)
    }

    /// As `check`, on a thread that may block. The driver gets an error that says less than [`Self::take_refusal`].
    pub fn check_on_thread(&self, runtime: &Handle, bytes: u64) -> Result<(), DriverError> {
        runtime.block_on(self.check(bytes)).map_err(|error| {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            let message = "there is no room for the snapshot".to_owned();
            DriverError::Refused { field: "snapshot", message, supported: vec![] }
        })
    }

    /// The room for the copies of a sandbox.
    pub fn for_copies(room: &Arc<Self>) -> CopyRoom {
        let (room, runtime) = (room.clone(), Handle::current());
        CopyRoom::checked_by(move |bytes| room.check_on_thread(&runtime, bytes))
    }

    /// Why there is no room, where that was found out.
    pub fn take_refusal(&self) -> Option<FleetError> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
