//! What a backup needs of the sandboxes: a snapshot of the files of each, as they are at one moment, and the files of
//! snapshots that exist. And the files of sandboxes that were restored.

use super::{Fleet, FleetError, SnapshotRoom, launch::launch_request, snapshots::snapshots_of};
use hostd_drivers::{CaptureOrder, DriverError, Excludes, WorkspaceAccess};
use hostd_store::{NewSnapshot, SandboxRecord};
use protocol::api::{SandboxId, SandboxStatus, SnapshotId};
use std::{io::PipeWriter, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tracing::{info, warn};

/// How long a sandbox may take to become settled, and how often its files are tried.
const SETTLE_MAX: Duration = Duration::from_millis(crate::backup::SETTLE_MAX_MS);

impl Fleet {
    /// Takes a snapshot of the files of a sandbox that only the backup knows; it removes it with [`Self::remove_snapshot`].
    /// `None` where there are no files: the sandbox is destroyed, or was never launched.
    pub async fn capture_for_backup(&self, sandbox: &SandboxId) -> Result<Option<SnapshotId>, FleetError> {
        let (fleet, sandbox) = (self.clone(), *sandbox);
        self.run_to_end(async move { fleet.capture_settled(&sandbox).await }).await
    }

    async fn capture_settled(&self, sandbox: &SandboxId) -> Result<Option<SnapshotId>, FleetError> {
        self.check_disk_room()?;
        for _ in 0..crate::backup::CAPTURES_MAX {
            let record = match self.wait_settled(sandbox, SETTLE_MAX).await {
                Ok(record) => record,
                // In `error`, or with a problem: it is settled.
                Err(FleetError::Failed { .. }) => self.record(sandbox).await?,
                Err(FleetError::NotFound) => return Ok(None),
                Err(error) => return Err(error),
            };
            let driver = self.driver_of(&record);
            let has_files = record.state.status != SandboxStatus::Destroyed
                && !matches!(driver.open_workspace(sandbox).await?, WorkspaceAccess::Missing);
            if !has_files {
                return Ok(None);
            }
            match self.capture_as_row(&record).await {
                // A command came in between.
                Err(FleetError::InProgress) => {}
                Err(FleetError::Refused(_) | FleetError::NotFound) => return Ok(None),
                captured => return captured.map(Some),
            }
        }
        Err(FleetError::InProgress)
    }

    async fn capture_as_row(&self, record: &SandboxRecord) -> Result<SnapshotId, FleetError> {
        let id: SnapshotId =
            ulid::Ulid::generate().to_string().to_ascii_lowercase().parse().expect("a ULID is an id");
        let new = NewSnapshot {
            id,
            name: None,
            sandbox: None,
            owner: record.owner.clone(),
            excludes: vec![],
            blueprint: record.blueprint.clone(),
            created_ms: self.clock().now_ms(),
        };
        self.store().insert_snapshot_of_backup(new).await?;
        let room = SnapshotRoom::without_quota(self.clone(), id);
        let order = CaptureOrder {
            sandbox: record.id,
            snapshot: id,
            excludes: Arc::new(Excludes::default()),
            room: SnapshotRoom::for_copies(&room),
        };
        match self.capture_and_publish(&order, &room).await {
            Ok(_) => {
                // What was the sandbox's own may be a layer now.
                self.note_files_changed(&record.id);
                Ok(id)
            }
            Err(error) => {
                self.abandon(&record.id, &id).await;
                Err(error)
            }
        }
    }

    /// Writes the files of a snapshot, not compressed; the receiver gets the end.
    pub fn export_for_backup(
        &self,
        snapshot: &SnapshotId,
        out: PipeWriter,
    ) -> oneshot::Receiver<Result<(), FleetError>> {
        let (snapshot, fleet) = (*snapshot, self.clone());
        self.spawn_with_reply(async move {
            let driver = fleet.snapshot_driver()?;
            Ok(snapshots_of(&driver)?.export_plain(&snapshot, out).await?)
        })
    }

    /// Makes the files of a sandbox that was restored, before anything asks for them.
    pub(super) async fn make_restored(&self, record: &SandboxRecord) {
        let driver = self.driver_of(record);
        match driver.make_restored(&launch_request(record)).await {
            Ok(()) => {}
            // Its next launch makes them.
            Err(error @ DriverError::Unavailable { .. }) => {
                info!(sandbox = %record.id, %error, "files of a restored sandbox are made later");
            }
            Err(error) => {
                warn!(sandbox = %record.id, %error, "failed to make the files of a restored sandbox");
            }
        }
    }
}
