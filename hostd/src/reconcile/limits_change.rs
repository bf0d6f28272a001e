//! Changes the limits of a sandbox, also while it runs. The row never says less than is in force, and so no quota is
//! exceeded meanwhile: what grows is written before the driver applies it, what shrinks after. Taking a change back only
//! shrinks the row, which no quota refuses. A hostd that dies in between leaves a row that the next one puts in force.
//!
//! ```text
//!  row: larger of both ──▶ driver: wanted ──┬─ done ──▶ row: wanted
//!                                           └─ refused ▶ row: as before
//! ```

use super::{
    FleetError,
    actor::{CommandReply, SandboxActor},
};
use hostd_core::{Goal, Observed, TransitionRefused, applied_limits, larger_limits};
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
    /// A change did not end in time, and may take effect later: the row is put in force after it, whatever is seen now.
    MayChange,
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
        if record.state.operation.is_some() {
            // The driver is at work on the limits as they were.
            let recorded = self.record_limits(&wanted).await?;
            self.limits_in_force = LimitsInForce::Unchecked;
            return Ok(recorded);
        }
        if !record.state.is_wanted_up() {
            return self.record_limits(&wanted).await;
        }
        self.record_limits(&larger_limits(&before, &wanted)).await?;
        let applied = self.put_in_force(&wanted).await;
        // Until the row is written once more.
        self.limits_in_force = match applied {
            Err(DriverError::TimedOut { .. }) => LimitsInForce::MayChange,
            Ok(()) | Err(_) => LimitsInForce::Unchecked,
        };
        match applied {
            Ok(()) => {
                let recorded = self.record_limits(&wanted).await?;
                self.limits_in_force = LimitsInForce::AsRecorded;
                Ok(recorded)
            }
            Err(error) => {
                self.record_limits(&before).await?;
                Err(error.into())
            }
        }
    }

    /// Puts the recorded limits of a running sandbox in force, where that may not have been done.
    pub(super) async fn check_limits(&mut self, observed: &Observed) {
        let running = matches!(observed, Observed::Running { .. });
        let settled = self.record().state.operation.is_none();
        let before = self.limits_in_force;
        if before == LimitsInForce::AsRecorded || !running || !settled {
            return;
        }
        let wanted = self.record().blueprint.limits.clone();
        let Ok(stats) = self.driver.stats(&self.id()).await else { return };
        self.limits_in_force = LimitsInForce::AsRecorded;
        if before == LimitsInForce::Unchecked && is_in_force(&wanted, &stats) {
            return;
        }
        info!(sandbox = %self.id(), ?wanted, "putting the recorded limits of a running sandbox in force");
        match self.put_in_force(&wanted).await {
            Ok(()) => {}
            Err(DriverError::MemoryInUse { .. }) => {
                // The row has what is in force.
                let kept = Limits { memory_mb: stats.memory_limit_bytes >> 20, ..wanted };
                warn!(sandbox = %self.id(), ?kept, "a lower memory limit is not possible any more");
                let change = SandboxUpdate { found_limits: Some(kept), ..SandboxUpdate::default() };
                if let Err(error) = self.update_row(change).await {
                    warn!(sandbox = %self.id(), %error, "failed to record the limits in force");
                }
            }
            Err(error) => {
                warn!(sandbox = %self.id(), %error, "failed to put the recorded limits in force");
                self.limits_in_force = before;
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
        self.update_row(change).await
    }

    async fn update_row(&mut self, change: SandboxUpdate) -> CommandReply {
        let now_ms = self.fleet.clock.now_ms();
        let record = self.fleet.store.update_sandbox(&self.id(), change, now_ms).await;
        Ok(self.publish(record.map_err(FleetError::from)?))
    }
}

fn is_in_force(limits: &Limits, stats: &StatsView) -> bool {
    let cpus = stats.cpus_limit.is_none_or(|cpus| (cpus - limits.cpus).abs() < CPUS_TOLERANCE);
    stats.memory_limit_bytes == limits.memory_mb << 20 && stats.pids_limit == limits.pids && cpus
}
