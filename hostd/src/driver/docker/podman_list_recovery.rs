//! Podman, killed while it removes a container, knows of it and has nothing of it: from then on it can list
//! none at all. What is ours of that is removed; for the rest each is asked for by itself.

use super::{
    driver::DockerInner,
    engine::EngineError,
    labels,
    remove_container::{ID_BYTES, remove_with_retry},
    run_record::RunRecord,
};
use protocol::api::SandboxId;
use std::sync::Arc;

impl DockerInner {
    /// All there are, also from an engine that stumbles over one of them.
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

    /// It cannot be looked at any more: that it is ours we know by its id, from our disk.
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
                tracing::warn!(container = id, gone = done.is_ok(), "half of a container was left");
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

    /// By the directories that they have here.
    fn sandboxes(&self) -> Vec<SandboxId> {
        let entries = std::fs::read_dir(self.layout.sandboxes()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }
}

/// `getting container from store "0123…": container not known`: which.
fn half_removed_id(message: &str) -> Option<&str> {
    let (_, after) = message.split_once("from store \"")?;
    let (id, why) = after.split_once('"')?;
    (id.len() == ID_BYTES && why.contains("container not known")).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_engine_lost_is_read_from_what_it_says() {
        let id = "0a".repeat(32);
        let message = |why: &str| format!("getting container from store \"{id}\": {why}");
        assert_eq!(half_removed_id(&message("container not known")), Some(id.as_str()));
        assert_eq!(half_removed_id(&message("permission denied")), None);
        assert_eq!(half_removed_id("getting container from store \"x\": container not known"), None);
    }
}
