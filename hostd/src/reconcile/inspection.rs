//! Inspecting a sandbox, and reporting what differs from how hostd left it.

use super::{actor::SandboxActor, driver_problem::outage_of};
use hostd_core::{Drift, DriftCause, Observed, RunChange};
use hostd_drivers::{ContainerState, DriverError};
use serde_json::json;
use std::{error::Error, time::Duration};
use tokio::time::timeout;
use tracing::{info, warn};

impl SandboxActor {
    pub(super) async fn inspect(&mut self) -> Observed {
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        let observed = match timeout(within, self.driver.inspect(&self.id())).await {
            Ok(Ok(container)) => self.inspected(&container).await,
            Ok(Err(error)) => {
                // Logged once: inspecting is repeated until it works.
                if self.situation.inspection_failed(outage_of(&error)) {
                    warn!(sandbox = %self.id(), error = &error as &dyn Error, "failed to inspect the sandbox");
                }
                Observed::Unknown
            }
            Err(_) => {
                self.situation.inspection_unanswered();
                Observed::Unknown
            }
        };
        self.note_namespace(&observed).await;
        observed
    }

    async fn inspected(&mut self, container: &ContainerState) -> Observed {
        let (observed, change) = self.situation.inspected(container, &self.record().state);
        match change {
            RunChange::None => {}
            RunChange::Ended => self.connections.close(),
            RunChange::Replaced { drift } => {
                self.connections.close();
                if let Some(drift) = drift {
                    self.report_drift(drift).await;
                }
                let lost = self.fleet.store.mark_execs_lost(&self.id(), self.fleet.clock.now_ms()).await;
                if let Err(error) = lost {
                    // The execs are recorded as lost when the sandbox stops, at the latest.
                    warn!(sandbox = %self.id(), %error, "failed to record lost execs");
                }
            }
        }
        observed
    }

    /// Logs once that a sandbox lives in another PID namespace. When it does not any more, the operation under way
    /// gets its whole time again.
    async fn note_namespace(&mut self, observed: &Observed) {
        let elsewhere = match observed {
            Observed::OtherPidNamespace => true,
            // Nothing was learnt.
            Observed::Unknown => return,
            Observed::Absent | Observed::Launching | Observed::Running { .. } | Observed::Dead(_) => false,
        };
        if elsewhere == self.record().other_pid_namespace {
            return;
        }
        self.publisher.put_other_pid_namespace(elsewhere);
        if elsewhere {
            let name = &self.record().name;
            warn!(sandbox = %self.id(), name, error = %self.other_pid_namespace(), "sandbox left alone");
        } else {
            self.extend().await;
        }
    }

    pub(super) fn other_pid_namespace(&self) -> DriverError {
        DriverError::OtherPidNamespace { sandbox: self.id() }
    }

    /// Finds out who brought a drift about, and reports it where that was not hostd.
    pub(super) async fn attribute_drift(&mut self, drift: Drift, observed: &Observed) {
        match self.situation.drift_found(observed) {
            DriftCause::Unsettled => {}
            DriftCause::LateVerb => {
                info!(sandbox = %self.id(), ?drift, "a driver verb took effect after its deadline");
            }
            DriftCause::External => self.report_drift(drift).await,
        }
    }

    /// Records a drift, once for each occurrence and before it is repaired.
    async fn report_drift(&mut self, drift: Drift) {
        warn!(sandbox = %self.id(), ?drift, "sandbox was changed from outside");
        let now_ms = self.fleet.clock.now_ms();
        let noted = self.fleet.store.record_event(&self.id(), "sandbox.drift", json!(drift), now_ms).await;
        if let Err(error) = noted {
            // The drift is repaired all the same.
            warn!(sandbox = %self.id(), %error, "failed to record a drift");
        }
    }
}
