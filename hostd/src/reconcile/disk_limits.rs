//! Keeps the disk limits of sandboxes for which the kernel does not: workspaces are measured, and a sandbox that grew
//! past its limit is evicted.

use super::{Fleet, FleetError, SandboxCommand, sandbox_command::EvictionCause};
use hostd_core::DiskLimitWatch;
use protocol::api::{Problem, ProblemCode, SandboxId};
use std::collections::HashMap;
use tracing::{debug, warn};

/// The measures of each sandbox that is up.
pub(super) type DiskLimitWatches = HashMap<SandboxId, DiskLimitWatch>;

impl Fleet {
    /// Measures the workspaces whose limit is kept by this alone.
    pub(super) async fn enforce_disk_limits(&self, watches: &mut DiskLimitWatches) {
        let mut measured = DiskLimitWatches::new();
        for record in self.all_up().into_iter().filter(|record| !record.other_pid_namespace) {
            let Some(disk_mb) = record.blueprint.limits.disk_mb else { continue };
            let (sandbox, driver) = (record.id, self.driver_of(&record));
            if !driver.is_disk_measured(&sandbox) {
                continue;
            }
            let usage = match driver.disk_usage(&sandbox, disk_mb).await {
                Ok(Some(usage)) => usage,
                Ok(None) => continue,
                Err(error) => {
                    // Files come and go while they are counted.
                    debug!(%sandbox, %error, "failed to measure a workspace");
                    continue;
                }
            };
            let mut watch = watches.remove(&sandbox).unwrap_or_default();
            if watch.is_over(usage.limit_bytes, usage.used_bytes) {
                let cause =
                    EvictionCause::OverLimit { used_bytes: usage.used_bytes, limit_bytes: usage.limit_bytes };
                warn!(%sandbox, ?cause, "disk limit passed: evicting the sandbox");
                self.evict(&sandbox, cause).await;
            } else {
                measured.insert(sandbox, watch);
            }
        }
        *watches = measured;
    }

    pub(super) async fn evict(&self, sandbox: &SandboxId, cause: EvictionCause) {
        match self.command(sandbox, SandboxCommand::Evict(cause)).await {
            // The sandbox was stopped, or destroyed, meanwhile.
            Ok(_) | Err(FleetError::Refused(_)) => {}
            Err(error) => warn!(%sandbox, %error, "failed to evict a sandbox"),
        }
    }
}

/// The problem of a sandbox that was evicted for its size.
pub(super) fn over_limit_problem(used_bytes: u64, limit_bytes: u64) -> Problem {
    let (used, limit) = (used_bytes.div_ceil(1 << 20), limit_bytes >> 20);
    let message = format!(
        "hostd stopped it: its files take {used} MB, and limits.disk_mb is {limit}; start it to delete some of them, \
         or destroy it"
    );
    Problem { code: ProblemCode::DiskFull, message, output: Vec::new(), step: None }
}
