//! Removes containers, also where the engine fails because they exit at the same moment.

use super::{
    super::{DriverError, local::init::Init},
    cgroup_membership::is_in_container,
    driver::DockerInner,
    engine::{Engine, EngineError},
    limits::{ENGINE_POLL_MS, REMOVE_MAX_MS, REMOVE_POLL_MAX_MS},
};
use crate::local::init_exit::terminate_init;
use crate::local::local_driver::LocalDriver;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Removes a container with retries: an engine that has not noticed the exit of PID 1 cannot remove it.
pub async fn remove_with_retry(engine: &Engine, id: &str) -> Result<(), EngineError> {
    let deadline = Instant::now() + Duration::from_millis(REMOVE_MAX_MS);
    let mut pause = Duration::from_millis(ENGINE_POLL_MS);
    loop {
        match engine.remove(id).await {
            Err(EngineError::Failed { .. } | EngineError::Conflict(_)) if Instant::now() < deadline => {
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(REMOVE_POLL_MAX_MS));
            }
            done => return done,
        }
    }
}

impl DockerInner {
    pub async fn remove_by_id(&self, id: &str) -> Result<(), DriverError> {
        remove_with_retry(&self.engine, id).await?;
        self.cache.refresh(id).await?;
        Ok(())
    }

    /// Removes what holds a container name without being a container: a Podman that was killed during a
    /// create keeps the name. A container that can be inspected is left alone.
    pub async fn remove_name_holder(&self, conflict: &str) -> Result<(), DriverError> {
        let Some(id) = name_holder(conflict) else { return Ok(()) };
        if self.engine.is_podman().await? && self.engine.inspect(id).await?.is_none() {
            tracing::warn!(
                container = id,
                "removing what holds the name of a container that was never created"
            );
            remove_with_retry(&self.engine, id).await?;
        }
        Ok(())
    }

    /// Kills what runs in a container that the engine does not know to be running, because it was killed
    /// during the start.
    pub async fn kill_strays(self: &Arc<Self>, id: &str) -> Result<(), DriverError> {
        let container = id.to_owned();
        let stray_inits = self.spawn_blocking(move |_| Ok(stray_inits(&container))).await?;
        for init in stray_inits {
            tracing::warn!(
                container = id,
                pid = init.pid,
                "killing a process that the container engine does not know of"
            );
            terminate_init(&init, 0).await?;
        }
        Ok(())
    }
}

/// Every PID 1 in the control group of this container.
fn stray_inits(container: &str) -> Vec<Init> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Init::check(pid, |cgroup| is_in_container(cgroup, container)).ok().flatten())
        .collect()
}

/// Extracts the id from `the container name "x" is already in use by 0123…. You have to remove that
/// container`.
fn name_holder(conflict: &str) -> Option<&str> {
    let (_, after) = conflict.split_once("is already in use by ")?;
    let after = after.trim_start_matches('"');
    let id = &after[..after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len())];
    (id.len() == ID_BYTES).then_some(id)
}

pub const ID_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_name_is_parsed_from_the_message() {
        let id = "0a".repeat(32);
        let message = format!(
            "creating container storage: the container name \"x\" is already in use by {id}. You have to remove \
             that container to be able to reuse that name: that name is already in use"
        );
        assert_eq!(name_holder(&message), Some(id.as_str()));
        for message in ["is already in use by 0a0a. You", "Conflict.", "is already in use by \"slipway-x\""] {
            assert_eq!(name_holder(message), None, "{message}");
        }
    }
}
