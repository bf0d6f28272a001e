//! Removes a sandbox with everything it left, and empties its workspace.

use super::{
    super::{ContainerState, DriverError},
    driver::OciInner,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;
use std::sync::Arc;

impl OciInner {
    pub async fn destroy(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        // A badge that is not authentic means that the sandbox is not ours: do not touch it.
        let record = self.read_badge(sandbox)?;
        match self.inspect(sandbox)? {
            ContainerState::Running { .. } | ContainerState::Launching => self.terminate(sandbox, 0).await?,
            ContainerState::OtherPidNamespace => {
                return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
            }
            ContainerState::Absent | ContainerState::Dead(_) => {}
        }
        self.clean_up(sandbox).await?;
        self.discard(sandbox, keep_workspace).await?;
        if let Some(record) = record {
            self.uid_ranges.release(record.uid_base);
        }
        Ok(())
    }

    /// Removes a sandbox without checking its badge.
    pub async fn destroy_unchecked(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.terminate(sandbox, 0).await?;
        self.clean_up(sandbox).await?;
        self.discard(sandbox, false).await
    }

    async fn discard(self: &Arc<Self>, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        let id = *sandbox;
        self.spawn_blocking(move |inner| inner.workspaces().remove_files(&id, keep_workspace)).await
    }

    pub async fn reset_workspace(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.refuse_other_namespace(sandbox, false)?;
        if matches!(self.inspect(sandbox)?, ContainerState::Running { .. } | ContainerState::Launching) {
            let message = format!("sandbox {sandbox} runs: stop it first");
            return Err(DriverError::Failed { message, output: vec![] });
        }
        let id = *sandbox;
        self.spawn_blocking(move |inner| inner.renew_workspace(&id)).await
    }
}
