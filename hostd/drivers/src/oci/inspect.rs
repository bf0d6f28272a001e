//! Inspects a sandbox: launching, running, dead or absent, and how it died.

use super::{
    super::{ContainerState, DriverError},
    driver::OciInner,
    files::failed,
    init::Init,
    init_exit::{shut_down_cleanly, stdio_lines, wait_for_exit_status},
    launch::{find_init, handle, open_lock},
    layout::SandboxDir,
};
use crate::local::local_driver::LocalDriver;
use hostd_core::Death;
use protocol::api::{DeathCause, SandboxId};
use std::{
    collections::HashMap,
    fs::TryLockError,
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
    sync::{MutexGuard, PoisonError},
};

impl OciInner {
    pub fn inspect(&self, sandbox: &SandboxId) -> Result<ContainerState, DriverError> {
        let dir = self.dir(sandbox);
        if !dir.path().exists() {
            return Ok(self.leftovers(sandbox));
        }
        let record = self.read_badge(sandbox)?;
        if is_launching(&dir)? {
            let elsewhere = self.is_in_other_namespace(sandbox, record.as_ref(), true);
            return Ok(if elsewhere { ContainerState::OtherPidNamespace } else { ContainerState::Launching });
        }
        let group = self.cgroup(sandbox);
        match (find_init(&dir, &group)?, record) {
            (Some(init), Some(record)) => {
                let kills = group.stats().map_or(0, |stats| stats.oom_kills);
                self.oom_kills_seen().insert(*sandbox, kills);
                Ok(ContainerState::Running {
                    frozen: group.is_frozen(),
                    handle: handle(&init, record.uid_base),
                })
            }
            (Some(_), None) => {
                Err(DriverError::Damaged { message: format!("sandbox {sandbox} runs, but has no badge") })
            }
            (None, record) if self.is_in_other_namespace(sandbox, record.as_ref(), false) => {
                Ok(ContainerState::OtherPidNamespace)
            }
            (None, _) => Ok(self.leftovers(sandbox)),
        }
    }

    /// Classifies a sandbox that does not run by what it left.
    pub fn leftovers(&self, sandbox: &SandboxId) -> ContainerState {
        let (dir, group) = (self.dir(sandbox), self.cgroup(sandbox));
        let left = dir.pid().exists() || self.layout.state(sandbox).exists() || group.exists();
        if !left {
            return ContainerState::Absent;
        }
        let in_order = shut_down_cleanly(&dir);
        // An OOM kill since PID 1 was last seen alive explains its end: no other cause is known.
        let seen = self.oom_kills_seen().get(sandbox).copied().unwrap_or(0);
        let stats = group.stats().ok();
        let oom_kills = stats.as_ref().map_or(0, |stats| stats.oom_kills);
        let ended = self.exit_statuses().get(sandbox).copied().map(ExitStatus::from_raw);
        let (exit_code, signal) = (ended.and_then(|how| how.code()), ended.and_then(|how| how.signal()));
        let cause = match (exit_code, signal) {
            _ if in_order => DeathCause::ShutDown,
            _ if oom_kills > seen => DeathCause::Oom,
            (_, Some(_)) => DeathCause::Killed,
            (Some(_), None) => DeathCause::Exited,
            // Only hostd removes groups, and then the pid file goes too: the host was rebooted.
            (None, None) if !group.exists() => DeathCause::Backend,
            (None, None) => DeathCause::Unknown,
        };
        ContainerState::Dead(Death {
            cause,
            exit_code,
            signal,
            memory_peak_bytes: stats.as_ref().map(|stats| stats.memory_peak_bytes),
            memory_limit_bytes: stats.as_ref().map(|stats| stats.memory_limit_bytes),
            oom_kills,
            pids_limit_hits: stats.map_or(0, |stats| stats.pids_limit_hits),
            last_lines: stdio_lines(&dir),
        })
    }

    /// Wait statuses of PID 1s whose exit was waited for.
    pub fn exit_statuses(&self) -> MutexGuard<'_, HashMap<SandboxId, i32>> {
        self.exit_statuses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn oom_kills_seen(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.oom_kills_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn died(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match find_init(&self.dir(sandbox), &self.cgroup(sandbox))? {
            Some(init) => self.wait_for_exit(sandbox, init).await,
            None => Ok(()),
        }
    }

    pub async fn changed(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        match find_init(&self.dir(sandbox), &self.cgroup(sandbox))? {
            Some(init) => self.wait_for_exit(sandbox, init).await,
            // Ended since the last inspect.
            None if self.oom_kills_seen().contains_key(sandbox) => Ok(()),
            // Only hostd starts sandboxes here.
            None => std::future::pending().await,
        }
    }

    async fn wait_for_exit(&self, sandbox: &SandboxId, init: Init) -> Result<(), DriverError> {
        if let Some(status) = wait_for_exit_status(init).await? {
            self.exit_statuses().insert(*sandbox, status);
        }
        Ok(())
    }
}

/// Whether a runtime is launching this sandbox, perhaps for an earlier hostd.
pub fn is_launching(dir: &SandboxDir) -> Result<bool, DriverError> {
    if !dir.lock().exists() {
        return Ok(false);
    }
    let lock = open_lock(dir).map_err(failed("open the launch lock"))?;
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(failed("inspect the launch lock")(error)),
    }
}
