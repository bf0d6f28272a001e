//! A sandbox at rest: waits for an ask, for somebody who disturbs it, for idleness, for the end of its time.

use super::{FleetError, actor::SandboxActor, perform::WorkOutcome};
use crate::{
    core::{Goal, Observed, SleepDecision, Transition, idle_inside_ms},
    store::SandboxRecord,
};
use protocol::api::{IdlePolicy, SandboxStatus};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

impl SandboxActor {
    /// Returns when there may be something to do.
    pub(super) async fn wait(&mut self, observed: &Observed) {
        let (driver, id) = (self.driver.clone(), self.id());
        let blind = Duration::from_millis(self.fleet.timing.inspect_unseen_ms);
        let unseen = matches!(observed, Observed::Unknown | Observed::OtherPidNamespace);
        // A driver that cries wolf is listened to less and less.
        let backoff = (self.alarms > 0).then(|| self.fleet.timing.retry_pause(self.alarms));
        let changed = async {
            sleep(backoff.unwrap_or_default()).await;
            let watched = driver.changed(&id);
            // What cannot be seen, or not be watched, is looked at more often instead.
            let failed = if unseen {
                timeout(blind, watched).await.is_ok_and(|watched| watched.is_err())
            } else {
                watched.await.is_err()
            };
            if failed {
                sleep(blind).await;
            }
        };
        let time =
            if self.awaits_backend { self.next_inspection().min(blind) } else { self.next_inspection() };
        tokio::select! {
            // A message is taken whole or not at all; the others only wait.
            Some(message) = self.inbox.recv() => self.handle(message).await,
            () = changed => self.alarms = self.alarms.saturating_add(1),
            () = sleep(time) => {
                self.alarms = 0;
                self.on_timer().await;
            }
        }
    }

    fn next_inspection(&self) -> Duration {
        let record = self.record();
        let now_ms = self.fleet.clock.now_ms();
        let mut ms = self.fleet.timing.inspect_every_ms;
        if let Some(expires_ms) = record.expires_ms {
            ms = ms.min(expires_ms.saturating_sub(now_ms));
        }
        if may_sleep(&record) {
            ms = ms.min(self.next_idle_check_ms(&record));
        }
        // A sandbox whose time is over is destroyed by the look that this pause ends.
        Duration::from_millis(ms.max(1))
    }

    /// As the last look said; after a change, by what is known without asking anybody.
    fn next_idle_check_ms(&self, record: &SandboxRecord) -> u64 {
        if let Some((generation, at)) = self.idle_check
            && generation == record.generation
        {
            let left = at.saturating_duration_since(Instant::now());
            return u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        }
        self.fleet.timing.idle_check_ms(self.sleep_decision(record).check_after_ms())
    }

    async fn on_timer(&mut self) {
        let record = self.record();
        if record.state.status == SandboxStatus::Running {
            self.deaths = 0;
        }
        if !may_sleep(&record) {
            return;
        }
        let check_after_ms = match self.sleep_if_idle().await {
            Ok(check_after_ms) => check_after_ms,
            Err(error) => {
                debug!(sandbox = %self.id(), %error, "could not see to it; later again");
                u64::MAX
            }
        };
        let again = Duration::from_millis(self.fleet.timing.idle_check_ms(check_after_ms));
        self.idle_check = Some((self.record().generation, Instant::now() + again));
    }

    /// Destroys one whose time is over, whatever is being done to it.
    pub(super) async fn expire(&mut self) -> Result<(), FleetError> {
        let record = self.record();
        let over = record.expires_ms.is_some_and(|expires_ms| expires_ms <= self.fleet.clock.now_ms());
        if over && record.state.goal != Goal::Destroyed {
            info!(sandbox = %record.id, "its time is over");
            self.set_goal(Goal::Destroyed).await?;
        }
        Ok(())
    }

    /// Puts to sleep a sandbox in which nothing happened for long enough; otherwise says when it may be.
    async fn sleep_if_idle(&mut self) -> Result<u64, FleetError> {
        let record = self.record();
        // First, as whoever comes takes his lease first.
        let before = self.control.leases_taken();
        // Nor is anything begun that the backend could not finish.
        if self.control.in_use() || self.driver.health().is_err() {
            return Ok(u64::MAX);
        }
        // One that dozes cannot answer, and is not thawed to be asked.
        if !record.state.dozing {
            self.query_activity().await?;
            if self.record().generation != record.generation {
                return Ok(0);
            }
        }
        let (goal, change) = match self.sleep_decision(&record) {
            SleepDecision::NotYet { check_after_ms } => return Ok(check_after_ms),
            SleepDecision::Doze => {
                let deadline_ms = self.deadline_ms(Goal::Paused);
                (Goal::Paused, Transition::Doze { deadline_ms })
            }
            SleepDecision::Stop => {
                let deadline_ms = self.deadline_ms(Goal::Stopped);
                (Goal::Stopped, Transition::Accept { goal: Goal::Stopped, deadline_ms })
            }
        };
        let quiet = self.traffic.quiet();
        info!(sandbox = %record.id, ?goal, idle_ms = quiet.idle_ms(), streams = quiet.streams,
            "nothing happens in it: it goes to sleep");
        self.transition(change).await?;
        // Somebody came, and perhaps went, while this was written: he took his lease before he looked.
        if self.control.leases_taken() != before {
            self.set_goal(Goal::Running).await?;
        }
        Ok(0)
    }

    /// Somebody who freezes it meanwhile, or wants something, does not wait for an answer that may not come.
    async fn query_activity(&mut self) -> Result<(), FleetError> {
        let (control, driver, id) = (self.control.clone(), self.driver.clone(), self.id());
        let changed = async move {
            if driver.changed(&id).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let work = async {
            // Safe to cut off: asking may be repeated, and the other only waits.
            tokio::select! {
                activity = control.activity() => Some(activity),
                () = changed => None,
            }
        };
        let WorkOutcome::Done(Some(activity)) =
            self.run_interruptible(work, |before, now| before != now).await
        else {
            return Err(FleetError::InProgress);
        };
        self.traffic.record_inside_activity(idle_inside_ms(&activity?, self.fleet.clock.now_ms()));
        Ok(())
    }

    fn sleep_decision(&self, record: &SandboxRecord) -> SleepDecision {
        let (window, quiet) = (self.fleet.timing.window(), self.traffic.quiet());
        if record.state.dozing { window.when_dozing(&quiet) } else { window.when_running(&quiet) }
    }
}

/// Whether it is settled in a state from which it falls asleep, or deeper asleep, by itself. What somebody
/// paused stays so.
fn may_sleep(record: &SandboxRecord) -> bool {
    let state = &record.state;
    !record.other_pid_namespace
        && record.blueprint.idle_policy == IdlePolicy::Sleep
        && (state.is_up() || state.dozes())
}
