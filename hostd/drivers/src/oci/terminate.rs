//! Ends the processes of a sandbox and clears what a dead one left. Nothing here assumes that an earlier try
//! got anywhere.

use super::{
    super::DriverError,
    driver::OciInner,
    files::{self, failed},
    init_exit::{poll_until, terminate_init},
    inspect::is_launching,
    launch::find_init,
    layout::SandboxDir,
    limits::{CGROUP_REMOVE_MAX_MS, KILL_MAX_MS},
    remove_tree,
};
use crate::local::local_driver::LocalDriver;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use protocol::api::SandboxId;

impl OciInner {
    pub async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        let (dir, group) = (self.dir(sandbox), self.cgroup(sandbox));
        let launching = dir.path().exists() && is_launching(&dir)?;
        if find_init(&dir, &group)?.is_none() {
            self.refuse_other_namespace(sandbox, launching)?;
        }
        if group.exists() {
            self.thaw(sandbox)?;
        }
        if launching {
            self.end_launch(&dir, sandbox).await?;
        }
        if let Some(init) = find_init(&dir, &group)? {
            // The kernel kills all other processes when PID 1 exits.
            return terminate_init(&init, grace_ms).await;
        }
        // Processes of a launch that did not get as far as PID 1.
        if poll_until(KILL_MAX_MS, || Ok(group.kill_all())).await? {
            return Ok(());
        }
        Err(DriverError::TimedOut { what: "killing the sandbox", after_ms: KILL_MAX_MS })
    }

    /// Kills the runtime that holds the launch lock, and what it started.
    async fn end_launch(&self, dir: &SandboxDir, sandbox: &SandboxId) -> Result<(), DriverError> {
        let group = self.cgroup(sandbox);
        let ended = poll_until(KILL_MAX_MS, || {
            let holder = files::read_text(&dir.lock(), 4096).unwrap_or_default();
            // The launcher leads its own process group, and its pid is in the lock file.
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

    /// Removes leftovers without the runtime: its state is one directory, and the groups are ours. (`runc
    /// delete` sleeps 100 ms even when the container is gone.)
    pub async fn clean_up(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let (dir, group) = (self.dir(sandbox), self.cgroup(sandbox));
        self.dialer.forget(sandbox);
        self.oom_kills_seen().remove(sandbox);
        self.exit_statuses().remove(sandbox);
        if let Some(init) = find_init(&dir, &group)? {
            let message = format!("sandbox {sandbox} runs: PID 1 is {}", init.pid);
            return Err(DriverError::Failed { message, output: vec![] });
        }
        self.refuse_other_namespace(sandbox, false)?;
        let removed = poll_until(CGROUP_REMOVE_MAX_MS, || {
            group.kill_all();
            group.remove().map_err(failed("remove the control groups"))
        });
        if !removed.await? {
            let what = "removing the control groups";
            return Err(DriverError::TimedOut { what, after_ms: CGROUP_REMOVE_MAX_MS });
        }
        remove_tree::remove_tree(&self.layout.state(sandbox))
            .map_err(failed("remove the state of the runtime"))?;
        files::remove_file(&dir.pid()).map_err(failed("remove the pid file"))
    }
}
