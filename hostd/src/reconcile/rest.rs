//! A sandbox at rest: waits for an ask, for its death, for idleness, for the end of its time.

use super::{FleetError, owner::Owner};
use crate::{
    core::{Container, Goal},
    limits,
};
use protocol::{
    Status,
    api::{IdlePolicy, SandboxStatus},
};
use std::time::Duration;
use tokio::time::sleep;
use tracing::{debug, info};

impl Owner {
    /// Returns when there may be something to do.
    pub(super) async fn rest(&mut self, container: &Container) {
        let runs = matches!(container, Container::Running { .. });
        let (driver, id) = (self.driver.clone(), self.id());
        let death = async {
            if runs {
                // An error means that it cannot be watched: the periodic look is left.
                if driver.died(&id).await.is_ok() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let time = self.next_look();
        tokio::select! {
            // A message is taken whole or not at all; the others only wait.
            Some(message) = self.inbox.recv() => self.handle(message).await,
            () = death => {}
            () = sleep(time) => self.at_its_time().await,
        }
    }

    fn next_look(&self) -> Duration {
        let record = self.record();
        let now_ms = self.fleet.clock.now_ms();
        let timing = &self.fleet.timing;
        let mut ms = timing.look_every_ms;
        if let Some(expires_ms) = record.expires_ms {
            ms = ms.min(expires_ms.saturating_sub(now_ms));
        }
        let sleeps = record.state.is_up() && record.blueprint.idle_policy == IdlePolicy::Sleep;
        if sleeps {
            ms = ms.min(timing.idle_ms);
        }
        // A sandbox whose time is over is destroyed by the look that this pause ends.
        Duration::from_millis(ms.max(1))
    }

    async fn at_its_time(&mut self) {
        if self.record().state.status == SandboxStatus::Running
            && let Err(error) = self.sleep_if_idle().await
        {
            debug!(sandbox = %self.id(), %error, "could not see to it; later again");
        }
    }

    /// Destroys one whose time is over, whatever is being done to it.
    pub(super) async fn expire(&mut self) -> Result<(), FleetError> {
        let record = self.record();
        let over = record.expires_ms.is_some_and(|expires_ms| expires_ms <= self.fleet.clock.now_ms());
        if over && record.state.goal != Goal::Destroyed {
            info!(sandbox = %record.id, "its time is over");
            self.want(Goal::Destroyed).await?;
        }
        Ok(())
    }

    /// Stops a sandbox in which nothing happened for long enough.
    async fn sleep_if_idle(&mut self) -> Result<(), FleetError> {
        let record = self.record();
        self.deaths = 0;
        if record.blueprint.idle_policy != IdlePolicy::Sleep || self.control.in_use() {
            return Ok(());
        }
        let before = self.control.leases_taken();
        let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
        let status: Status = self.control.get("/v1/status", within).await?;
        // An older runtimed only knows the clock that may jump.
        let by_wall_clock = || self.fleet.clock.now_ms().saturating_sub(status.activity.since_ms);
        let idle_ms = status.activity.for_ms.unwrap_or_else(by_wall_clock);
        if status.activity.busy || idle_ms < self.fleet.timing.idle_ms {
            return Ok(());
        }
        info!(sandbox = %record.id, idle_ms, "nothing happens in it: it goes to sleep");
        self.want(Goal::Stopped).await?;
        // Somebody came, and perhaps went, while this was written: he took his lease before he looked.
        if self.control.leases_taken() != before {
            self.want(Goal::Running).await?;
        }
        Ok(())
    }
}
