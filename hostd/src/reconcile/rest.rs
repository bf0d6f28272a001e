//! A sandbox at rest: waits for an ask, for its death, for idleness, for the end of its time.

use super::{FleetError, owner::Owner};
use crate::{
    core::{Container, Goal, Move, Sleep, idle_inside_ms},
    store::SandboxRecord,
};
use protocol::api::{IdlePolicy, SandboxStatus};
use std::time::Duration;
use tokio::time::{Instant, sleep};
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
        let mut ms = self.fleet.timing.look_every_ms;
        if let Some(expires_ms) = record.expires_ms {
            ms = ms.min(expires_ms.saturating_sub(now_ms));
        }
        if may_sleep(&record) {
            ms = ms.min(self.next_sleep_look_ms(&record));
        }
        // A sandbox whose time is over is destroyed by the look that this pause ends.
        Duration::from_millis(ms.max(1))
    }

    /// As the last look said; after a change, by what is known without asking anybody.
    fn next_sleep_look_ms(&self, record: &SandboxRecord) -> u64 {
        if let Some((generation, at)) = self.sleep_look
            && generation == record.generation
        {
            let left = at.saturating_duration_since(Instant::now());
            return u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        }
        self.fleet.timing.sleep_look_ms(self.sleep(record).again_ms())
    }

    async fn at_its_time(&mut self) {
        let record = self.record();
        if record.state.status == SandboxStatus::Running {
            self.deaths = 0;
        }
        if !may_sleep(&record) {
            return;
        }
        let again_ms = match self.sleep_if_idle().await {
            Ok(again_ms) => again_ms,
            Err(error) => {
                debug!(sandbox = %self.id(), %error, "could not see to it; later again");
                u64::MAX
            }
        };
        let again = Duration::from_millis(self.fleet.timing.sleep_look_ms(again_ms));
        self.sleep_look = Some((self.record().generation, Instant::now() + again));
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

    /// Puts to sleep a sandbox in which nothing happened for long enough; otherwise says when it may be.
    async fn sleep_if_idle(&mut self) -> Result<u64, FleetError> {
        let record = self.record();
        // First, as whoever comes takes his lease first.
        let before = self.control.leases_taken();
        if self.control.in_use() {
            return Ok(u64::MAX);
        }
        // One that dozes cannot answer, and is not thawed to be asked.
        if !record.state.dozing {
            self.look_inside().await?;
        }
        let (goal, change) = match self.sleep(&record) {
            Sleep::NotYet { again_ms } => return Ok(again_ms),
            Sleep::Doze => {
                let deadline_ms = self.deadline_ms(Goal::Paused);
                (Goal::Paused, Move::Doze { deadline_ms })
            }
            Sleep::Stop => {
                let deadline_ms = self.deadline_ms(Goal::Stopped);
                (Goal::Stopped, Move::Accept { goal: Goal::Stopped, deadline_ms })
            }
        };
        let quiet = self.traffic.quiet();
        info!(sandbox = %record.id, ?goal, idle_ms = quiet.idle_ms(), streams = quiet.streams,
            "nothing happens in it: it goes to sleep");
        self.change(change).await?;
        // Somebody came, and perhaps went, while this was written: he took his lease before he looked.
        if self.control.leases_taken() != before {
            self.want(Goal::Running).await?;
        }
        Ok(0)
    }

    async fn look_inside(&self) -> Result<(), FleetError> {
        let activity = self.control.activity().await?;
        self.traffic.inside(idle_inside_ms(&activity, self.fleet.clock.now_ms()));
        Ok(())
    }

    fn sleep(&self, record: &SandboxRecord) -> Sleep {
        let (window, quiet) = (self.fleet.timing.window(), self.traffic.quiet());
        if record.state.dozing { window.with_dozing(&quiet) } else { window.with_running(&quiet) }
    }
}

/// Whether it is settled in a state from which it falls asleep, or deeper asleep, by itself. What somebody
/// paused stays so.
fn may_sleep(record: &SandboxRecord) -> bool {
    let state = &record.state;
    record.blueprint.idle_policy == IdlePolicy::Sleep && (state.is_up() || state.dozes())
}
