//! The verbs of a driver on snapshots. Like the others, each may be repeated and cut off anywhere.
//!
//! ```text
//! prepare (the sandbox goes on) ─▶ capture (nothing in it runs) ─▶ publish ─▶ hash
//! ```

use crate::{
    DriverError,
    local::{
        files::failed,
        local_driver::LocalDriver,
        snapshots::{
            CaptureRequest, Comparison, CopyRoom, Excludes, ImportSource, LayerCharges, ManifestDifference,
            ManifestSummary, ReplacementOutcome, SnapshotRecord, deleted, no_files, typed,
        },
    },
};
use async_trait::async_trait;
use protocol::api::{SandboxId, SnapshotId};
use std::{
    fs::File,
    io::{ErrorKind, PipeReader, PipeWriter},
    sync::Arc,
};

/// Says whether an import may go on, after so many unpacked bytes. Called on a thread that may block.
pub type RoomCheck = Box<dyn FnMut(u64) -> Result<(), DriverError> + Send>;

/// A snapshot to take.
#[derive(Debug, Clone)]
pub struct CaptureOrder {
    pub sandbox: SandboxId,
    pub snapshot: SnapshotId,
    pub excludes: Arc<Excludes>,
    /// Asked while files are copied.
    pub room: CopyRoom,
}

/// What [`SnapshotDriver::capture`] may copy while the sandbox waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyExtent {
    /// What has changed since the preparation.
    Changes,
    /// All that a snapshot needs.
    Everything,
}

/// What became of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureOutcome {
    Captured,
    /// Nothing was captured: no preparation is of use, because there was none, the layers of the workspace changed or
    /// the clock was set. It is prepared again, or captured with [`CopyExtent::Everything`].
    PrepareAgain,
}

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotContent {
    pub files: u64,
    pub bytes: u64,
    /// Of the manifest.
    pub sha256: String,
}

/// What became of a snapshot since it was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    pub content: SnapshotContent,
    /// The first ones.
    pub differences: Vec<ManifestDifference>,
    pub differences_total: usize,
}

#[async_trait]
pub trait SnapshotDriver: Send + Sync {
    /// How snapshots are taken here: `btrfs`, `overlay` or `copy`.
    fn method(&self) -> &'static str;
    /// Copies what can be copied while the sandbox goes on, so that [`Self::capture`] takes less time.
    async fn prepare_capture(&self, order: &CaptureOrder) -> Result<(), DriverError>;
    /// Captures the workspace of a sandbox in which nothing runs: it is frozen, or stopped (`at_rest`).
    async fn capture(
        &self,
        order: &CaptureOrder,
        at_rest: bool,
        extent: CopyExtent,
    ) -> Result<CaptureOutcome, DriverError>;
    /// Makes a captured snapshot exist: it is on disk, whole, when this returns.
    async fn publish(&self, snapshot: &SnapshotId) -> Result<(), DriverError>;
    /// Gives a snapshot up that was prepared or captured.
    async fn abandon(&self, snapshot: &SnapshotId) -> Result<(), DriverError>;
    /// Whether the snapshot was published. One whose record cannot be understood was not.
    async fn exists(&self, snapshot: &SnapshotId) -> Result<bool, DriverError>;
    /// Refuses a snapshot that is nested too deeply to be read.
    async fn check_readable(&self, snapshot: &SnapshotId) -> Result<(), DriverError>;
    /// Reads the snapshot and keeps the hashes of its files.
    async fn hash(&self, snapshot: &SnapshotId) -> Result<SnapshotContent, DriverError>;
    /// Reads the snapshot and compares it with the hashes that were kept.
    async fn verify(&self, snapshot: &SnapshotId) -> Result<Verification, DriverError>;
    /// The kept hashes, one JSON object in a line.
    async fn manifest(&self, snapshot: &SnapshotId) -> Result<File, DriverError>;
    /// Writes the snapshot as an archive (`.tar.zst`), with a note.
    async fn export(&self, snapshot: &SnapshotId, note: Vec<u8>, out: PipeWriter) -> Result<(), DriverError>;
    /// Writes the snapshot as an archive that is not compressed and has no note.
    async fn export_plain(&self, snapshot: &SnapshotId, out: PipeWriter) -> Result<(), DriverError>;
    /// Makes a snapshot of an archive that is not trusted, and leaves nothing of one for which there is no room. Returns its
    /// note, if it has one.
    async fn import(
        &self,
        snapshot: &SnapshotId,
        archive: PipeReader,
        check_room: RoomCheck,
    ) -> Result<Option<Vec<u8>>, DriverError>;
    async fn remove(&self, snapshot: &SnapshotId) -> Result<(), DriverError>;
    /// Counts what layers take on the disk, each for one of those that keep it there.
    async fn layer_charges(&self) -> Result<LayerCharges, DriverError>;
    /// Puts what launches of an earlier hostd may have left unwritten on disk: their sandboxes run, and are not launched
    /// again.
    async fn sync_workspaces(&self) -> Result<(), DriverError>;
    /// Removes layers that no snapshot and no workspace needs. Returns their number.
    async fn remove_unreferenced_layers(&self) -> Result<usize, DriverError>;
    /// Puts the content of a snapshot in the place of the workspace of a stopped sandbox, which is backed up.
    async fn replace_workspace(&self, sandbox: &SandboxId, snapshot: &SnapshotId) -> Result<(), DriverError>;
    /// Ends a replacement. A no-op where there is none.
    async fn finish_replacement(
        &self,
        sandbox: &SandboxId,
        outcome: ReplacementOutcome,
    ) -> Result<(), DriverError>;
    /// The sandboxes with a replacement that did not end.
    async fn replacements(&self) -> Result<Vec<SandboxId>, DriverError>;
}

#[async_trait]
impl<D: LocalDriver> SnapshotDriver for Arc<D> {
    fn method(&self) -> &'static str {
        D::snapshots(self).method().name()
    }

    async fn prepare_capture(&self, order: &CaptureOrder) -> Result<(), DriverError> {
        let order = order.clone();
        self.spawn_blocking(move |inner| {
            let workspaces = inner.workspaces();
            workspaces.check_has_files(&order.sandbox)?;
            workspaces.prepare_capture(&request(&order)).map_err(typed)
        })
        .await
    }

    async fn capture(
        &self,
        order: &CaptureOrder,
        at_rest: bool,
        extent: CopyExtent,
    ) -> Result<CaptureOutcome, DriverError> {
        let order = order.clone();
        self.spawn_blocking(move |inner| {
            let workspaces = inner.workspaces();
            workspaces.check_has_files(&order.sandbox)?;
            workspaces.capture(&request(&order), at_rest, extent).map_err(typed)
        })
        .await
    }

    async fn publish(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().publish_snapshot(&snapshot)).await
    }

    async fn abandon(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| {
            inner.workspaces().abandon_capture(&snapshot);
            Ok(())
        })
        .await
    }

    async fn exists(&self, snapshot: &SnapshotId) -> Result<bool, DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| match SnapshotRecord::read(inner.layout(), &snapshot) {
            Ok(record) => Ok(record.is_some()),
            Err(error) if error.kind() == ErrorKind::InvalidData => Ok(false),
            Err(error) => Err(failed("read the snapshot")(error)),
        })
        .await
    }

    async fn check_readable(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().check_readable(&snapshot)).await
    }

    async fn hash(&self, snapshot: &SnapshotId) -> Result<SnapshotContent, DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().write_manifest(&snapshot).map(content)).await
    }

    async fn verify(&self, snapshot: &SnapshotId) -> Result<Verification, DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| {
            let workspaces = inner.workspaces();
            let Comparison { found, differences, differences_total } =
                workspaces.verify_snapshot(&snapshot)?;
            Ok(Verification { content: content(found), differences, differences_total })
        })
        .await
    }

    async fn manifest(&self, snapshot: &SnapshotId) -> Result<File, DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().open_manifest(&snapshot)).await
    }

    async fn export(&self, snapshot: &SnapshotId, note: Vec<u8>, out: PipeWriter) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().export_snapshot(&snapshot, &note, out)).await
    }

    async fn export_plain(&self, snapshot: &SnapshotId, out: PipeWriter) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().export_snapshot_plain(&snapshot, out)).await
    }

    async fn import(
        &self,
        snapshot: &SnapshotId,
        archive: PipeReader,
        mut check_room: RoomCheck,
    ) -> Result<Option<Vec<u8>>, DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| {
            let source = ImportSource { archive, check_room: &mut *check_room };
            inner.workspaces().import_snapshot(&snapshot, source)
        })
        .await
    }

    async fn remove(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let snapshot = *snapshot;
        self.spawn_blocking(move |inner| inner.workspaces().remove_snapshot(&snapshot)).await
    }

    async fn layer_charges(&self) -> Result<LayerCharges, DriverError> {
        self.spawn_blocking(|inner| inner.workspaces().layer_charges().map_err(failed("measure the layers")))
            .await
    }

    async fn sync_workspaces(&self) -> Result<(), DriverError> {
        self.spawn_blocking(|inner| inner.workspaces().sync_stacks().map_err(failed("sync the workspaces")))
            .await
    }

    async fn remove_unreferenced_layers(&self) -> Result<usize, DriverError> {
        self.spawn_blocking(|inner| {
            let removed = inner.workspaces().remove_unreferenced_layers();
            removed.map_err(failed("remove layers that nothing needs"))
        })
        .await
    }

    async fn replace_workspace(&self, sandbox: &SandboxId, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let (sandbox, snapshot) = (*sandbox, *snapshot);
        self.spawn_blocking(move |inner| {
            let record = SnapshotRecord::read(inner.layout(), &snapshot);
            let record = record.map_err(failed("restore the snapshot"))?.ok_or_else(deleted)?;
            let badge = inner.read_badge(&sandbox)?.ok_or_else(no_files)?;
            inner.workspaces().replace(&sandbox, &record, &badge.blueprint.limits).map_err(typed)
        })
        .await
    }

    async fn finish_replacement(
        &self,
        sandbox: &SandboxId,
        outcome: ReplacementOutcome,
    ) -> Result<(), DriverError> {
        let sandbox = *sandbox;
        self.spawn_blocking(move |inner| inner.workspaces().finish_replacement(&sandbox, outcome)).await
    }

    async fn replacements(&self) -> Result<Vec<SandboxId>, DriverError> {
        self.spawn_blocking(|inner| inner.workspaces().replacements().map_err(failed("list the restores")))
            .await
    }
}

fn request(order: &CaptureOrder) -> CaptureRequest<'_> {
    let CaptureOrder { sandbox, snapshot, excludes, room } = order;
    CaptureRequest { sandbox, snapshot, excludes, room }
}

fn content(manifest: ManifestSummary) -> SnapshotContent {
    let ManifestSummary { files, bytes, sha256 } = manifest;
    SnapshotContent { files, bytes, sha256 }
}
