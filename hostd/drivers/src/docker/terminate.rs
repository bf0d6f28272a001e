//! Ends the PID 1 of a sandbox and clears what a dead one left. Nothing here assumes that an earlier try got
//! anywhere, and what the kernel can do is not left to the engine.

use super::{
    super::{
        DriverError,
        local::{
            files::{self, failed},
            init::Init,
            init_exit::terminate_init,
        },
    },
    classify_state::{RunState, classify},
    driver::DockerInner,
    limits::LAUNCH_LOCK_WAIT_MAX_MS,
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;
use std::time::Duration;
use tokio::time::timeout;

impl DockerInner {
    pub async fn terminate(&self, sandbox: &SandboxId, grace_ms: u64) -> Result<(), DriverError> {
        // Wait for a launch in progress. One that hangs does so in the engine; what it still starts is found
        // by a later inspect.
        let waited =
            timeout(Duration::from_millis(LAUNCH_LOCK_WAIT_MAX_MS), self.launch_locks.lock(*sandbox)).await;
        if waited.is_err() {
            tracing::warn!(%sandbox, "launch did not finish in time; terminating the sandbox anyway");
        }
        let dir = self.dir(sandbox);
        let Some(mut run) = RunRecord::read(&dir)? else { return Ok(()) };
        let init = match self.init_of(&dir, &run)? {
            Some(init) => init,
            None => match self.adopt_unseen_run(sandbox, &mut run).await? {
                Some(init) => init,
                None => return Ok(()),
            },
        };
        self.thaw_for_termination(&init, &run).await?;
        // The kernel kills all other processes when PID 1 exits.
        terminate_init(&init, grace_ms).await?;
        self.dialer.forget(sandbox);
        self.last_inspects.forget(sandbox);
        // The cause of this exit is known: hostd ended it.
        run.cleared_start = run.observed_start.clone();
        run.write(&dir).map(drop)
    }

    /// Finds PID 1 of a run whose start hostd did not observe.
    async fn adopt_unseen_run(
        &self,
        sandbox: &SandboxId,
        run: &mut RunRecord,
    ) -> Result<Option<Init>, DriverError> {
        let found = self.cache.refresh(&self.name(sandbox)).await?;
        let Some(found) = found.filter(|found| self.is_ours(sandbox, run, found)) else { return Ok(None) };
        match classify(run, Some(&found.state)) {
            RunState::Alive if self.runs_in_other_namespace(sandbox, &found)? => {
                Err(DriverError::OtherPidNamespace { sandbox: *sandbox })
            }
            RunState::Alive => self.adopt(sandbox, run, &found).await,
            RunState::Absent | RunState::Dead | RunState::Removed => Ok(None),
        }
    }

    /// Marks the last run as handled. The container stays for the next start.
    pub fn clear(&self, sandbox: &SandboxId) -> Result<(), DriverError> {
        let dir = self.dir(sandbox);
        self.dialer.forget(sandbox);
        let Some(mut run) = RunRecord::read(&dir)? else { return Ok(()) };
        if let Some(init) = self.init_of(&dir, &run)? {
            let message = format!("sandbox {sandbox} runs: PID 1 is {}", init.pid);
            return Err(DriverError::Failed { message, output: vec![] });
        }
        run.cleared_start = run.observed_start.clone();
        run.write(&dir)?;
        self.last_inspects.forget(sandbox);
        files::remove_file(&dir.pid()).map_err(failed("remove the pid file"))
    }
}
