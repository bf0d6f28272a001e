//! Removes a sandbox with its container, network and files; empties its workspace; removes containers that an engine
//! created after their sandbox was destroyed.

use super::{
    super::{ContainerState, DriverError, local::init_exit::terminate_init},
    classify_state::{ContainerPhase, container_phase},
    container_cache::labels_of,
    driver::DockerInner,
    engine::InspectedContainer,
    labels,
    limits::LAUNCH_LOCK_WAIT_MAX_MS,
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::{Network, SandboxId};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

impl DockerInner {
    pub async fn destroy(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        // A badge that is not authentic means that the sandbox is not ours: do not touch it.
        self.read_badge(sandbox)?;
        self.destroy_unchecked(sandbox, keep_workspace).await
    }

    /// Removes a sandbox without checking its badge. The container goes first: as long as it exists, so does
    /// the record that identifies it.
    pub async fn destroy_unchecked(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        let _lock =
            timeout(Duration::from_millis(LAUNCH_LOCK_WAIT_MAX_MS), self.launch_locks.lock(*sandbox)).await;
        let dir = self.dir(sandbox);
        let run = RunRecord::read(&dir)?;
        // An unreadable badge does not prove that there was no network.
        let had_network = self
            .read_badge(sandbox)
            .map_or(true, |record| record.is_some_and(|record| record.blueprint.network == Network::Open));
        if let Some(run) = &run {
            if let Some(init) = self.init_of(&dir, run)? {
                self.thaw_for_termination(&init, run).await?;
                terminate_init(&init, 0).await?;
            }
            self.dialer.forget(sandbox);
            self.remove_container(sandbox, run).await?;
            self.destroyed.remember(&run.nonce, run.container.is_none())?;
        }
        if had_network {
            self.networks.release(sandbox).await?;
        }
        self.last_inspects.forget(sandbox);
        let id = *sandbox;
        self.spawn_blocking(move |inner| inner.workspaces().remove_files(&id, keep_workspace)).await
    }

    async fn remove_container(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        run: &RunRecord,
    ) -> Result<(), DriverError> {
        let ours = |found: &InspectedContainer| {
            self.is_ours(sandbox, run, found) || self.was_ours_before(sandbox, run, found)
        };
        let found = self.cache.refresh(&self.name(sandbox)).await?;
        let Some(found) = found.filter(ours) else { return Ok(()) };
        if container_phase(&found.state) == ContainerPhase::Running
            && self.runs_in_other_namespace(sandbox, &found)?
        {
            return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
        }
        if container_phase(&found.state) == ContainerPhase::Created {
            self.kill_strays(&found.id).await?;
        }
        self.remove_by_id(&found.id).await
    }

    pub async fn reset_workspace(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        if matches!(self.inspect(sandbox).await?, ContainerState::Running { .. } | ContainerState::Launching)
        {
            let message = format!("sandbox {sandbox} runs: stop it first");
            return Err(DriverError::Failed { message, output: vec![] });
        }
        let id = *sandbox;
        self.spawn_blocking(move |inner| inner.renew_workspace(&id)).await
    }

    /// Removes containers that the engine created after their sandbox was destroyed, for a create request that
    /// was still pending.
    pub fn remove_destroyed(self: &Arc<Self>) {
        self.cache.all().into_iter().for_each(|container| self.remove_if_destroyed(container));
    }

    pub fn remove_if_destroyed(self: &Arc<Self>, container: InspectedContainer) {
        if !self.belongs_to_destroyed(&container) {
            return;
        }
        let inner = Arc::clone(self);
        // Bounded by the deadlines of the engine client; a failure is retried after the next event.
        tokio::spawn(async move {
            let removed = inner.engine.remove(&container.id).await;
            let gone = removed.is_ok() && inner.cache.refresh(&container.id).await.is_ok();
            tracing::info!(
                container = container.name,
                gone,
                "removed a container that was created after its sandbox was destroyed"
            );
        });
    }

    fn belongs_to_destroyed(&self, container: &InspectedContainer) -> bool {
        let claim = labels::read(&self.signer, &container.name, labels_of(container));
        claim.is_ok_and(|claim| self.destroyed.contains(&claim.nonce))
    }
}
