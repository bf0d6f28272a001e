//! Starts a container, and waits where the engine lags behind.

use super::super::{
    driver::DockerInner,
    engine::{EngineError, InspectedContainer},
    limits::{ENGINE_POLL_MS, START_LAG_MAX_MS},
};
use crate::DriverError;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// Outcome of a start request.
pub(super) enum Started {
    /// Accepted or overtaken: the next inspect tells.
    Tried,
    /// The container is being stopped or removed.
    Busy,
    /// Something that the container was created with is gone; the container has been removed.
    Outdated { why: String },
}

impl DockerInner {
    pub(super) async fn start(self: &Arc<Self>, container: &str) -> Result<Started, DriverError> {
        match self.engine.start(container).await {
            Ok(()) => Ok(Started::Tried),
            Err(EngineError::Conflict(_)) => Ok(Started::Busy),
            Err(EngineError::NotFound(why)) => self.remove_outdated(container, why).await,
            Err(EngineError::Failed { message, .. }) if is_missing_network(&message) => {
                self.remove_outdated(container, message).await
            }
            // The engine was killed during an earlier start and restarted without this container: recreate
            // it.
            Err(EngineError::Failed { message, .. }) if message.contains("already exists") => {
                self.remove_container_and_strays(container).await?;
                Ok(Started::Tried)
            }
            Err(error @ EngineError::Failed { .. }) => {
                let output = self.last_lines(container).await;
                let mut error = DriverError::from(error);
                if let DriverError::Failed { output: printed, .. } = &mut error {
                    *printed = output;
                }
                Err(error)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a container, and processes in it that the engine does not know of.
    pub(super) async fn remove_container_and_strays(
        self: &Arc<Self>,
        container: &str,
    ) -> Result<(), DriverError> {
        self.kill_strays(container).await?;
        self.remove_by_id(container).await
    }

    /// Either the container was removed, or its network is gone: containers refer to a network by id, not by
    /// name. Removes the container in the second case.
    async fn remove_outdated(&self, container: &str, why: String) -> Result<Started, DriverError> {
        if self.engine.inspect(container).await?.is_none() {
            return Ok(Started::Tried);
        }
        self.remove_by_id(container).await?;
        Ok(Started::Outdated { why })
    }

    /// Waits until the engine reports another state.
    pub(super) async fn wait_for_change(
        &self,
        name: &str,
        seen: &InspectedContainer,
    ) -> Result<(), DriverError> {
        let deadline = Instant::now() + Duration::from_millis(START_LAG_MAX_MS);
        let mut pause = Duration::from_millis(ENGINE_POLL_MS);
        loop {
            let mark = self.cache.version(name);
            let _ = timeout(pause, self.cache.changed_since(name, &mark)).await;
            pause = pause.saturating_mul(2).min(Duration::from_millis(ENGINE_POLL_MS * 32));
            let found = self.cache.refresh(name).await?;
            if found.is_none_or(|found| found.id != seen.id || found.state != seen.state) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let status = &seen.state.status;
                let message = format!("the container engine still reports {name} as {status}");
                return Err(DriverError::Unavailable { message });
            }
        }
    }

    pub(super) async fn exited_at_once(&self, container: &str) -> DriverError {
        let output = self.last_lines(container).await;
        let why = output.last().map_or_else(|| "it printed nothing".to_owned(), Clone::clone);
        DriverError::Failed { message: format!("PID 1 ended as soon as it was started: {why}"), output }
    }
}

/// Recognizes a missing network by the message; status codes differ between engines.
pub(super) fn is_missing_network(message: &str) -> bool {
    let words = message.to_ascii_lowercase();
    words.contains("network") && ["not found", "no such network"].iter().any(|gone| words.contains(gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_network_is_recognized_by_the_message() {
        for (message, expected) in [
            ("network 3f0a not found", true),
            ("failed to set up container networking: network 3f0a not found", true),
            ("unable to find network with name or ID slipway-1: network not found", true),
            ("exec: \"/.runtimed\": executable file not found in $PATH", false),
            ("OCI runtime create failed: network is unreachable", false),
        ] {
            assert_eq!(is_missing_network(message), expected, "{message}");
        }
    }
}
