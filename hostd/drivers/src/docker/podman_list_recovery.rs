//! Recovery from a Podman that was killed while it removed a container: it still knows the container, has no
//! data for it, and fails every list from then on. A container of ours is removed; otherwise each sandbox is
//! inspected by name.

use super::{
    driver::DockerInner,
    engine::EngineError,
    labels,
    remove_container::{ID_BYTES, remove_with_retry},
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;
use std::sync::Arc;

impl DockerInner {
    /// Refreshes all containers, also from an engine that cannot list them.
    pub async fn relist_all(self: &Arc<Self>) -> Result<(), EngineError> {
        match self.cache.relist().await {
            Err(EngineError::Failed { message, .. }) => {
                tracing::warn!(message, "the container engine cannot list its containers");
                self.remove_half_removed(&message).await?;
            }
            done => return done,
        }
        match self.cache.relist().await {
            Err(EngineError::Failed { .. }) => self.refresh_each().await,
            done => done,
        }
    }

    /// Removes the half-removed container that the message names. It cannot be inspected any more: that it is
    /// ours shows by its id on our disk.
    async fn remove_half_removed(self: &Arc<Self>, message: &str) -> Result<(), EngineError> {
        let Some(id) = half_removed_id(message) else { return Ok(()) };
        let has_it = |sandbox: &SandboxId| {
            let run = RunRecord::read(&self.dir(sandbox)).ok().flatten();
            run.is_some_and(|run| run.container.as_deref() == Some(id))
        };
        if !self.sandboxes().iter().any(has_it) {
            return Ok(());
        }
        match remove_with_retry(&self.engine, id).await {
            Err(error @ (EngineError::Unreachable { .. } | EngineError::TimedOut { .. })) => Err(error),
            done => {
                tracing::warn!(container = id, gone = done.is_ok(), "removing a half-removed container");
                Ok(())
            }
        }
    }

    async fn refresh_each(&self) -> Result<(), EngineError> {
        for sandbox in self.sandboxes() {
            let name = labels::name_of(&self.signer.instance, &sandbox);
            self.cache.try_refresh(&name).await?;
        }
        Ok(())
    }

    /// Sandboxes by their directories on disk.
    fn sandboxes(&self) -> Vec<SandboxId> {
        let entries = std::fs::read_dir(self.layout.sandboxes()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

/// Extracts the id from `getting container from store "0123…": container not known`.
fn half_removed_id(message: &str) -> Option<&str> {
    let (_, after) = message.split_once("from store \"")?;
    let (id, why) = after.split_once('"')?;
    (id.len() == ID_BYTES && why.contains("container not known")).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_half_removed_container_is_parsed_from_the_message() {
        let id = "0a".repeat(32);
        let message = |why: &str| format!("getting container from store \"{id}\": {why}");
        assert_eq!(half_removed_id(&message("container not known")), Some(id.as_str()));
        assert_eq!(half_removed_id(&message("permission denied")), None);
        assert_eq!(half_removed_id("getting container from store \"x\": container not known"), None);
    }
}
