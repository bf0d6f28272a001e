//! Changes the limits of a sandbox, also while it runs. The row is written first, and back again when the driver
//! refuses: it has what is in force. A hostd that dies in between leaves a row that the next one puts in force.

use super::{
    FleetError,
    actor::{CommandReply, SandboxActor},
};
use hostd_core::{Goal, Observed, TransitionRefused, applied_limits};
use hostd_drivers::DriverError;
use hostd_store::SandboxUpdate;
use protocol::api::{Limits, LimitsChange, StatsView};
use std::time::Duration;
use tokio::time::timeout;
use tracing::{info, warn};

/// Cores that differ by less are the same: the kernel has them in whole microseconds.
const CPUS_TOLERANCE: f64 = 0.001;

/// Whether the limits of a running sandbox are those of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitsInForce {
    AsRecorded,
    /// A hostd that died may have changed only the row, or the row was changed during a launch.
    Unchecked,
}

impl SandboxActor {
    pub(super) async fn resize(&mut self, change: &LimitsChange) -> CommandReply {
        let record = self.record();
        if record.state.goal == Goal::Destroyed {
            return Err(TransitionRefused::Destroying.into());
        }
        let before = record.blueprint.limits.clone();
        let wanted = applied_limits(&before, change);
        if wanted == before {
            return Ok(record);
        }
        let recorded = self.record_limits(&wanted).await?;
        if record.state.operation.is_some() {
            // The driver is at work on the limits as they were.
            self.limits_in_force = LimitsInForce::Unchecked;
            return Ok(recorded);
        }
        if !record.state.is_wanted_up() {
            return Ok(recorded);
        }
        match self.put_in_force(&wanted).await {
            Ok(()) => Ok(recorded),
            Err(error) => {
                // What became of a verb that did not end in time is seen at the next inspection.
                self.limits_in_force = LimitsInForce::Unchecked;
                self.record_limits(&before).await?;
                Err(error.into())
            }
        }
    }

    /// Puts the recorded limits of a running sandbox in force, where that may not have been done.
    pub(super) async fn check_limits(&mut self, observed: &Observed) {
        let running = matches!(observed, Observed::Running { .. });
        let settled = self.record().state.operation.is_none();
        if self.limits_in_force == LimitsInForce::AsRecorded || !running || !settled {
            return;
        }
        let wanted = self.record().blueprint.limits.clone();
        let Ok(stats) = self.driver.stats(&self.id()).await else { return };
        self.limits_in_force = LimitsInForce::AsRecorded;
        if is_in_force(&wanted, &stats) {
            return;
        }
        info!(sandbox = %self.id(), ?wanted, "putting the recorded limits of a running sandbox in force");
        match self.put_in_force(&wanted).await {
            Ok(()) => {}
            Err(DriverError::MemoryInUse { .. }) => {
                // The row has what is in force.
                let kept = Limits { memory_mb: stats.memory_limit_bytes >> 20, ..wanted };
                warn!(sandbox = %self.id(), ?kept, "a lower memory limit is not possible any more");
                if let Err(error) = self.record_limits(&kept).await {
                    warn!(sandbox = %self.id(), %error, "failed to record the limits in force");
                }
            }
            Err(error) => {
                warn!(sandbox = %self.id(), %error, "failed to put the recorded limits in force");
                self.limits_in_force = LimitsInForce::Unchecked;
            }
        }
    }

    async fn put_in_force(&self, limits: &Limits) -> Result<(), DriverError> {
        let after_ms = self.fleet.timing.freeze_ms;
        let resized = timeout(Duration::from_millis(after_ms), self.driver.resize(&self.id(), limits)).await;
        resized.unwrap_or(Err(DriverError::TimedOut { what: "changing the limits", after_ms }))
    }

    async fn record_limits(&mut self, limits: &Limits) -> CommandReply {
        let change = SandboxUpdate { limits: Some(limits.clone()), ..SandboxUpdate::default() };
        let now_ms = self.fleet.clock.now_ms();
        let record = self.fleet.store.update_sandbox(&self.id(), change, now_ms).await;
        Ok(self.publish(record.map_err(FleetError::from)?))
    }
}

fn is_in_force(limits: &Limits, stats: &StatsView) -> bool {
    let cpus = stats.cpus_limit.is_none_or(|cpus| (cpus - limits.cpus).abs() < CPUS_TOLERANCE);
    stats.memory_limit_bytes == limits.memory_mb << 20 && stats.pids_limit == limits.pids && cpus
}
