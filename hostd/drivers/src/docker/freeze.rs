//! Freezes and thaws a sandbox: through the engine, so that the engine knows of it, and without the engine where
//! it does not answer.

use super::{
    super::{
        DriverError,
        local::{cgroup::Cgroup, files::failed, init::Init, init_exit::poll_until, limits::FREEZE_MAX_MS},
    },
    driver::DockerInner,
    limits::THAW_ENGINE_MAX_MS,
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;
use std::time::Duration;
use tokio::time::timeout;

impl DockerInner {
    /// Freezes through the engine, which could otherwise not stop a container that it does not know to be
    /// frozen.
    pub async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (init, container) = self.running_init(sandbox)?;
        let Some(group) = self.cgroup(&init, &container)? else { return Err(not_running(sandbox)) };
        self.engine.pause(&container).await?;
        if group.is_frozen() {
            return Ok(());
        }
        // The engine may believe that the container is paused already, if it was thawed while the engine was
        // unreachable.
        self.engine.unpause(&container).await?;
        self.engine.pause(&container).await?;
        if poll_until(FREEZE_MAX_MS, || Ok(group.is_frozen())).await? {
            return Ok(());
        }
        // A sandbox that is frozen in part is worse than a running one.
        self.engine.unpause(&container).await?;
        Err(DriverError::TimedOut { what: "freezing the sandbox", after_ms: FREEZE_MAX_MS })
    }

    pub async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (init, container) = self.running_init(sandbox)?;
        match self.cgroup(&init, &container)? {
            Some(group) => self.thaw_container(&group, &container).await,
            None => Err(not_running(sandbox)),
        }
    }

    /// Thaws through the engine if it answers, else by the control group.
    async fn thaw_container(&self, group: &Cgroup, container: &str) -> Result<(), DriverError> {
        if !group.is_frozen() {
            return Ok(());
        }
        let limit = Duration::from_millis(THAW_ENGINE_MAX_MS);
        match timeout(limit, self.engine.unpause(container)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(container, %error, "thawed without the container engine"),
            Err(_) => tracing::warn!(container, "thawed without the container engine: it does not answer"),
        }
        if group.is_frozen() {
            group.set_frozen(false).map_err(failed("thaw the sandbox"))?;
        }
        Ok(())
    }

    /// Thaws before termination: a frozen process cannot exit.
    pub(super) async fn thaw_for_termination(&self, init: &Init, run: &RunRecord) -> Result<(), DriverError> {
        let Some(container) = &run.container else { return Ok(()) };
        match self.cgroup(init, container)? {
            Some(group) => self.thaw_container(&group, container).await,
            None => Ok(()),
        }
    }

    pub(super) fn running_init(&self, sandbox: &SandboxId) -> Result<(Init, String), DriverError> {
        let dir = self.dir(sandbox);
        if let Some(run) = RunRecord::read(&dir)?
            && let Some(init) = self.init_of(&dir, &run)?
            && let Some(container) = run.container
        {
            return Ok((init, container));
        }
        Err(not_running(sandbox))
    }
}

fn not_running(sandbox: &SandboxId) -> DriverError {
    DriverError::Failed { message: format!("sandbox {sandbox} does not run"), output: vec![] }
}
