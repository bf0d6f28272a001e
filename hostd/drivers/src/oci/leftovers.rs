//! What sandboxes left beside their directories: state of the runtime and control groups.

use super::{
    super::{ContainerState, DriverError, Leftover},
    driver::OciInner,
    files::failed,
};
use crate::local::{leftovers, local_driver::LocalDriver};
use protocol::api::LeftoverKind;
use std::sync::Arc;

impl OciInner {
    pub fn find_leftovers(&self) -> Result<Vec<Leftover>, DriverError> {
        let mut found = leftovers::list(self)?;
        let states =
            leftovers::ids(&self.layout.states()).map_err(failed("list the states of the runtime"))?;
        found.extend(states.into_iter().map(|id| leftovers::of(LeftoverKind::RuntimeState, id)));
        let groups = self.hierarchies.sandboxes().into_iter();
        found.extend(groups.map(|id| leftovers::of(LeftoverKind::ControlGroup, id)));
        Ok(found)
    }

    pub async fn remove_leftover(self: &Arc<Self>, leftover: &Leftover) -> Result<(), DriverError> {
        let Some(sandbox) = leftover.sandbox else {
            let name = leftover.name.clone();
            return self.spawn_blocking(move |inner| leftovers::remove_trash(&inner.layout, &name)).await;
        };
        match self.inspect(&sandbox)? {
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
            LeftoverKind::RuntimeState | LeftoverKind::ControlGroup => self.clean_up(&sandbox).await,
            LeftoverKind::Trash => Ok(()),
        }
    }
}
