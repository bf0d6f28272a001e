//! A backend that does not answer: how long an actor waits for it, and when it tries again.

use super::{FleetError, actor::SandboxActor, perform::Flow};
use hostd_core::{Goal, Retry, Wait};
use hostd_drivers::DriverError;
use protocol::api::SandboxStatus;
use std::{error::Error, ops::ControlFlow, time::Duration};
use tokio::time::Instant;
use tracing::error;

/// Failures in a row after which a backend counts as away for long. Its health is then polled in the pause that so
/// many failures make.
const POLL_FAILURES: u32 = 6;

impl SandboxActor {
    /// A step failed: waits, longer each time, before the next inspection. The deadline ends the operation.
    pub(super) async fn back_off(&mut self, error: &FleetError) {
        let unavailable = matches!(error, FleetError::Driver(DriverError::Unavailable { .. }));
        let failure = self.situation.step_failed(unavailable);
        if failure.is_news {
            error!(sandbox = %self.id(), error = error as &dyn Error, "step failed");
        }
        self.wait_to_inspect(failure.wait).await;
    }

    pub(super) async fn wait_to_inspect(&mut self, wait: Wait) {
        let timing = &self.fleet.timing;
        match wait {
            Wait::Unseen => self.pause(Duration::from_millis(timing.inspect_unseen_ms)).await,
            Wait::Retry => self.pause(timing.retry_pause(self.situation.backoff().failures)).await,
            Wait::Backend => self.wait_for_backend().await,
        }
    }

    /// Waits until the backend may answer again: shortly at first, because most outages are short.
    async fn wait_for_backend(&mut self) {
        let (timing, failures) = (&self.fleet.timing, self.situation.backoff().failures);
        let time = match failures {
            ..POLL_FAILURES => timing.retry_pause(failures),
            POLL_FAILURES.. => Duration::from_millis(timing.inspect_unseen_ms),
        };
        self.wait_for_recovery(time.min(self.time_left())).await;
    }

    /// A pause that ends as soon as an unhealthy backend is healthy again, and with another goal.
    async fn wait_for_recovery(&mut self, time: Duration) {
        let goal = self.record().state.goal;
        let until = Instant::now() + time;
        let mut was_unhealthy = false;
        while Instant::now() < until && self.record().state.goal == goal {
            let healthy = self.driver.health().is_ok();
            if was_unhealthy && healthy {
                return;
            }
            was_unhealthy |= !healthy;
            let poll = self.fleet.timing.retry_pause(POLL_FAILURES);
            self.pause(poll.min(until - Instant::now())).await;
        }
    }

    /// Brings up a sandbox whose backend is back: at once after an outage, or later and later where the backend only
    /// seems to be healthy.
    pub(super) async fn try_again(&mut self) -> Flow {
        match self.situation.take_retry() {
            Retry::OnRecovery => {}
            Retry::AfterPause => {
                let restarts = self.situation.backoff().restarts;
                self.wait_for_recovery(self.fleet.timing.restart_pause(restarts)).await;
            }
        }
        let state = &self.record().state;
        let unchanged = state.operation.is_none()
            && matches!(state.status, SandboxStatus::Error | SandboxStatus::Stopped)
            && state.goal == Goal::Running;
        if unchanged && self.driver.health().is_ok() {
            self.situation.restarting();
            self.set_goal(Goal::Running).await?;
        }
        Ok(ControlFlow::Break(()))
    }
}
