//! What sandboxes left in the data directory. Containers are none: one that is not the container of a sandbox is a
//! suspect, and those of destroyed sandboxes are removed as they appear.

use super::{
    super::{ContainerState, DriverError, Leftover},
    driver::DockerInner,
};
use crate::local::{files::failed, leftovers, local_driver::LocalDriver};
use protocol::api::LeftoverKind;
use std::sync::Arc;

impl DockerInner {
    pub async fn remove_leftover(self: &Arc<Self>, leftover: &Leftover) -> Result<(), DriverError> {
        let Some(sandbox) = leftover.sandbox else {
            let name = leftover.name.clone();
            return self.spawn_blocking(move |inner| leftovers::remove_trash(&inner.layout, &name)).await;
        };
        match self.inspect(&sandbox).await? {
            ContainerState::Absent | ContainerState::Dead(_) => {}
            ContainerState::Running { .. }
            | ContainerState::Launching
            | ContainerState::OtherPidNamespace => {
                let message = format!("sandbox {sandbox} runs");
                return Err(DriverError::Failed { message, output: vec![] });
            }
        }
        match leftover.kind {
            // The workspace is a leftover of its own.
            LeftoverKind::SandboxDirectory => self.destroy(&sandbox, true).await,
            LeftoverKind::Workspace => {
                let remove = move |inner: &Self| {
                    inner.workspaces().remove(&sandbox).map_err(failed("remove the workspace"))
                };
                self.spawn_blocking(remove).await
            }
            LeftoverKind::RuntimeState | LeftoverKind::ControlGroup | LeftoverKind::Trash => Ok(()),
        }
    }
}
