//! Sandboxes that are there and that the database does not know, because it was lost. They are taken up by
//! what is beside them: owner, name and blueprint by their authenticated badge, tasks and events by the logs
//! of their runtimed. What only the database had (environment, prompts, what was used of models) is gone.

use super::{Fleet, found_tasks::found_tasks, salvage::salvage};
use crate::{
    core::{Blueprint, Container, Environment},
    driver::{Badge, Driver, DriverError, Found, Sight},
    limits,
    store::{NewSandbox, Secret},
};
use protocol::api::{SandboxId, SandboxStatus};
use std::{sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// After a driver could not tell: first, longest.
const AGAIN_MIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// How long the logs of one sandbox may keep the others waiting. Whoever ends its tasks reads the rest.
const SALVAGE_MAX: Duration = Duration::from_secs(10);

/// Whether somebody must look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Settled,
    /// Its backend does not answer now.
    Later,
}

impl Fleet {
    /// Sandboxes with our authenticated badge and no row were made by us and lost with a database.
    pub(super) async fn adopt(&self) {
        for driver in self.drivers().all() {
            if self.adopt_from(driver).await == Taken::Later {
                self.adopt_later(driver.clone());
            }
        }
    }

    /// What cannot be told now is told when the backend is back.
    fn adopt_later(&self, driver: Arc<dyn Driver>) {
        warn!(driver = driver.name(), "sandboxes that the database does not know are looked for again");
        let fleet = self.clone();
        self.spawn(async move {
            let mut pause = AGAIN_MIN;
            loop {
                sleep(pause).await;
                pause = (pause * 2).min(AGAIN_MAX);
                if fleet.adopt_from(&driver).await == Taken::Settled {
                    return;
                }
            }
        });
    }

    async fn adopt_from(&self, driver: &Arc<dyn Driver>) -> Taken {
        let found = match driver.list().await {
            Ok(found) => found,
            Err(error) => {
                debug!(driver = driver.name(), %error, "could not list sandboxes");
                return Taken::Later;
            }
        };
        let mut all = Taken::Settled;
        for one in found {
            match one {
                Found::Ours { badge, blueprint } => {
                    if self.adopt_one(driver.as_ref(), badge, *blueprint).await == Taken::Later {
                        all = Taken::Later;
                    }
                }
                Found::Suspect { name, why } => warn!(name, why, "left alone: not ours, or damaged"),
            }
        }
        all
    }

    async fn adopt_one(&self, driver: &dyn Driver, badge: Badge, blueprint: Blueprint) -> Taken {
        let id = badge.sandbox;
        match self.store().sandbox(&id).await {
            Ok(None) => {}
            // Destroyed, and what is left is from a crash in between.
            Ok(Some(record)) if record.state.status == SandboxStatus::Destroyed => {
                if let Err(error) = driver.erase(&id, record.keep_workspace).await {
                    warn!(sandbox = %id, %error, "could not take away what is left of a destroyed sandbox");
                }
                return Taken::Settled;
            }
            Ok(Some(_)) => return Taken::Settled,
            Err(error) => {
                warn!(sandbox = %id, %error, "could not look up a sandbox that was found");
                return Taken::Settled;
            }
        }
        // Somebody may have stopped it: taken for one that should run, it would be in error.
        let container = match self.glance(driver, &id).await {
            // The next hostd of that namespace adopts it.
            Ok(Container::OtherPidNamespace) => {
                let error = DriverError::OtherPidNamespace { sandbox: id };
                warn!(sandbox = %id, %error, "sandbox not adopted");
                return Taken::Settled;
            }
            Ok(container) => container,
            Err(error) => {
                debug!(sandbox = %id, %error, "could not look at a sandbox that is to be adopted");
                return Taken::Later;
            }
        };
        self.take_in(driver, newly_known(badge, blueprint, &container, self.clock().now_ms())).await;
        Taken::Settled
    }

    async fn glance(&self, driver: &dyn Driver, id: &SandboxId) -> Result<Container, DriverError> {
        let after_ms = self.timing().freeze_ms;
        let sight = timeout(Duration::from_millis(after_ms), driver.look(id)).await;
        Ok(match sight.unwrap_or(Err(DriverError::TimedOut { what: "a look", after_ms }))? {
            Sight::Absent => Container::Absent,
            Sight::Launching => Container::Launching,
            Sight::Running { frozen, .. } => Container::Running { frozen, ready: false },
            Sight::Dead(death) => Container::Dead(death),
            Sight::OtherPidNamespace => Container::OtherPidNamespace,
        })
    }

    /// Writes it down with its tasks, so that whoever is cut off here leaves nothing that is not taken up, and
    /// then takes over what happened.
    async fn take_in(&self, driver: &dyn Driver, new: NewSandbox) {
        let (id, logs) = (new.id, driver.logs(&new.id));
        let tasks = match &logs {
            Some(logs) => found_tasks(logs.clone()).await,
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
            match timeout(SALVAGE_MAX, salvage(self.store(), logs, &id)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(sandbox = %id, %error, "could not take over what happened in it"),
                Err(_) => warn!(sandbox = %id, "what happened in it is taken over later"),
            }
        }
        // As it is now: it was followed meanwhile.
        match self.store().sandbox(&id).await {
            Ok(Some(record)) => drop(self.own(record, false)),
            Ok(None) | Err(_) => drop(self.own(record, false)),
        }
        if let Err(error) = self.take_up_tasks_of(id).await {
            warn!(sandbox = %id, %error, "could not take up its tasks");
        }
    }
}

/// A sandbox as its badge and a look show it.
fn newly_known(badge: Badge, blueprint: Blueprint, container: &Container, now_ms: u64) -> NewSandbox {
    let Badge { sandbox: id, name, owner, scope, created_ms, particulars } = badge;
    let (metadata, expires_ms) = match particulars {
        Some(told) => (told.metadata, told.expires_ms),
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
        state: container.state_found(),
        created_ms,
        expires_ms: expires_ms.map(|expires_ms| expires_ms.max(soonest_ms)),
    }
}
