//! Keeps quotas of disk and events: measures what only measuring tells, and deletes the oldest events beyond a quota.
//! Nothing is measured for owners without such a quota.

use super::{Fleet, FleetError, fleet::Record};
use hostd_core::{
    QuotaBook, counts_as_up,
    limits::{QUOTA_PAUSE_FACTOR, QUOTA_POLL_MS},
};
use hostd_store::LogOwner;
use protocol::api::{Label, Quota, QuotaResource, SandboxId};
use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
    time::Duration,
};
use tokio::{
    sync::{self, Notify},
    time::{Instant, sleep},
};
use tracing::{debug, info, warn};

/// What is known about the sizes of workspaces, and who waits for a change of quotas.
#[derive(Default)]
pub(super) struct QuotaWatch {
    /// Sandboxes whose files were changed from outside since they were measured.
    changed_files: Mutex<HashSet<SandboxId>>,
    quotas_changed: Notify,
    /// Held while quotas are put into force, so that older ones do not overtake newer ones.
    applying: sync::Mutex<()>,
}

/// A measure: of which generation of the record, and its result.
type Measured = HashMap<SandboxId, (u64, u64)>;

impl Fleet {
    /// Puts the quotas of the store into force where they are kept in memory. Call it when they have changed.
    pub async fn apply_quotas(&self) -> Result<(), FleetError> {
        let _guard = self.quota_watch().applying.lock().await;
        let book = self.store().quota_book().await?;
        self.targets().quotas().set(book);
        self.quota_watch().quotas_changed.notify_one();
        self.runners().notify_room();
        Ok(())
    }

    /// Returns the open connections to previews of a tenant, or of one principal.
    pub fn preview_connections(&self, tenant: &Label, principal: Option<&Label>) -> u64 {
        self.targets().quotas().open(tenant, principal)
    }

    /// Notes that files of a sandbox were changed through the API: it is measured again, also while it sleeps.
    pub fn note_files_changed(&self, id: &SandboxId) {
        self.quota_watch().changed_files.lock().expect("no panic while held").insert(*id);
    }

    /// Measures until hostd ends.
    pub async fn watch_quotas(&self) {
        let mut measured = Measured::new();
        loop {
            let begun = Instant::now();
            if let Err(error) = self.keep_quotas(&mut measured).await {
                warn!(%error, "failed to measure the use of quotas");
            }
            let pause = Duration::from_millis(QUOTA_POLL_MS).max(begun.elapsed() * QUOTA_PAUSE_FACTOR);
            tokio::select! {
                // Both only wait.
                () = sleep(pause) => {}
                () = self.quota_watch().quotas_changed.notified() => {}
            }
        }
    }

    async fn keep_quotas(&self, measured: &mut Measured) -> Result<(), FleetError> {
        let changed =
            std::mem::take(&mut *self.quota_watch().changed_files.lock().expect("no panic while held"));
        measured.retain(|id, _| !changed.contains(id));
        let book = self.store().quota_book().await?;
        if book.limits_anyone(QuotaResource::DiskMb) {
            self.measure_workspaces(&book, measured).await?;
        }
        let needs_log = |tenant: &Label| {
            let limits = |resource| book.limits_in(tenant, resource);
            limits(QuotaResource::DiskMb) || limits(QuotaResource::EventsMb)
        };
        let any = book.limits_anyone(QuotaResource::DiskMb) || book.limits_anyone(QuotaResource::EventsMb);
        let tenants = if any { self.store().tenants().await? } else { Vec::new() };
        for tenant in tenants.iter().filter(|tenant| needs_log(tenant)) {
            self.store().measure_log(tenant).await?;
            if self.trim_logs(&book, tenant).await? {
                self.store().measure_log(tenant).await?;
            }
        }
        Ok(())
    }

    /// Measures sandboxes that are up, and those that sleep once.
    async fn measure_workspaces(&self, book: &QuotaBook, measured: &mut Measured) -> Result<(), FleetError> {
        let records = self.records();
        let limited = |record: &&Record| {
            !record.other_pid_namespace && book.limits(&record.owner, QuotaResource::DiskMb)
        };
        let mut sizes = Vec::new();
        for record in records.iter().filter(limited) {
            let (id, before) = (record.id, measured.get(&record.id).copied());
            if !counts_as_up(&record.state)
                && before.is_some_and(|(generation, _)| generation == record.generation)
            {
                continue;
            }
            let bytes = match self.driver_of(record).workspace_bytes(&id).await {
                Ok(bytes) => bytes.unwrap_or(0),
                Err(error) => {
                    // Files come and go while they are counted.
                    debug!(sandbox = %id, %error, "failed to measure a workspace");
                    continue;
                }
            };
            measured.insert(id, (record.generation, bytes));
            if before.is_none_or(|(_, earlier)| earlier != bytes) {
                sizes.push((id, bytes));
            }
        }
        let living: HashSet<SandboxId> = records.iter().map(|record| record.id).collect();
        measured.retain(|id, _| living.contains(id));
        if !sizes.is_empty() {
            self.store().record_workspace_sizes(sizes).await?;
        }
        Ok(())
    }

    /// Deletes the oldest events beyond the quotas of a tenant and its principals. Returns whether any were.
    async fn trim_logs(&self, book: &QuotaBook, tenant: &Label) -> Result<bool, FleetError> {
        let used = self.store().use_by_owner(Some(tenant.clone())).await?;
        let principals = used.iter().map(|((_, principal), usage)| {
            let (quota, _) = book.of_principal(tenant, principal);
            (quota, Some(principal.clone()), usage.log_bytes)
        });
        let mut freed = 0;
        for (quota, principal, bytes) in principals {
            freed += self.trim_log(tenant, principal, excess_bytes(&quota, bytes)).await?;
        }
        let (quota, _) = book.of_tenant(tenant);
        let whole: u64 = used.values().map(|usage| usage.log_bytes).sum();
        freed += self.trim_log(tenant, None, excess_bytes(&quota, whole.saturating_sub(freed))).await?;
        Ok(freed > 0)
    }

    async fn trim_log(
        &self,
        tenant: &Label,
        principal: Option<Label>,
        excess_bytes: u64,
    ) -> Result<u64, FleetError> {
        if excess_bytes == 0 {
            return Ok(0);
        }
        let owner = LogOwner { tenant: tenant.clone(), principal };
        let freed_bytes = self.store().trim_log(&owner, excess_bytes).await?;
        if freed_bytes > 0 {
            info!(?owner, freed_bytes, "deleted the oldest events beyond a quota");
        }
        Ok(freed_bytes)
    }
}

/// Returns how many bytes of events are beyond the quota.
fn excess_bytes(quota: &Quota, log_bytes: u64) -> u64 {
    quota.events_mb.map_or(0, |limit_mb| log_bytes.saturating_sub(limit_mb.saturating_mul(1 << 20)))
}
