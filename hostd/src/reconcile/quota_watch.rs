//! Keeps quotas of disk and events: measures what only measuring tells, and deletes the oldest events beyond a quota.
//! Nothing is measured for owners without such a quota.

use super::{Fleet, FleetError, fleet::Record, snapshots::snapshots_of};
use hostd_core::{
    QuotaBook, counts_as_up,
    limits::{QUOTA_PAUSE_FACTOR, QUOTA_PAUSE_MAX_MS, QUOTA_POLL_MS},
};
use hostd_drivers::LayerCharges;
use hostd_store::LogOwner;
use protocol::api::{Label, Quota, QuotaResource, SandboxId};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{self, Notify},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

/// The longest that an operation waits until layers are measured; that goes on without it.
const LAYERS_WAIT_MAX: Duration = Duration::from_secs(2);

/// What is known about the sizes of workspaces, and who waits for a change of quotas.
#[derive(Default)]
pub(super) struct QuotaWatch {
    /// Sandboxes whose files were changed from outside since they were measured.
    changed_files: Mutex<HashSet<SandboxId>>,
    files_changed: Notify,
    quotas_changed: Notify,
    /// Held while quotas are put into force, so that older ones do not overtake newer ones.
    applying: sync::Mutex<()>,
    /// Sandboxes of which snapshots are taken, once for each: what they wrote may become a layer.
    captured: Mutex<Vec<SandboxId>>,
    /// How often it was asked for a measure of the layers.
    layers_asked: AtomicU64,
    /// Held while layers are measured.
    layers: sync::Mutex<LayersMeasured>,
}

/// The newest measure of the layers.
#[derive(Default)]
struct LayersMeasured {
    recorded: Option<LayerCharges>,
    /// Of [`QuotaWatch::layers_asked`], those before it began.
    answers: u64,
}

/// What is to be measured next.
enum Due {
    All,
    /// Only workspaces whose files were changed from outside: a caller that deletes files waits for the room.
    ChangedFiles,
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
        self.quota_watch().files_changed.notify_one();
    }

    /// Measures until hostd ends.
    pub async fn watch_quotas(&self) {
        let (mut measured, mut due, mut all_at) = (Measured::new(), Due::All, Instant::now());
        loop {
            let begun = Instant::now();
            let kept = match due {
                Due::All => self.keep_quotas(&mut measured).await,
                Due::ChangedFiles => self.measure_changed(&mut measured).await,
            };
            if let Err(error) = kept {
                warn!(%error, "failed to measure the use of quotas");
            }
            let rested_at = Instant::now() + pause_after(begun.elapsed());
            if matches!(due, Due::All) {
                all_at = rested_at.max(begun + Duration::from_millis(QUOTA_POLL_MS));
            }
            due = self.next_due(all_at, rested_at).await;
        }
    }

    async fn next_due(&self, all_at: Instant, rested_at: Instant) -> Due {
        let watch = self.quota_watch();
        let files_changed = async {
            sleep_until(rested_at).await;
            watch.files_changed.notified().await;
        };
        tokio::select! {
            // All of them only wait.
            () = sleep_until(all_at) => Due::All,
            () = watch.quotas_changed.notified() => Due::All,
            () = files_changed => Due::ChangedFiles,
        }
    }

    /// Forgets the measures of workspaces that were changed, and returns which those are.
    fn take_changed(&self, measured: &mut Measured) -> HashSet<SandboxId> {
        let changed =
            std::mem::take(&mut *self.quota_watch().changed_files.lock().expect("no panic while held"));
        measured.retain(|id, _| !changed.contains(id));
        changed
    }

    async fn measure_changed(&self, measured: &mut Measured) -> Result<(), FleetError> {
        let book = self.store().quota_book().await?;
        let changed = self.take_changed(measured);
        self.measure_workspaces(&book, measured, |id| changed.contains(id)).await
    }

    async fn keep_quotas(&self, measured: &mut Measured) -> Result<(), FleetError> {
        self.take_changed(measured);
        let book = self.store().quota_book().await?;
        if book.limits_anyone(QuotaResource::DiskMb) {
            self.measure_workspaces(&book, measured, |_| true).await?;
            self.charge_layers().await?;
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
    async fn measure_workspaces(
        &self,
        book: &QuotaBook,
        measured: &mut Measured,
        chosen: impl Fn(&SandboxId) -> bool,
    ) -> Result<(), FleetError> {
        let records = self.records();
        let limited = |record: &&Record| {
            chosen(&record.id)
                && !record.other_pid_namespace
                && book.limits(&record.owner, QuotaResource::DiskMb)
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

    /// Notes that a snapshot of a sandbox is about to be taken: from now on its workspace is measured with the layers, so
    /// that no byte counts as both. Call `note_captured` when the layers were charged.
    pub(super) fn note_capturing(&self, id: SandboxId) {
        self.quota_watch().captured.lock().expect("no panic while held").push(id);
    }

    pub(super) fn note_captured(&self, id: &SandboxId) {
        let mut captured = self.quota_watch().captured.lock().expect("no panic while held");
        if let Some(at) = captured.iter().position(|other| other == id) {
            captured.swap_remove(at);
        }
    }

    /// As `charge_layers_now`; goes on in the background where it takes long.
    pub(super) async fn charge_layers_soon(&self) {
        let fleet = self.clone();
        let charged = self.spawn_with_reply(async move { fleet.charge_layers_now().await });
        // Either way nothing waits for it any more.
        let _ = timeout(LAYERS_WAIT_MAX, charged).await;
    }

    /// Measures layers after a change of them, where a quota counts them.
    pub(super) async fn charge_layers_now(&self) {
        let charged = async {
            if self.store().quota_book().await?.limits_anyone(QuotaResource::DiskMb) {
                self.charge_layers().await?;
            }
            Ok::<_, FleetError>(())
        };
        if let Err(error) = charged.await {
            warn!(%error, "failed to measure the layers of workspaces");
        }
    }

    /// Records for whom layers count, and with them the sizes of workspaces of which something may have become one.
    async fn charge_layers(&self) -> Result<(), FleetError> {
        let Ok(driver) = self.snapshot_driver() else { return Ok(()) };
        let watch = self.quota_watch();
        let asked = watch.layers_asked.fetch_add(1, Ordering::Relaxed) + 1;
        let mut measured = watch.layers.lock().await;
        if measured.answers >= asked {
            return Ok(());
        }
        let answers = watch.layers_asked.load(Ordering::Relaxed);
        let charges = snapshots_of(&driver)?.layer_charges().await?;
        // After the layers: what becomes one in between is not counted for a moment, rather than twice.
        let captured = watch.captured.lock().expect("no panic while held").clone();
        let mut workspaces = BTreeMap::new();
        for sandbox in captured {
            workspaces.extend(self.workspace_size(&sandbox).await);
        }
        if !workspaces.is_empty() || measured.recorded.as_ref() != Some(&charges) {
            let LayerCharges { snapshots, sandboxes } = charges.clone();
            self.store().record_layer_sizes(snapshots, sandboxes, workspaces).await?;
        }
        *measured = LayersMeasured { recorded: Some(charges), answers };
        Ok(())
    }

    /// The size of a workspace; `None` where it cannot be measured, as that of a sandbox that is gone.
    async fn workspace_size(&self, sandbox: &SandboxId) -> Option<(SandboxId, u64)> {
        let record = self.record(sandbox).await.ok()?;
        let bytes = self.driver_of(&record).workspace_bytes(sandbox).await.ok()??;
        Some((*sandbox, bytes))
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

/// Returns how long measuring rests after it took this long.
fn pause_after(elapsed: Duration) -> Duration {
    let most = Duration::from_millis(QUOTA_PAUSE_MAX_MS).max(elapsed);
    elapsed.saturating_mul(QUOTA_PAUSE_FACTOR).min(most)
}

/// Returns how many bytes of events are beyond the quota.
fn excess_bytes(quota: &Quota, log_bytes: u64) -> u64 {
    quota.events_mb.map_or(0, |limit_mb| log_bytes.saturating_sub(limit_mb.saturating_mul(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measuring_rests_long_but_not_for_minutes() {
        for (elapsed_ms, pause_ms) in [(0, 0), (10, 200), (500, 10_000), (5_000, 15_000), (60_000, 60_000)] {
            let pause = pause_after(Duration::from_millis(elapsed_ms));
            assert_eq!(pause, Duration::from_millis(pause_ms), "after {elapsed_ms} ms");
        }
    }
}
