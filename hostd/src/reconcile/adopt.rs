//! Sandboxes that are there and that the database does not know, because it was lost. They are taken up by
//! what is beside them: owner, name and blueprint by their authenticated badge, tasks and events by the logs
//! of their runtimed. What only the database had (environment, prompts, what was used of models) is gone.

use super::{Fleet, actor::Start, adopt_tasks::find_tasks, event_recovery::recover_events};
use crate::{
    core::{Blueprint, Environment, Observed},
    driver::{Driver, DriverError, FoundSandbox, SandboxLabel},
    limits,
    store::{NewSandbox, Secret},
};
use protocol::api::{SandboxId, SandboxStatus};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// After a driver could not tell: first, longest.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How long the logs of one sandbox may keep the others waiting. Whoever ends its tasks reads the rest.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Whether somebody must look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Adoption {
    Done,
    /// Its backend does not answer now.
    Retry,
}

impl Fleet {
    /// Sandboxes with our authenticated badge and no row were made by us and lost with a database.
    pub(super) async fn adopt(&self) {
        for driver in self.drivers().all() {
            if self.adopt_from(driver).await == Adoption::Retry {
                self.retry_adoption(driver.clone());
            }
        }
    }

    /// What cannot be told now is told when the backend is back.
    fn retry_adoption(&self, driver: Arc<dyn Driver>) {
        warn!(driver = driver.name(), "sandboxes that the database does not know are looked for again");
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
                debug!(driver = driver.name(), %error, "could not list sandboxes");
                return Adoption::Retry;
            }
        };
        let mut all = Adoption::Done;
        for one in found {
            match one {
                FoundSandbox::Ours { label, blueprint } => {
                    if self.adopt_one(driver.as_ref(), label, *blueprint).await == Adoption::Retry {
                        all = Adoption::Retry;
                    }
                }
                FoundSandbox::Suspect { name, why } => warn!(name, why, "left alone: not ours, or damaged"),
            }
        }
        all
    }

    async fn adopt_one(&self, driver: &dyn Driver, label: SandboxLabel, blueprint: Blueprint) -> Adoption {
        let id = label.sandbox;
        match self.store().sandbox(&id).await {
            Ok(None) => {}
            // Destroyed, and what is left is from a crash in between.
            Ok(Some(record)) if record.state.status == SandboxStatus::Destroyed => {
                if let Err(error) = driver.destroy(&id, record.keep_workspace).await {
                    warn!(sandbox = %id, %error, "could not take away what is left of a destroyed sandbox");
                }
                return Adoption::Done;
            }
            Ok(Some(_)) => return Adoption::Done,
            Err(error) => {
                warn!(sandbox = %id, %error, "could not look up a sandbox that was found");
                return Adoption::Done;
            }
        }
        // Somebody may have stopped it: taken for one that should run, it would be in error.
        let observed = match self.inspect(driver, &id).await {
            // The next hostd of that namespace adopts it.
            Ok(Observed::OtherPidNamespace) => {
                let error = DriverError::OtherPidNamespace { sandbox: id };
                warn!(sandbox = %id, %error, "sandbox not adopted");
                return Adoption::Done;
            }
            Ok(observed) => observed,
            Err(error) => {
                debug!(sandbox = %id, %error, "could not look at a sandbox that is to be adopted");
                return Adoption::Retry;
            }
        };
        self.adopt_record(driver, adopted_sandbox(label, blueprint, &observed, self.clock().now_ms())).await;
        Adoption::Done
    }

    async fn inspect(&self, driver: &dyn Driver, id: &SandboxId) -> Result<Observed, DriverError> {
        let after_ms = self.timing().freeze_ms;
        let inspected = timeout(Duration::from_millis(after_ms), driver.inspect(id)).await;
        let container =
            inspected.unwrap_or(Err(DriverError::TimedOut { what: "an inspection", after_ms }))?;
        Ok(container.observed(false))
    }

    /// Writes it down with its tasks, so that whoever is cut off here leaves nothing that is not taken up, and
    /// then takes over what happened.
    async fn adopt_record(&self, driver: &dyn Driver, new: NewSandbox) {
        let (id, logs) = (new.id, driver.logs(&new.id));
        let tasks = match &logs {
            Some(logs) => find_tasks(logs.clone()).await,
            None => Vec::new(),
        };
        let count = tasks.len();
        let record = match self.store().adopt_sandbox(new, tasks).await {
            Ok(record) => record,
            Err(error) => return warn!(sandbox = %id, %error, "could not adopt"),
        };
        info!(sandbox = %id, tasks = count, status = ?record.state.status,
            "adopted: it was there and the database did not know it");
        if let Some(logs) = logs {
            match timeout(RECOVERY_MAX, recover_events(self.store(), logs, &id)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(sandbox = %id, %error, "could not take over what happened in it"),
                Err(_) => warn!(sandbox = %id, "what happened in it is taken over later"),
            }
        }
        // As it is now: it was followed meanwhile.
        match self.store().sandbox(&id).await {
            Ok(Some(record)) => drop(self.spawn_actor(record, Start::Resumed)),
            Ok(None) | Err(_) => drop(self.spawn_actor(record, Start::Resumed)),
        }
        if let Err(error) = self.resume_tasks_of(id).await {
            warn!(sandbox = %id, %error, "could not take up its tasks");
        }
    }
}

/// A sandbox as its badge and a look show it.
fn adopted_sandbox(
    label: SandboxLabel,
    blueprint: Blueprint,
    observed: &Observed,
    now_ms: u64,
) -> NewSandbox {
    let SandboxLabel { sandbox: id, name, owner, scope, created_ms, details } = label;
    let (metadata, expires_ms) = match details {
        Some(details) => (details.metadata, details.expires_ms),
        None => (Default::default(), blueprint.ttl_ms.map(|ttl_ms| created_ms.saturating_add(ttl_ms))),
    };
    let soonest_ms = now_ms.saturating_add(limits::ADOPTED_KEEP_MS);
    NewSandbox {
        id,
        name,
        owner,
        scope,
        blueprint: Arc::new(blueprint),
        metadata,
        env: Secret(Environment::lost()),
        state: observed.adopted_state(),
        created_ms,
        expires_ms: expires_ms.map(|expires_ms| expires_ms.max(soonest_ms)),
    }
}
