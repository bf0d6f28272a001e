//! Publishes snapshots that were captured: the layer is on disk, whole, before the record that names it.

use super::{
    super::{super::DriverError, files::failed, workspace::Workspaces},
    capture::sync_file_system,
    captured::Captured,
    pins::PinnedLayers,
    record::{SnapshotRecord, sync_dir},
    tree_limit::deleted,
};
use protocol::api::SnapshotId;
use std::{io, path::Path};

impl Workspaces<'_> {
    /// Publishes a snapshot that was captured: it is on disk, whole, when this returns.
    pub fn publish_snapshot(&self, snapshot: &SnapshotId) -> Result<(), DriverError> {
        let publish = || failed("publish the snapshot");
        let unused = self.snapshots.begun().remove(snapshot);
        let captured = self.snapshots.captured().remove(snapshot);
        let captured = captured.ok_or_else(|| publish()(io::ErrorKind::NotFound.into()))?;
        match captured {
            Captured::Sealed { layers } => self.write_record(snapshot, &layers)?,
            Captured::Tree { tree, lowers } => {
                let layers = self.publish_layer(tree.path()).map_err(publish())?.above(lowers);
                self.write_record(snapshot, &layers)?;
            }
        }
        drop(unused);
        Ok(())
    }

    /// Makes a snapshot of a tree in the trash.
    pub(super) fn publish_tree(&self, snapshot: &SnapshotId, tree: &Path) -> Result<(), DriverError> {
        let layers = self.publish_layer(tree).map_err(failed("publish the snapshot"))?;
        self.write_record(snapshot, &layers)
    }

    /// Makes a layer of a tree in the trash; it is pinned until a record names it.
    pub(super) fn publish_layer(&self, tree: &Path) -> io::Result<PinnedLayers> {
        // Without this, a loss of power may leave empty files under good names.
        sync_file_system(tree)?;
        let (layer, pinned) = PinnedLayers::new_layer();
        std::fs::rename(tree, layer.dir(self.layout))?;
        sync_dir(&self.layout.workspace_layers())?;
        Ok(pinned)
    }

    /// Names layers as a snapshot, unless one of them is not there.
    fn write_record(&self, snapshot: &SnapshotId, layers: &PinnedLayers) -> Result<(), DriverError> {
        if let Some(gone) = layers.ids().iter().find(|layer| !layer.dir(self.layout).is_dir()) {
            let message = format!("layer {gone} of snapshot {snapshot} is gone: it cannot be published");
            return Err(DriverError::Damaged { message });
        }
        let record = SnapshotRecord { layers: layers.ids().to_vec() };
        record.write(self.layout, snapshot).map_err(failed("publish the snapshot"))
    }

    /// Forgets a snapshot that was begun and is given up; its copies are removed.
    pub fn abandon_capture(&self, snapshot: &SnapshotId) {
        let begun = self.snapshots.begun().remove(snapshot);
        let captured = self.snapshots.captured().remove(snapshot);
        drop((begun, captured));
    }

    /// The layers of a snapshot, which stay while they are read.
    pub(super) fn pin_snapshot(
        &self,
        snapshot: &SnapshotId,
        what: &'static str,
    ) -> Result<(SnapshotRecord, PinnedLayers), DriverError> {
        let record =
            SnapshotRecord::read(self.layout, snapshot).map_err(failed(what))?.ok_or_else(deleted)?;
        match PinnedLayers::existing(self.layout, &record.layers) {
            Ok(pinned) => Ok((record, pinned)),
            Err(_) if !self.layout.snapshot(snapshot).exists() => Err(deleted()),
            Err(error) => Err(failed(what)(error)),
        }
    }
}
