//! Freezes, ends and removes sandboxes. Nothing here trusts that the last try got anywhere.

use super::{
    super::{DriverError, Sight},
    bring_up::find,
    death::{is_launching, wait_for_end},
    driver::Inner,
    files::{self, failed},
    init::Init,
    kernel::{has_ended, pidfd_signal},
    layout::SandboxDir,
    limits::{CGROUP_REMOVE_MAX_MS, FREEZE_MAX_MS, KILL_MAX_MS, POLL_MS, TERM_EVERY_MS, TERM_FIRST_MS},
    tree,
};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use protocol::api::SandboxId;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

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
        if group.exists() {
            self.thaw(sandbox)?;
        }
        if dir.path().exists() && is_launching(&dir)? {
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
    pub async fn clear(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (dir, group) = (self.dir(sandbox), self.group(sandbox));
        self.forget(sandbox);
        self.oom_seen().remove(sandbox);
        if let Some(init) = find(&dir, &group)? {
            let message = format!("sandbox {sandbox} runs: PID 1 is {}", init.pid);
            return Err(DriverError::Failed { message, output: vec![] });
        }
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

    pub async fn erase(
        self: &Arc<Self>,
        sandbox: &SandboxId,
        keep_workspace: bool,
    ) -> Result<(), DriverError> {
        // What is not ours is not touched: its badge says so.
        let kept = self.kept(sandbox)?;
        if matches!(self.look(sandbox)?, Sight::Running { .. } | Sight::Launching) {
            self.terminate(sandbox, 0).await?;
        }
        self.clear(sandbox).await?;
        self.discard(sandbox, keep_workspace).await?;
        if let Some(kept) = kept {
            self.ranges.release(kept.uid_base);
        }
        Ok(())
    }

    /// Removes one without a look at its badge.
    pub async fn scrap(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        self.terminate(sandbox, 0).await?;
        self.clear(sandbox).await?;
        self.discard(sandbox, false).await
    }

    async fn discard(self: &Arc<Self>, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        let id = *sandbox;
        self.blocking(move |inner| inner.remove_files(&id, keep_workspace)).await
    }

    /// The workspace first: as long as the badge is there, the rest is found again.
    fn remove_files(&self, sandbox: &SandboxId, keep_workspace: bool) -> Result<(), DriverError> {
        let workspace = self.layout.workspace(sandbox);
        let dir = self.dir(sandbox);
        let workspace = (!keep_workspace).then_some(workspace.as_path());
        for path in workspace.into_iter().chain([dir.path()]) {
            let gone = tree::discard(path, &self.layout.trash()).map_err(failed("remove the sandbox"))?;
            if let Some(gone) = gone {
                tree::remove(&gone).map_err(failed("remove the sandbox"))?;
            }
        }
        Ok(())
    }

    pub async fn reset_workspace(self: &Arc<Self>, sandbox: &SandboxId) -> Result<(), DriverError> {
        if matches!(self.look(sandbox)?, Sight::Running { .. } | Sight::Launching) {
            let message = format!("sandbox {sandbox} runs: stop it first");
            return Err(DriverError::Failed { message, output: vec![] });
        }
        let id = *sandbox;
        self.blocking(move |inner| {
            let (workspace, trash) = (inner.layout.workspace(&id), inner.layout.trash());
            let gone = tree::discard(&workspace, &trash).map_err(failed("empty the workspace"))?;
            inner.make_workspace(&id)?;
            gone.map_or(Ok(()), |gone| tree::remove(&gone)).map_err(failed("empty the workspace"))
        })
        .await
    }
}

/// Asks PID 1 to end, again and again: until it is ready to hear a signal, it loses it. Then kills it.
async fn end(init: &Init, grace_ms: u64) -> Result<(), DriverError> {
    let copy = || init.pidfd.try_clone().map_err(failed("watch PID 1"));
    let deadline = Instant::now() + Duration::from_millis(grace_ms);
    let mut pause = Duration::from_millis(TERM_FIRST_MS);
    while Instant::now() < deadline && !has_ended(&init.pidfd) {
        pidfd_signal(&init.pidfd, Signal::SIGTERM).map_err(failed("ask PID 1 to end"))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let watched = Init { pidfd: copy()?, ..*init };
        // A wait that was cut off is begun again.
        let _ = timeout(left.min(pause), wait_for_end(watched)).await;
        pause = (pause * 2).min(Duration::from_millis(TERM_EVERY_MS));
    }
    if has_ended(&init.pidfd) {
        return Ok(());
    }
    pidfd_signal(&init.pidfd, Signal::SIGKILL).map_err(failed("kill PID 1"))?;
    let watched = Init { pidfd: copy()?, ..*init };
    match timeout(Duration::from_millis(KILL_MAX_MS), wait_for_end(watched)).await {
        Ok(ended) => ended,
        Err(_) => Err(DriverError::TimedOut { what: "killing PID 1", after_ms: KILL_MAX_MS }),
    }
}

/// Tries until it is so, for a limited time; whether it came to be so.
async fn until(max_ms: u64, mut so: impl FnMut() -> Result<bool, DriverError>) -> Result<bool, DriverError> {
    let deadline = Instant::now() + Duration::from_millis(max_ms);
    let mut wait = Duration::from_micros(100);
    while !so()? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        sleep(wait).await;
        wait = (wait * 2).min(Duration::from_millis(POLL_MS));
    }
    Ok(true)
}
