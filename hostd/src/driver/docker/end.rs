//! Freezes, ends and removes sandboxes. Nothing here trusts that the last try got anywhere, and what the
//! kernel can do is not left to the engine.

use super::{
    super::{
        ContainerState, DriverError,
        local::{
            cgroup::Group,
            ending::{end, until},
            files::{self, failed},
            init::Init,
            limits::FREEZE_MAX_MS,
            workspace,
        },
    },
    driver::Inner,
    engine::Inspected,
    labels,
    limits::{LAUNCH_END_MAX_MS, THAW_ENGINE_MAX_MS},
    meaning::{Meaning, Phase, meaning, phase},
    mirror::labels_of,
    run::Run,
};
use protocol::api::{Network, SandboxId};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

impl Inner {
    /// By the engine, so that it knows: it could not end what it does not know to be frozen.
    pub async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (init, container) = self.alive(sandbox)?;
        let Some(group) = self.group(&init, &container)? else { return Err(not_running(sandbox)) };
        self.engine.pause(&container).await?;
        if group.is_frozen() {
            return Ok(());
        }
        // It may take it for frozen already, since it was thawed while the engine was away.
        self.engine.unpause(&container).await?;
        self.engine.pause(&container).await?;
        if until(FREEZE_MAX_MS, || Ok(group.is_frozen())).await? {
            return Ok(());
        }
        // Half frozen is worse than not.
        self.engine.unpause(&container).await?;
        Err(DriverError::TimedOut { what: "freezing the sandbox", after_ms: FREEZE_MAX_MS })
    }

    pub async fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (init, container) = self.alive(sandbox)?;
        match self.group(&init, &container)? {
            Some(group) => self.thaw_by(&group, &container).await,
            None => Err(not_running(sandbox)),
        }
    }

    /// By the engine if it answers, else without it.
    async fn thaw_by(&self, group: &Group, container: &str) -> Result<(), DriverError> {
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
            group.freeze(false).map_err(failed("thaw the sandbox"))?;
        }
        Ok(())
    }

    /// What is frozen cannot end.
    async fn thaw_to_end(&self, init: &Init, run: &Run) -> Result<(), DriverError> {
        let Some(container) = &run.container else { return Ok(()) };
        match self.group(init, container)? {
            Some(group) => self.thaw_by(&group, container).await,
            None => Ok(()),
        }
    }

    fn alive(&self, sandbox: &SandboxId) -> Result<(Init, String), DriverError> {
        let dir = self.dir(sandbox);
        if let Some(run) = Run::read(&dir)?
            && let Some(init) = self.init_of(&dir, &run)?
            && let Some(container) = run.container
        {
            return Ok((init, container));
        }
        Err(not_running(sandbox))
    }

    pub async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        // A launch that is under way comes to its end first; one that hangs does so with the engine, and what
        // it brings up after all is found by a look.
        let waited = timeout(Duration::from_millis(LAUNCH_END_MAX_MS), self.turns.take(sandbox)).await;
        if waited.is_err() {
            tracing::warn!(%sandbox, "a launch hangs while its sandbox is ended");
        }
        let dir = self.dir(sandbox);
        let Some(mut run) = Run::read(&dir)? else { return Ok(()) };
        let init = match self.init_of(&dir, &run)? {
            Some(init) => init,
            None => match self.started_behind(sandbox, &mut run).await? {
                Some(init) => init,
                None => return Ok(()),
            },
        };
        self.thaw_to_end(&init, &run).await?;
        // With PID 1 the kernel ends all.
        end(&init, grace_ms).await?;
        self.reach.forget(sandbox);
        self.notes.forget(sandbox);
        // How it ended is known: we did it.
        run.cleared = run.seen.clone();
        run.write(&dir).map(drop)
    }

    /// PID 1 of a run that we did not see begin.
    async fn started_behind(&self, sandbox: &SandboxId, run: &mut Run) -> Result<Option<Init>, DriverError> {
        let found = self.mirror.ask(&self.name(sandbox)).await?;
        let Some(found) = found.filter(|found| self.is_ours(sandbox, run, found)) else { return Ok(None) };
        match meaning(run, Some(&found.state)) {
            Meaning::Alive if self.is_elsewhere(sandbox, &found)? => {
                Err(DriverError::OtherPidNamespace { sandbox: *sandbox })
            }
            Meaning::Alive => self.adopt(sandbox, run, &found).await,
            Meaning::Absent | Meaning::Dead | Meaning::Removed => Ok(None),
        }
    }

    /// The container stays for the next start; that it ended is not told again.
    pub fn clear(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let dir = self.dir(sandbox);
        self.reach.forget(sandbox);
        let Some(mut run) = Run::read(&dir)? else { return Ok(()) };
        if let Some(init) = self.init_of(&dir, &run)? {
            let message = format!("sandbox {sandbox} runs: PID 1 is {}", init.pid);
            return Err(DriverError::Failed { message, output: vec![] });
        }
        run.cleared = run.seen.clone();
        run.write(&dir)?;
        self.notes.forget(sandbox);
        files::remove_file(&dir.pid()).map_err(failed("remove the pid file"))
    }

    pub async fn destroy(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        // What is not ours is not touched: its badge says so.
        self.kept(sandbox)?;
        self.scrap(sandbox, keep_workspace).await
    }

    /// Removes one without a look at its badge. The container first: as long as it is there, so is what it
    /// is known by.
    pub async fn scrap(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        let _turn = timeout(Duration::from_millis(LAUNCH_END_MAX_MS), self.turns.take(sandbox)).await;
        let dir = self.dir(sandbox);
        let run = Run::read(&dir)?;
        // A badge that cannot be read does not say that it had none.
        let had_network = self
            .kept(sandbox)
            .map_or(true, |kept| kept.is_some_and(|kept| kept.blueprint.network == Network::Open));
        if let Some(run) = &run {
            if let Some(init) = self.init_of(&dir, run)? {
                self.thaw_to_end(&init, run).await?;
                end(&init, 0).await?;
            }
            self.reach.forget(sandbox);
            self.remove_container(sandbox, run).await?;
            self.erased.remember(&run.nonce, run.container.is_none())?;
        }
        if had_network {
            self.networks.release(sandbox).await?;
        }
        self.notes.forget(sandbox);
        let id = *sandbox;
        self.blocking(move |inner| workspace::remove_files(&inner.layout, &id, keep_workspace)).await
    }

    async fn remove_container(self: &Arc<Self>, sandbox: &SandboxId, run: &Run) -> Result<(), DriverError> {
        let ours =
            |found: &Inspected| self.is_ours(sandbox, run, found) || self.was_ours(sandbox, run, found);
        let found = self.mirror.ask(&self.name(sandbox)).await?;
        let Some(found) = found.filter(ours) else { return Ok(()) };
        if phase(&found.state) == Phase::Up && self.is_elsewhere(sandbox, &found)? {
            return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
        }
        if phase(&found.state) == Phase::New {
            self.end_strays(&found.id).await?;
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
        self.blocking(move |inner| workspace::reset(&inner.layout, &id)).await
    }

    /// Removes what an engine made after its sandbox was removed: it had been asked before, and was slow.
    pub fn sweep(self: &Arc<Self>) {
        self.mirror.all().into_iter().for_each(|container| self.sweep_one(container));
    }

    pub fn sweep_one(self: &Arc<Self>, container: Inspected) {
        if !self.is_left_over(&container) {
            return;
        }
        let inner = Arc::clone(self);
        // Bounded by the engine's deadlines; what is not done is tried after the next event.
        tokio::spawn(async move {
            let removed = inner.engine.remove(&container.id).await;
            let gone = removed.is_ok() && inner.mirror.ask(&container.id).await.is_ok();
            tracing::info!(container = container.name, gone, "a container came after its sandbox went");
        });
    }

    fn is_left_over(&self, container: &Inspected) -> bool {
        let claim = labels::read(&self.sealer, &container.name, labels_of(container));
        claim.is_ok_and(|claim| self.erased.has(&claim.nonce))
    }
}

fn not_running(sandbox: &SandboxId) -> DriverError {
    DriverError::Failed { message: format!("sandbox {sandbox} does not run"), output: vec![] }
}
