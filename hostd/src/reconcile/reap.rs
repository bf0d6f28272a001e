//! Removes what destroyed sandboxes left. Records say what may go (`core::reap`), drivers find and remove it. Suspects
//! are never listed by a driver, and so never touched.

use super::{Fleet, FleetError};
use hostd_core::{RecordOf, reap_reason};
use hostd_drivers::{Driver, DriverError, Leftover};
use protocol::api::{LeftoverKind, ReapItem, ReapReport, SandboxId, SandboxStatus, Unasked};
use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::timeout;
use tracing::{info, warn};

/// Items of one report, and how long one driver may take to list its own.
const ITEMS_MAX: usize = 1_000;
const LIST_MAX_MS: u64 = 10_000;
/// How long measuring, and removing, one item may take.
const MEASURE_MAX: Duration = Duration::from_secs(5);
const REMOVE_MAX_MS: u64 = 60_000;

impl Fleet {
    /// Lists what would be removed; with `apply`, removes it.
    pub async fn reap(&self, apply: bool) -> Result<ReapReport, FleetError> {
        let mut report = ReapReport { applied: apply, ..ReapReport::default() };
        // Local drivers share the trash.
        let mut trash = HashSet::new();
        for driver in self.drivers().all() {
            let leftovers = match list(driver).await {
                Ok(leftovers) => leftovers,
                Err(error) => {
                    report.unasked.push(Unasked { driver: driver.name().to_owned(), why: error.to_string() });
                    continue;
                }
            };
            for leftover in leftovers {
                if leftover.kind == LeftoverKind::Trash && !trash.insert(leftover.name.clone()) {
                    continue;
                }
                let Some(reason) = self.reap_reason(&leftover).await? else { continue };
                if report.items.len() >= ITEMS_MAX {
                    report.more = true;
                    return Ok(report);
                }
                let item = self.reap_one(driver, &leftover, reason, apply).await;
                if item.error.is_none() {
                    report.bytes = report.bytes.saturating_add(item.bytes);
                }
                report.items.push(item);
            }
        }
        Ok(report)
    }

    /// The sandboxes of which anything is left on a backend; `None` while one of them does not say.
    pub async fn sandboxes_with_leftovers(&self) -> Option<BTreeSet<SandboxId>> {
        let mut found = BTreeSet::new();
        for driver in self.drivers().all() {
            let leftovers = list(driver).await.ok()?;
            found.extend(leftovers.into_iter().filter_map(|leftover| leftover.sandbox));
        }
        Some(found)
    }

    /// Why a leftover may be removed, by the record of its sandbox. A destroyed sandbox stays destroyed, and its id is
    /// never used again: what is true here stays true.
    async fn reap_reason(&self, leftover: &Leftover) -> Result<Option<&'static str>, FleetError> {
        let record = match &leftover.sandbox {
            None => RecordOf::Missing,
            Some(id) => match self.store().sandbox(id).await? {
                None => RecordOf::Missing,
                Some(record) if record.state.status == SandboxStatus::Destroyed => {
                    RecordOf::Destroyed { keep_workspace: record.keep_workspace }
                }
                Some(_) => RecordOf::Live,
            },
        };
        let now_ms = self.clock().now_ms();
        let age_ms = leftover.thrown_ms.map(|thrown_ms| now_ms.saturating_sub(thrown_ms));
        Ok(reap_reason(leftover.kind, record, age_ms))
    }

    async fn reap_one(
        &self,
        driver: &Arc<dyn Driver>,
        leftover: &Leftover,
        reason: &str,
        apply: bool,
    ) -> ReapItem {
        let measured = timeout(MEASURE_MAX, driver.leftover_bytes(leftover)).await;
        let bytes = measured.ok().and_then(Result::ok).unwrap_or(0);
        let removed = if apply { remove(driver, leftover).await } else { Ok(()) };
        let (name, kind) = (&leftover.name, leftover.kind);
        match &removed {
            Ok(()) if apply => info!(driver = driver.name(), name, ?kind, bytes, reason, "leftover removed"),
            Ok(()) => {}
            Err(error) => warn!(driver = driver.name(), name, ?kind, %error, "failed to remove a leftover"),
        }
        ReapItem {
            driver: driver.name().to_owned(),
            kind,
            name: name.clone(),
            sandbox: leftover.sandbox,
            bytes,
            reason: reason.to_owned(),
            error: removed.err().map(|error| error.to_string()),
        }
    }
}

async fn list(driver: &Arc<dyn Driver>) -> Result<Vec<Leftover>, DriverError> {
    let late = || DriverError::TimedOut { what: "a list of leftovers", after_ms: LIST_MAX_MS };
    timeout(Duration::from_millis(LIST_MAX_MS), driver.leftovers()).await.unwrap_or_else(|_| Err(late()))
}

async fn remove(driver: &Arc<dyn Driver>, leftover: &Leftover) -> Result<(), DriverError> {
    let late = || DriverError::TimedOut { what: "removing a leftover", after_ms: REMOVE_MAX_MS };
    let removed = timeout(Duration::from_millis(REMOVE_MAX_MS), driver.remove_leftover(leftover)).await;
    removed.unwrap_or_else(|_| Err(late()))
}
