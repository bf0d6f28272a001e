//! Podman, killed while it removes a container, knows of it and has nothing of it: from then on it can list
//! none at all. What is ours of that is removed; for the rest each is asked for by itself.

use super::{
    driver::Inner,
    engine::EngineError,
    labels,
    remove::{ID_BYTES, remove},
    run::Run,
};
use protocol::api::SandboxId;
use std::sync::Arc;

impl Inner {
    /// All there are, also from an engine that stumbles over one of them.
    pub async fn list_all(self: &Arc<Self>) -> Result<(), EngineError> {
        match self.mirror.list().await {
            Err(EngineError::Failed { message, .. }) => {
                tracing::warn!(message, "the container engine cannot list its containers");
                self.remove_lost(&message).await?;
            }
            done => return done,
        }
        match self.mirror.list().await {
            Err(EngineError::Failed { .. }) => self.ask_for_each().await,
            done => done,
        }
    }

    /// It cannot be looked at any more: that it is ours we know by its id, from our disk.
    async fn remove_lost(self: &Arc<Self>, message: &str) -> Result<(), EngineError> {
        let Some(id) = lost(message) else { return Ok(()) };
        let has_it = |sandbox: &SandboxId| {
            let run = Run::read(&self.dir(sandbox)).ok().flatten();
            run.is_some_and(|run| run.container.as_deref() == Some(id))
        };
        if !self.sandboxes().iter().any(has_it) {
            return Ok(());
        }
        match remove(&self.engine, id).await {
            Err(error @ (EngineError::Unreachable { .. } | EngineError::TimedOut { .. })) => Err(error),
            done => {
                tracing::warn!(container = id, gone = done.is_ok(), "half of a container was left");
                Ok(())
            }
        }
    }

    async fn ask_for_each(&self) -> Result<(), EngineError> {
        for sandbox in self.sandboxes() {
            let name = labels::name_of(&self.sealer.instance, &sandbox);
            self.mirror.ask_if_it_can_tell(&name).await?;
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
fn lost(message: &str) -> Option<&str> {
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
        let said = |why: &str| format!("getting container from store \"{id}\": {why}");
        assert_eq!(lost(&said("container not known")), Some(id.as_str()));
        assert_eq!(lost(&said("permission denied")), None);
        assert_eq!(lost("getting container from store \"x\": container not known"), None);
    }
}
