//! A sandbox at rest: waits for a command, a change from outside, the end of its TTL or of its idle window.

use super::{FleetError, actor::SandboxActor, perform::WorkOutcome};
use hostd_core::{Expiry, Goal, Observed, Retry, SleepDecision, Transition, expiry, idle_inside_ms};
use hostd_store::{SandboxRecord, StoreError};
use protocol::api::IdlePolicy;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

/// The next check whether a sandbox may sleep. A record of another generation makes it void.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleCheck {
    generation: u64,
    at: Instant,
}

impl SandboxActor {
    /// Returns when there may be something to do.
    pub(super) async fn wait_at_rest(&mut self, observed: &Observed) {
        let (driver, id) = (self.driver.clone(), self.id());
        let unseen = Duration::from_millis(self.fleet.timing.inspect_unseen_ms);
        // Backs off from a driver that signals changes that are none.
        let backoff = match self.situation.backoff().spurious_changes {
            0 => Duration::ZERO,
            changes => self.fleet.timing.retry_pause(changes),
        };
        let visible = observed.is_visible();
        let changed = async {
            sleep(backoff).await;
            let watched = driver.changed(&id);
            // A container that cannot be seen, or not be watched, is inspected more often instead.
            let failed = if visible {
                watched.await.is_err()
            } else {
                timeout(unseen, watched).await.is_ok_and(|watched| watched.is_err())
            };
            if failed {
                sleep(unseen).await;
            }
        };
        let time = match self.situation.retry() {
            Retry::OnRecovery => self.next_inspection().min(unseen),
            Retry::AfterPause => self.next_inspection(),
        };
        tokio::select! {
            // A message is taken whole or not at all; the other arms only wait.
            Some(message) = self.inbox.recv() => self.handle(message).await,
            () = changed => self.situation.change_signalled(),
            () = sleep(time) => self.on_timer().await,
        }
    }

    fn next_inspection(&self) -> Duration {
        let record = self.record();
        let now_ms = self.fleet.clock.now_ms();
        let mut ms = self.fleet.timing.inspect_every_ms;
        if let Some(expires_ms) = record.expires_ms {
            let due = expiry(record.blueprint.on_ttl, &record.state, Some(expires_ms), now_ms);
            // The end of an operation is signalled.
            if due != Expiry::AfterOperation {
                ms = ms.min(expires_ms.saturating_sub(now_ms));
            }
        }
        if may_sleep(&record) {
            ms = ms.min(self.next_idle_check_ms(&record));
        }
        Duration::from_millis(ms.max(1))
    }

    /// The time until the next idle check: as the last one said, or after a change of the record, by what is known
    /// without asking runtimed.
    fn next_idle_check_ms(&self, record: &SandboxRecord) -> u64 {
        match self.idle_check {
            Some(IdleCheck { generation, at }) if generation == record.generation => {
                let left = at.saturating_duration_since(Instant::now());
                u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
            }
            Some(_) | None => self.fleet.timing.idle_check_ms(self.sleep_decision(record).check_after_ms()),
        }
    }

    async fn on_timer(&mut self) {
        let record = self.record();
        self.situation.timer_elapsed(record.state.status);
        if !may_sleep(&record) {
            return;
        }
        let check_after_ms = match self.sleep_if_idle().await {
            Ok(check_after_ms) => check_after_ms,
            Err(error) => {
                debug!(sandbox = %self.id(), %error, "idle check failed");
                u64::MAX
            }
        };
        let after = Duration::from_millis(self.fleet.timing.idle_check_ms(check_after_ms));
        self.idle_check =
            Some(IdleCheck { generation: self.record().generation, at: Instant::now() + after });
    }

    /// Does what is due at the end of the TTL. A sandbox is destroyed whatever operation is under way.
    pub(super) async fn expire(&mut self) -> Result<(), FleetError> {
        let now_ms = self.fleet.clock.now_ms();
        let record = self.record();
        let due = expiry(record.blueprint.on_ttl, &record.state, record.expires_ms, now_ms);
        let deadline_ms = match due {
            Expiry::NotDue | Expiry::AfterOperation => return Ok(()),
            Expiry::Reach(goal) => self.deadline_ms(goal),
            Expiry::Over => 0,
        };
        info!(sandbox = %record.id, ?due, "sandbox TTL expired");
        self.situation.act();
        let store = &self.fleet.store;
        let expired = match store.expire_sandbox(&record.id, due, deadline_ms, now_ms).await {
            // Reserved disk space has been released meanwhile.
            Err(StoreError::Full) => store.expire_sandbox(&record.id, due, deadline_ms, now_ms).await?,
            expired => expired?,
        };
        self.publish(expired);
        Ok(())
    }

    /// Puts an idle sandbox to sleep. Otherwise returns after how many milliseconds it may be.
    async fn sleep_if_idle(&mut self) -> Result<u64, FleetError> {
        let record = self.record();
        // Read before the record: a client takes its lease before it reads the record.
        let before = self.connections.control.leases_taken();
        // Nothing is begun that an unhealthy backend could not finish.
        if self.connections.control.in_use() || self.driver.health().is_err() {
            return Ok(u64::MAX);
        }
        // A dozing sandbox cannot answer, and is not thawed to be asked.
        if !record.state.dozing {
            self.query_activity().await?;
            if self.record().generation != record.generation {
                return Ok(0);
            }
        }
        let (goal, transition) = match self.sleep_decision(&record) {
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
            "sandbox is idle: putting it to sleep");
        self.transition(transition).await?;
        // A client that came while this was recorded, and perhaps left again, took its lease before it read the
        // record.
        if self.connections.control.leases_taken() != before {
            self.set_goal(Goal::Running).await?;
        }
        Ok(0)
    }

    /// Asks runtimed for its activity. A change from outside or a new goal ends the wait for an answer: a frozen
    /// runtimed gives none.
    async fn query_activity(&mut self) -> Result<(), FleetError> {
        let (control, driver, id) = (self.connections.control.clone(), self.driver.clone(), self.id());
        let changed = async move {
            if driver.changed(&id).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let work = async {
            // Safe to cut off: the request may be repeated, and the other arm only waits.
            tokio::select! {
                activity = control.activity() => Some(activity),
                () = changed => None,
            }
        };
        let cut = |before, now| before != now;
        let WorkOutcome::Done(Some(activity)) = self.run_interruptible(work, cut).await else {
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

/// Whether a sandbox is settled in a state from which it falls asleep, or deeper asleep, by itself. A sandbox that a
/// client paused stays paused.
fn may_sleep(record: &SandboxRecord) -> bool {
    let state = &record.state;
    !record.other_pid_namespace
        && record.blueprint.idle_policy == IdlePolicy::Sleep
        && (state.is_up() || state.dozes())
}
