//! Changes the limits of a sandbox that runs or is frozen: through the engine, so that the engine knows of it, and by
//! the control groups where the engine has no such verb.

use super::{
    super::{
        DriverError,
        local::{blueprint_checks::check_limits, cgroup::Cgroup},
    },
    container_config::resources,
    driver::DockerInner,
    engine::EngineError,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::{Limits, SandboxId};
use std::sync::Arc;

impl DockerInner {
    pub async fn resize(self: &Arc<Self>, sandbox: &SandboxId, limits: &Limits) -> Result<(), DriverError> {
        check_limits(limits)?;
        let (inner, id, limits) = (Arc::clone(self), *sandbox, limits.clone());
        self.resizes.run(id, async move { inner.resize_now(id, limits).await }).await
    }

    async fn resize_now(self: &Arc<Self>, id: SandboxId, limits: Limits) -> Result<(), DriverError> {
        let group = self.group_of_running(&id)?;
        let (first, wanted) = (group.clone(), limits.clone());
        // By the control groups first: they refuse as one, and say why.
        self.spawn_blocking(move |inner| inner.resize_group(&first, &wanted)).await?;
        self.tell_engine(&id, &limits, &group).await?;
        self.spawn_blocking(move |inner| inner.record_limits(&id, &limits)).await
    }

    /// Tells the engine of limits that are in force. An engine without such a verb goes on with what it knew.
    async fn tell_engine(
        &self,
        sandbox: &SandboxId,
        limits: &Limits,
        group: &Cgroup,
    ) -> Result<(), DriverError> {
        let (_, container) = self.running_init(sandbox)?;
        match self.engine.update(&container, &resources(limits)).await {
            Ok(()) => {}
            Err(error @ (EngineError::Unreachable { .. } | EngineError::TimedOut { .. })) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::debug!(%sandbox, %error, "the container engine does not update limits");
            }
        }
        // Whatever the engine did in between, the limits are as they were asked for.
        self.resize_group(group, limits)
    }

    fn group_of_running(&self, sandbox: &SandboxId) -> Result<Cgroup, DriverError> {
        let (init, container) = self.running_init(sandbox)?;
        self.cgroup(&init, &container)?.ok_or_else(|| {
            let message = format!("sandbox {sandbox} does not run");
            DriverError::Failed { message, output: vec![] }
        })
    }
}
