//! Reads and writes the content of snapshots: sizes, hashes and archives.

use super::{Fleet, FleetError, snapshots::snapshots_of};
use hostd_drivers::{DriverError, RoomCheck, Verification};
use protocol::api::{SandboxId, SnapshotContent, SnapshotId};
use std::{
    fs::File,
    io::{PipeReader, PipeWriter},
};
use tokio::sync::oneshot;
use tracing::warn;

impl Fleet {
    /// Counts a snapshot for the quota of its owner, and hashes all of its files soon. `captured` is a sandbox that was noted
    /// with `note_capturing`.
    pub(super) fn hash_later(&self, snapshot: SnapshotId, captured: Option<SandboxId>) {
        let fleet = self.clone();
        self.spawn(async move {
            // However many snapshots are hashed first.
            fleet.charge_layers_now().await;
            captured.iter().for_each(|sandbox| fleet.note_captured(sandbox));
            let listing = fleet.inner().snapshots.lists.acquire().await;
            let readable = fleet.check_readable(&snapshot).await;
            drop(listing);
            match readable {
                Ok(()) => {}
                Err(error) if is_removed(&error) => return,
                Err(error) => warn!(%snapshot, %error, "failed to list the files of a snapshot"),
            }
            let _permit = fleet.inner().snapshots.hashes.acquire().await;
            match fleet.hash(&snapshot).await {
                Ok(_) => {}
                Err(error) if is_removed(&error) => {}
                Err(error) => {
                    warn!(%snapshot, %error, "failed to hash the files of a snapshot; tried again when hostd starts");
                }
            }
        });
    }

    /// A snapshot that cannot be read is of no use: it is removed.
    async fn check_readable(&self, snapshot: &SnapshotId) -> Result<(), FleetError> {
        let driver = self.snapshot_driver()?;
        match snapshots_of(&driver)?.check_readable(snapshot).await {
            Ok(()) => Ok(()),
            Err(error @ DriverError::Refused { .. }) => {
                warn!(%snapshot, %error, "removing a snapshot that cannot be read");
                self.remove_snapshot(snapshot).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Hashes all files of a snapshot now.
    pub async fn hash(&self, snapshot: &SnapshotId) -> Result<SnapshotContent, FleetError> {
        let driver = self.snapshot_driver()?;
        let found = snapshots_of(&driver)?.hash(snapshot).await?;
        let content = SnapshotContent { files: found.files, bytes: found.bytes, sha256: found.sha256 };
        self.inner().store.snapshot_hashed(snapshot, content.clone()).await?;
        Ok(content)
    }

    /// Writes a snapshot as an archive; the receiver gets the end. `permit` is held until then.
    pub fn export_snapshot(
        &self,
        snapshot: &SnapshotId,
        note: Vec<u8>,
        out: PipeWriter,
        permit: impl Send + 'static,
    ) -> oneshot::Receiver<Result<(), FleetError>> {
        let (snapshot, fleet) = (*snapshot, self.clone());
        self.spawn_with_reply(async move {
            let _permit = permit;
            let driver = fleet.snapshot_driver()?;
            Ok(snapshots_of(&driver)?.export(&snapshot, note, out).await?)
        })
    }

    /// Unpacks an archive; the receiver gets its note.
    pub fn import_snapshot(
        &self,
        snapshot: &SnapshotId,
        archive: PipeReader,
        check_room: RoomCheck,
    ) -> oneshot::Receiver<Result<Option<Vec<u8>>, FleetError>> {
        let (snapshot, fleet) = (*snapshot, self.clone());
        self.spawn_with_reply(async move {
            let driver = fleet.snapshot_driver()?;
            Ok(snapshots_of(&driver)?.import(&snapshot, archive, check_room).await?)
        })
    }

    pub async fn verify_snapshot(&self, snapshot: &SnapshotId) -> Result<Verification, FleetError> {
        let driver = self.snapshot_driver()?;
        Ok(snapshots_of(&driver)?.verify(snapshot).await?)
    }

    /// The hashes of all files, one JSON object in a line.
    pub async fn snapshot_manifest(&self, snapshot: &SnapshotId) -> Result<File, FleetError> {
        let driver = self.snapshot_driver()?;
        Ok(snapshots_of(&driver)?.manifest(snapshot).await?)
    }
}

/// Whether the snapshot was removed meanwhile: nothing is left to do.
fn is_removed(error: &FleetError) -> bool {
    matches!(error, FleetError::Driver(DriverError::Conflict { .. }))
}
