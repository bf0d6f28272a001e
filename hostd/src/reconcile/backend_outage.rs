//! A backend that does not answer: what is said about it, how long it is waited for, and what it may still do
//! late.

use super::{
    FleetError,
    actor::SandboxActor,
    perform::{Flow, problem_of},
};
use crate::{
    core::{Drift, Goal, Observed, PlanStep},
    driver::DriverError,
};
use protocol::api::SandboxStatus;
use std::{ops::ControlFlow, time::Duration};
use tokio::time::Instant;
use tracing::{error, info};

/// Between glances at a backend that is waited for: so many failures' pause.
const GLANCE_FAILURES: u32 = 6;

impl SandboxActor {
    /// Should nothing come of what is being done, that may be why.
    pub(super) fn note_outage(&mut self, error: &DriverError) {
        if matches!(error, DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. }) {
            self.outage = Some(problem_of(error));
        }
    }

    /// What was asked of it was not answered until the deadline.
    pub(super) fn note_timeout(&mut self) {
        let message = "the backend did not answer in time".to_owned();
        self.note_outage(&DriverError::Unavailable { message });
    }

    pub(super) fn end_outage(&mut self) {
        (self.outage, self.said) = (None, false);
    }

    /// A step failed: pause, longer each time, and look again. The deadline ends it.
    pub(super) async fn back_off(&mut self, error: &FleetError) {
        let away = matches!(error, FleetError::Driver(DriverError::Unavailable { .. }));
        // Once: it is tried again and again.
        if !(away && self.said) {
            error!(sandbox = %self.id(), error = error as &dyn std::error::Error, "a step failed");
        }
        self.said = away;
        self.failures += 1;
        if away {
            self.wait_for_backend().await;
        } else {
            self.pause(self.fleet.timing.retry_pause(self.failures)).await;
        }
    }

    /// Until it may answer again. What was only a hiccup is soon over.
    pub(super) async fn wait_for_backend(&mut self) {
        let timing = &self.fleet.timing;
        let time = match self.failures {
            ..GLANCE_FAILURES => timing.retry_pause(self.failures),
            GLANCE_FAILURES.. => Duration::from_millis(timing.inspect_unseen_ms),
        };
        self.wait_for_recovery(time.min(self.time_left())).await;
    }

    /// A pause that ends as soon as a backend that was away is back, and with another goal.
    async fn wait_for_recovery(&mut self, time: Duration) {
        let goal = self.record().state.goal;
        let until = Instant::now() + time;
        let mut away = false;
        while Instant::now() < until && self.record().state.goal == goal {
            let well = self.driver.health().is_ok();
            if away && well {
                return;
            }
            away |= !well;
            let glance = self.fleet.timing.retry_pause(GLANCE_FAILURES);
            self.pause(glance.min(until - Instant::now())).await;
        }
    }

    /// Whether all there is to do is to wait for the backend.
    pub(super) fn waits_for_backend(&mut self, steps: &[PlanStep], observed: &Observed) -> bool {
        let (away, wanted) = (self.driver.health().is_err(), *steps == [PlanStep::TryAgain]);
        self.awaits_backend = match observed {
            Observed::Unknown => away && !self.record().state.is_up(),
            _ => wanted && (away || self.awaits_backend),
        };
        wanted && away
    }

    /// Its backend is back: at once, or later and later where it only seems to be well.
    pub(super) async fn try_again(&mut self) -> Flow {
        if !std::mem::take(&mut self.awaits_backend) {
            self.wait_for_recovery(self.fleet.timing.restart_pause(self.deaths)).await;
        }
        let state = &self.record().state;
        let unmoved = state.operation.is_none()
            && matches!(state.status, SandboxStatus::Error | SandboxStatus::Stopped)
            && state.goal == Goal::Running;
        // Nobody wanted anything else meanwhile, and there is somebody to do it.
        if unmoved && self.driver.health().is_ok() {
            self.deaths += 1;
            self.set_goal(Goal::Running).await?;
        }
        Ok(ControlFlow::Break(()))
    }

    /// A verb that should bring it to `goal` was answered, or was not: then it may happen yet.
    pub(super) fn expect_late_effect(&mut self, goal: Goal, answered: bool) {
        self.late = (!answered).then_some(goal);
    }

    /// Whether what was found is what we asked for once, and came late.
    pub(super) fn is_late_effect(&mut self, observed: &Observed, drift: &Drift) -> bool {
        let ours = self.late.is_some() && self.late == observed.as_goal();
        if ours {
            info!(sandbox = %self.id(), ?drift, "the backend did late what it was asked for");
            (self.late, self.at_rest) = (None, false);
        }
        ours
    }
}
