//! Adopts sandboxes that a driver has and the database does not know, because it was lost. Tenant, name and blueprint
//! come from the authenticated badge beside the sandbox, tasks and events from the logs of its runtimed. Facts that
//! only the database had (environment, prompts, use of models) are gone.

use super::{
    Fleet, actor::Start, adopt_tasks::find_tasks, event_recovery::recover_events,
    snapshot_restore::RestoreState,
};
use hostd_core::{Blueprint, Environment, Observed, Provisioning, limits};
use hostd_drivers::{Driver, DriverError, FoundSandbox, SandboxBadge};
use hostd_store::{NewSandbox, Secret};
use protocol::api::{SandboxId, SandboxStatus};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// The pause after a driver could not list its sandboxes: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// The longest that reading the logs of one sandbox delays the others. The runners of its tasks read the rest.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Whether an adoption must be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adoption {
    Done,
    /// The backend does not answer now.
    Retry,
}

impl Fleet {
    /// Adopts the sandboxes of every driver that have our authenticated badge and no row.
    pub(super) async fn adopt(&self) {
        for driver in self.drivers().all() {
            if self.adopt_from(driver).await == Adoption::Retry {
                self.retry_adoption(driver.clone());
            }
        }
    }

    /// Tries again until the backend is back.
    fn retry_adoption(&self, driver: Arc<dyn Driver>) {
        warn!(driver = driver.name(), "adoption of unknown sandboxes will be retried");
        let fleet = self.clone();
        self.spawn(async move {
            let mut pause = RETRY_MIN;
            loop {
                sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
                if fleet.adopt_from(&driver).await == Adoption::Done {
                    return;
                }
            }
        });
    }

    async fn adopt_from(&self, driver: &Arc<dyn Driver>) -> Adoption {
        let found = match driver.list().await {
            Ok(found) => found,
            Err(error) => {
                debug!(driver = driver.name(), %error, "failed to list sandboxes");
                return Adoption::Retry;
            }
        };
        let mut all = Adoption::Done;
        for one in found {
            match one {
                FoundSandbox::Ours { badge, blueprint } => {
                    if self.adopt_one(driver.as_ref(), badge, *blueprint).await == Adoption::Retry {
                        all = Adoption::Retry;
                    }
                }
                FoundSandbox::Suspect { name, why } => {
                    warn!(name, why, "sandbox not adopted: its badge is damaged or not ours");
                }
            }
        }
        all
    }

    async fn adopt_one(&self, driver: &dyn Driver, badge: SandboxBadge, blueprint: Blueprint) -> Adoption {
        let id = badge.sandbox;
        match self.store().sandbox(&id).await {
            Ok(None) => {}
            // hostd crashed between recording the end and removing the files.
            Ok(Some(record)) if record.state.status == SandboxStatus::Destroyed => {
                if let Err(error) = driver.destroy(&id, record.keep_workspace).await {
                    warn!(sandbox = %id, %error, "failed to remove the rest of a destroyed sandbox");
                }
                return Adoption::Done;
            }
            Ok(Some(_)) => return Adoption::Done,
            Err(error) => {
                warn!(sandbox = %id, %error, "failed to look up a sandbox that a driver has");
                return Adoption::Done;
            }
        }
        // The sandbox may be stopped: taken for one that should run, it would go to error.
        let observed = match self.inspect(driver, &id).await {
            // The next hostd in that namespace adopts it.
            Ok(Observed::OtherPidNamespace) => {
                let error = DriverError::OtherPidNamespace { sandbox: id };
                warn!(sandbox = %id, %error, "sandbox not adopted");
                return Adoption::Done;
            }
            Ok(observed) => observed,
            Err(error) => {
                debug!(sandbox = %id, %error, "failed to inspect a sandbox to adopt");
                return Adoption::Retry;
            }
        };
        self.adopt_record(driver, adopted_sandbox(badge, blueprint, &observed, self.clock().now_ms())).await;
        Adoption::Done
    }

    async fn inspect(&self, driver: &dyn Driver, id: &SandboxId) -> Result<Observed, DriverError> {
        let after_ms = self.timing().freeze_ms;
        let inspected = timeout(Duration::from_millis(after_ms), driver.inspect(id)).await;
        let container =
            inspected.unwrap_or(Err(DriverError::TimedOut { what: "an inspection", after_ms }))?;
        Ok(container.observed(false))
    }

    /// Records the sandbox with its tasks in one transaction, so that a crash leaves no task behind, and then recovers
    /// its events.
    async fn adopt_record(&self, driver: &dyn Driver, new: NewSandbox) {
        let (id, logs) = (new.id, driver.logs(&new.id));
        let tasks = match &logs {
            Some(logs) => find_tasks(logs.clone()).await,
            None => Vec::new(),
        };
        let count = tasks.len();
        let record = match self.store().adopt_sandbox(new, tasks).await {
            Ok(record) => record,
            Err(error) => return warn!(sandbox = %id, %error, "failed to adopt a sandbox"),
        };
        info!(sandbox = %id, tasks = count, status = ?record.state.status,
            "sandbox adopted: it was not in the database");
        if let Some(logs) = logs {
            match timeout(RECOVERY_MAX, recover_events(self.store(), logs, &id)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    warn!(sandbox = %id, %error, "failed to recover the events of an adopted sandbox");
                }
                Err(_) => warn!(sandbox = %id, "events of an adopted sandbox are recovered later"),
            }
        }
        let restore = RestoreState::found(&self.interrupted_restores().await, &id);
        let start = Start::Resumed { restore };
        // Read again: recovery has moved the cursor of its events.
        match self.store().sandbox(&id).await {
            Ok(Some(record)) => drop(self.spawn_actor(record, start)),
            Ok(None) | Err(_) => drop(self.spawn_actor(record, start)),
        }
        if let Err(error) = self.resume_tasks_of(id).await {
            warn!(sandbox = %id, %error, "failed to resume the tasks of an adopted sandbox");
        }
    }
}

/// A sandbox as its badge and an inspection show it.
fn adopted_sandbox(
    badge: SandboxBadge,
    blueprint: Blueprint,
    observed: &Observed,
    now_ms: u64,
) -> NewSandbox {
    let SandboxBadge { sandbox: id, name, owner, scope, created_ms, details } = badge;
    let (metadata, expires_ms) = match details {
        Some(details) => (details.metadata, details.expires_ms),
        None => (Default::default(), blueprint.ttl_ms.map(|ttl_ms| created_ms.saturating_add(ttl_ms))),
    };
    // What was left of its provisioning is not known: it counts as done.
    let provisioning = Provisioning::done(&blueprint);
    let soonest_ms = now_ms.saturating_add(limits::ADOPTED_KEEP_MS);
    NewSandbox {
        id,
        name,
        owner,
        scope,
        blueprint: Arc::new(blueprint),
        metadata,
        env: Secret(Environment::lost()),
        dotfiles: None,
        state: observed.adopted_state(),
        provisioning,
        created_ms,
        expires_ms: expires_ms.map(|expires_ms| expires_ms.max(soonest_ms)),
    }
}
