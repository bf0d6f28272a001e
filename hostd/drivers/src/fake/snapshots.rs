//! Snapshots in memory: which restores did not end. Snapshots have no content.

use super::FakeDriver;
use crate::{
    CaptureOrder, CaptureOutcome, CopyExtent, DriverError, LayerCharges, ReplacementOutcome, RoomCheck,
    SnapshotContent, SnapshotDriver, Verification,
};
use async_trait::async_trait;
use protocol::api::{SandboxId, SnapshotId};
use std::{
    fs::File,
    io::{PipeReader, PipeWriter},
};

fn no_content() -> DriverError {
    DriverError::Conflict { message: "a snapshot in memory has no content".to_owned() }
}

#[async_trait]
impl SnapshotDriver for FakeDriver {
    fn method(&self) -> &'static str {
        "memory"
    }

    async fn prepare_capture(&self, _: &CaptureOrder) -> Result<(), DriverError> {
        self.verb("prepare_capture", || ()).await
    }

    async fn capture(&self, _: &CaptureOrder, _: bool, _: CopyExtent) -> Result<CaptureOutcome, DriverError> {
        self.verb("capture", || CaptureOutcome::Captured).await
    }

    async fn publish(&self, _: &SnapshotId) -> Result<(), DriverError> {
        self.verb("publish", || ()).await
    }

    async fn abandon(&self, _: &SnapshotId) -> Result<(), DriverError> {
        Ok(())
    }

    async fn exists(&self, _: &SnapshotId) -> Result<bool, DriverError> {
        Ok(false)
    }

    async fn check_readable(&self, _: &SnapshotId) -> Result<(), DriverError> {
        Ok(())
    }

    async fn hash(&self, _: &SnapshotId) -> Result<SnapshotContent, DriverError> {
        Err(no_content())
    }

    async fn verify(&self, _: &SnapshotId) -> Result<Verification, DriverError> {
        Err(no_content())
    }

    async fn manifest(&self, _: &SnapshotId) -> Result<File, DriverError> {
        Err(no_content())
    }

    async fn export(&self, _: &SnapshotId, _: Vec<u8>, _: PipeWriter) -> Result<(), DriverError> {
        Err(no_content())
    }

    async fn export_plain(&self, _: &SnapshotId, _: PipeWriter) -> Result<(), DriverError> {
        Err(no_content())
    }

    async fn import(
        &self,
        _: &SnapshotId,
        _: PipeReader,
        _: RoomCheck,
    ) -> Result<Option<Vec<u8>>, DriverError> {
        Err(no_content())
    }

    async fn remove(&self, _: &SnapshotId) -> Result<(), DriverError> {
        Ok(())
    }

    async fn layer_charges(&self) -> Result<LayerCharges, DriverError> {
        Ok(LayerCharges::default())
    }

    async fn sync_workspaces(&self) -> Result<(), DriverError> {
        Ok(())
    }

    async fn remove_unreferenced_layers(&self) -> Result<usize, DriverError> {
        Ok(0)
    }

    async fn replace_workspace(&self, sandbox: &SandboxId, _: &SnapshotId) -> Result<(), DriverError> {
        if self.is_known_to_run(sandbox) {
            self.violate(format!("the files of {sandbox} were replaced while it ran"));
        }
        self.replaced.lock().expect("no panic while held").insert(*sandbox);
        self.verb("replace_workspace", || ()).await
    }

    async fn finish_replacement(
        &self,
        sandbox: &SandboxId,
        outcome: ReplacementOutcome,
    ) -> Result<(), DriverError> {
        if outcome == ReplacementOutcome::RollBack && self.is_known_to_run(sandbox) {
            self.violate(format!("the files of {sandbox} were rolled back while it ran"));
        }
        self.verb("finish_replacement", || {
            self.replaced.lock().expect("no panic while held").remove(sandbox);
        })
        .await
    }

    async fn replacements(&self) -> Result<Vec<SandboxId>, DriverError> {
        Ok(self.replaced.lock().expect("no panic while held").iter().copied().collect())
    }
}
