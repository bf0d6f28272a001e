//! Freezes, ends and removes sandboxes. Nothing here trusts that the last try got anywhere.

use super::{
    super::{ContainerState, DriverError},
    bring_up::find,
    death::is_launching,
    driver::Inner,
    ending::{end, until},
    files::{self, failed},
    layout::SandboxDir,
    limits::{CGROUP_REMOVE_MAX_MS, FREEZE_MAX_MS, KILL_MAX_MS},
    tree, workspace,
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use protocol::api::SandboxId;
use std::sync::Arc;

impl Inner {
    pub async fn freeze(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let group = self.group(sandbox);
        group.freeze(true).map_err(failed("freeze the sandbox"))?;
        if until(FREEZE_MAX_MS, || Ok(group.is_frozen())).await? {
            return Ok(());
        }
        // Half frozen is worse than not.
        group.freeze(false).map_err(failed("thaw the sandbox"))?;
        Err(DriverError::TimedOut { what: "freezing the sandbox", after_ms: FREEZE_MAX_MS })
    }

    pub fn thaw(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.group(sandbox).freeze(false).map_err(failed("thaw the sandbox"))
    }

    pub async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        let (dir, group) = (self.dir(sandbox), self.group(sandbox));
        let launching = dir.path().exists() && is_launching(&dir)?;
        if find(&dir, &group)?.is_none() {
            self.refuse_elsewhere(sandbox, launching)?;
        }
        if group.exists() {
            self.thaw(sandbox)?;
        }
        if launching {
            self.end_launch(&dir, sandbox).await?;
        }
        if let Some(init) = find(&dir, &group)? {
            // With PID 1 the kernel ends all.
            return end(&init, grace_ms).await;
        }
        // What never got that far.
        if until(KILL_MAX_MS, || Ok(group.kill_all())).await? {
            return Ok(());
        }
        Err(DriverError::TimedOut { what: "killing the sandbox", after_ms: KILL_MAX_MS })
    }

    /// Kills the runtime that holds the launch lock, and what it started.
    async fn end_launch(&self, dir: &SandboxDir, sandbox: &SandboxId) -> Result<(), DriverError> {
        let group = self.group(sandbox);
        let ended = until(KILL_MAX_MS, || {
            let holder = files::read_text(&dir.lock(), 4096).unwrap_or_default();
            // The launcher leads its own group, and wrote who it is.
            let holder = holder.lines().next().and_then(|line| line.parse::<i32>().ok());
            if let Some(pid) = holder.filter(|pid| *pid > 1) {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
            }
            group.kill_all();
            is_launching(dir).map(|launching| !launching)
        });
        if ended.await? {
            return Ok(());
        }
        Err(DriverError::TimedOut { what: "ending the launch", after_ms: KILL_MAX_MS })
    }

    /// The runtime is not asked: what it keeps is one directory, and its groups are ours. (`runc delete`
    /// waits 100 ms for what is over already.)
    pub async fn remove_container(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (dir, group) = (self.dir(sandbox), self.group(sandbox));
        self.reach.forget(sandbox);
        self.oom_seen().remove(sandbox);
        self.ended().remove(sandbox);
        if let Some(init) = find(&dir, &group)? {
            let message = format!("sandbox {sandbox} runs: PID 1 is {}", init.pid);
            return Err(DriverError::Failed { message, output: vec![] });
        }
        self.refuse_elsewhere(sandbox, false)?;
        let removed = until(CGROUP_REMOVE_MAX_MS, || {
            group.kill_all();
            group.remove().map_err(failed("remove the control groups"))
        });
        if !removed.await? {
            let what = "removing the control groups";
            return Err(DriverError::TimedOut { what, after_ms: CGROUP_REMOVE_MAX_MS });
        }
        tree::remove(&self.layout.state(sandbox)).map_err(failed("remove what the runtime kept"))?;
        files::remove_file(&dir.pid()).map_err(failed("remove the pid file"))
    }

    pub async fn destroy(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        // What is not ours is not touched: its badge says so.
        let kept = self.kept(sandbox)?;
        match self.inspect(sandbox)? {
            ContainerState::Running { .. } | ContainerState::Launching => self.terminate(sandbox, 0).await?,
            ContainerState::OtherPidNamespace => {
                return Err(DriverError::OtherPidNamespace { sandbox: *sandbox });
            }
            ContainerState::Absent | ContainerState::Dead(_) => {}
        }
        self.remove_container(sandbox).await?;
        self.discard(sandbox, keep_workspace).await?;
        if let Some(kept) = kept {
            self.ranges.release(kept.uid_base);
        }
        Ok(())
    }

    /// Removes one without a look at its badge.
    pub async fn scrap(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.terminate(sandbox, 0).await?;
        self.remove_container(sandbox).await?;
        self.discard(sandbox, false).await
    }

    async fn discard(self: &Arc<Self>, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        let id = *sandbox;
        self.blocking(move |inner| workspace::remove_files(&inner.layout, &id, keep_workspace)).await
    }

    pub async fn reset_workspace(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.refuse_elsewhere(sandbox, false)?;
        if matches!(self.inspect(sandbox)?, ContainerState::Running { .. } | ContainerState::Launching) {
            let message = format!("sandbox {sandbox} runs: stop it first");
            return Err(DriverError::Failed { message, output: vec![] });
        }
        let id = *sandbox;
        self.blocking(move |inner| workspace::reset(&inner.layout, &id)).await
    }
}
