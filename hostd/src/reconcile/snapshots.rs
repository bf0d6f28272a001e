//! Snapshots of sandboxes: taken, hashed and removed, and finished after hostd was killed.
//!
//! ```text
//! row `creating` ─▶ prepare ─▶ (actor: freeze ─▶ capture ─▶ thaw) ─▶ publish ─▶ row `ready` ─▶ hash
//! ```
//!
//! A snapshot whose row is not `ready` is not listed. When hostd starts, one that was published becomes `ready`, and one
//! that was not is forgotten.

use super::{
    Fleet, FleetError, SnapshotRoom,
    actor::{ActorMessage, SandboxActor},
    fleet::{Inner, Record},
};
use hostd_core::TransitionRefused;
use hostd_drivers::{
    CaptureOrder, CaptureOutcome, ContainerState, CopyExtent, Driver, DriverError, Excludes, SnapshotDriver,
};
use hostd_store::{SnapshotRetention, SnapshotRow, Store, failpoint};
use protocol::api::{SandboxId, SandboxStatus, SnapshotId, SnapshotState};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit, oneshot},
    time::timeout,
};
use tracing::warn;

/// Snapshots that are copied, that are hashed, and that are listed, at once.
const COPIES_AT_ONCE: usize = 2;
const HASHES_AT_ONCE: usize = 1;
const LISTS_AT_ONCE: usize = 2;
/// Preparations of one snapshot; then everything is copied while the sandbox waits.
const PREPARATIONS_MAX: u32 = 3;
/// The longest that a removal waits until what it freed is known: others may have large layers to be measured.
const FORGOTTEN_WAIT_MAX: Duration = Duration::from_secs(2);

/// What is under way.
pub(super) struct SnapshotWork {
    copies: Semaphore,
    pub(super) hashes: Semaphore,
    pub(super) lists: Semaphore,
    pub retention: SnapshotRetention,
}

impl SnapshotWork {
    pub fn new(retention: SnapshotRetention) -> Self {
        Self {
            copies: Semaphore::new(COPIES_AT_ONCE),
            hashes: Semaphore::new(HASHES_AT_ONCE),
            lists: Semaphore::new(LISTS_AT_ONCE),
            retention,
        }
    }
}

impl Fleet {
    /// Takes the snapshot of a sandbox whose row was written. Goes on when the caller is gone; `permit` is held until its end.
    pub async fn take_snapshot(
        &self,
        row: SnapshotRow,
        (sandbox, excludes): (SandboxId, Excludes),
        permit: impl Send + 'static,
    ) -> Result<SnapshotRow, FleetError> {
        let fleet = self.clone();
        self.run_to_end(async move {
            let _permit = permit;
            let room = SnapshotRoom::new(fleet.clone(), row.id, row.owner.clone());
            let order = CaptureOrder {
                sandbox,
                snapshot: row.id,
                excludes: Arc::new(excludes),
                room: SnapshotRoom::for_copies(&room),
            };
            fleet.take(&order, &room).await
        })
        .await
    }

    async fn take(&self, order: &CaptureOrder, room: &SnapshotRoom) -> Result<SnapshotRow, FleetError> {
        let (store, snapshot) = (&self.inner().store, &order.snapshot);
        self.note_capturing(order.sandbox);
        let frozen_ms = match self.capture_and_publish(order, room).await {
            Ok(frozen_ms) => frozen_ms,
            Err(error) => {
                self.abandon(&order.sandbox, snapshot).await;
                self.note_captured(&order.sandbox);
                // Says more than the error of the driver that was told of it.
                return Err(room.take_refusal().unwrap_or(error));
            }
        };
        let taken = store.snapshot_taken(snapshot, frozen_ms).await;
        taken.inspect_err(|_| self.note_captured(&order.sandbox))?;
        // What was the sandbox's own is a layer now.
        self.note_files_changed(&order.sandbox);
        self.hash_later(*snapshot, Some(order.sandbox));
        self.remove_expired_snapshots().await;
        store.snapshot(snapshot).await?.ok_or(FleetError::NotFound)
    }

    /// Returns for how long the sandbox was frozen, in milliseconds.
    pub(super) async fn capture_and_publish(
        &self,
        order: &CaptureOrder,
        room: &SnapshotRoom,
    ) -> Result<u64, FleetError> {
        let record = self.record(&order.sandbox).await?;
        let driver = self.driver_of(&record);
        let verbs = snapshots_of(&driver)?;
        // Held until what is copied is on disk.
        let mut copying = None;
        let frozen_ms = self.prepare_and_capture(verbs, (&record, room), order, &mut copying).await?;
        failpoint::hit("snapshot.thawed");
        verbs.publish(&order.snapshot).await?;
        failpoint::hit("snapshot.published");
        Ok(frozen_ms)
    }

    /// Prepares again where a capture would copy everything while the sandbox waits, but not for ever. One that copies
    /// nothing waits for no other.
    async fn prepare_and_capture<'f>(
        &'f self,
        verbs: &dyn SnapshotDriver,
        (record, room): (&Record, &SnapshotRoom),
        order: &CaptureOrder,
        copying: &mut Option<SemaphorePermit<'f>>,
    ) -> Result<u64, FleetError> {
        let mut frozen_ms = 0;
        for attempt in 0..PREPARATIONS_MAX {
            // At rest most snapshots take no copy.
            if attempt > 0 || record.state.status != SandboxStatus::Stopped {
                if copying.is_none() {
                    *copying = self.inner().snapshots.copies.acquire().await.ok();
                    // Others may have taken it meanwhile.
                    room.check(0).await?;
                }
                verbs.prepare_capture(order).await?;
                failpoint::hit("snapshot.prepared");
            }
            let (outcome, more_ms) = self.capture(order, CopyExtent::Changes).await?;
            frozen_ms += more_ms;
            match outcome {
                CaptureOutcome::Captured => return Ok(frozen_ms),
                CaptureOutcome::PrepareAgain => {}
            }
        }
        let (_, more_ms) = self.capture(order, CopyExtent::Everything).await?;
        Ok(frozen_ms + more_ms)
    }

    /// Has the actor of the sandbox capture it, in the order of its other operations. Returns for how long the sandbox
    /// was frozen, too, in milliseconds.
    async fn capture(
        &self,
        order: &CaptureOrder,
        extent: CopyExtent,
    ) -> Result<(CaptureOutcome, u64), FleetError> {
        let (reply, replied) = oneshot::channel();
        self.message(&order.sandbox, ActorMessage::Capture(order.clone(), extent, reply)).await?;
        replied.await.unwrap_or(Err(FleetError::ShuttingDown))
    }

    pub(super) async fn abandon(&self, sandbox: &SandboxId, snapshot: &SnapshotId) {
        if let Ok(record) = self.record(sandbox).await
            && let Some(verbs) = self.driver_of(&record).snapshots()
            && let Err(error) = verbs.abandon(snapshot).await
        {
            warn!(%snapshot, %error, "failed to abandon a snapshot");
        }
        self.give_up(snapshot).await;
    }

    /// Removes what there is of a snapshot that is not taken, or not imported: it may have been published.
    pub async fn give_up(&self, snapshot: &SnapshotId) {
        if let Err(error) = self.remove_snapshot(snapshot).await {
            warn!(%snapshot, %error, "failed to remove a snapshot that was given up");
        }
    }

    /// The import is whole.
    pub async fn finish_import(&self, snapshot: &SnapshotId) -> Result<SnapshotRow, FleetError> {
        let store = &self.inner().store;
        store.snapshot_taken(snapshot, 0).await?;
        let row = store.snapshot(snapshot).await?.ok_or(FleetError::NotFound)?;
        if row.content.is_none() {
            self.hash_later(*snapshot, None);
        }
        Ok(row)
    }

    /// Removes a snapshot. It is not listed any more when its files begin to go.
    pub async fn remove_snapshot(&self, snapshot: &SnapshotId) -> Result<(), FleetError> {
        let (fleet, snapshot) = (self.clone(), *snapshot);
        self.run_to_end(async move {
            let store = &fleet.inner().store;
            store.hide_snapshot(&snapshot).await?;
            let driver = fleet.snapshot_driver()?;
            snapshots_of(&driver)?.remove(&snapshot).await?;
            failpoint::hit("snapshot.removed");
            let forgetting = fleet.clone();
            let forgotten = fleet.spawn_with_reply(async move {
                // Before it counts no more: its layers may count for others from now on.
                forgetting.charge_layers_now().await;
                forgetting.inner().store.forget_snapshot(&snapshot).await
            });
            match timeout(FORGOTTEN_WAIT_MAX, forgotten).await {
                Ok(Ok(forgotten)) => Ok(forgotten?),
                Ok(Err(_)) => Err(FleetError::ShuttingDown),
                // It is gone, and counts until that is known.
                Err(_) => Ok(()),
            }
        })
        .await
    }

    /// Removes the snapshots that retention keeps no longer.
    pub async fn remove_expired_snapshots(&self) {
        let inner = self.inner();
        let keep = inner.snapshots.retention;
        if keep == SnapshotRetention::default() {
            return;
        }
        let expired = inner.store.expired_snapshots(keep, inner.clock.now_ms()).await;
        for snapshot in expired.unwrap_or_default() {
            match self.remove_snapshot(&snapshot).await {
                Ok(()) => tracing::info!(%snapshot, "snapshot expired"),
                Err(error) => warn!(%snapshot, %error, "failed to remove an expired snapshot"),
            }
        }
    }

    /// Finishes what an earlier hostd began, and removes files that no snapshot needs.
    pub(super) async fn resume_snapshots(&self, unfinished: Vec<SnapshotRow>) -> Result<(), FleetError> {
        let Ok(driver) = self.snapshot_driver() else { return Ok(()) };
        let verbs = snapshots_of(&driver)?;
        for row in unfinished {
            if let Err(error) = self.resume_snapshot(verbs, &row).await {
                warn!(snapshot = %row.id, %error, "failed to finish a snapshot");
            }
        }
        if let Err(error) = verbs.sync_workspaces().await {
            warn!(%error, "failed to sync the workspaces of an earlier hostd");
        }
        self.remove_expired_snapshots().await;
        match verbs.remove_unreferenced_layers().await {
            Ok(0) => {}
            Ok(layers) => tracing::info!(layers, "removed layers that no snapshot needs"),
            Err(error) => warn!(%error, "failed to remove layers that no snapshot needs"),
        }
        Ok(())
    }

    async fn resume_snapshot(&self, verbs: &dyn SnapshotDriver, row: &SnapshotRow) -> Result<(), FleetError> {
        let store: &Store = &self.inner().store;
        match row.state {
            SnapshotState::Creating if !verbs.exists(&row.id).await? => {
                // A record that cannot be understood, if there is one.
                verbs.remove(&row.id).await?;
                store.forget_snapshot(&row.id).await?;
            }
            // An import that was cut off: what was published of it may not be what its note says.
            SnapshotState::Creating if row.sandbox.is_none() => {
                verbs.remove(&row.id).await?;
                store.forget_snapshot(&row.id).await?;
            }
            SnapshotState::Creating => {
                store.snapshot_taken(&row.id, row.frozen_ms).await?;
                row.sandbox.iter().for_each(|sandbox| self.note_capturing(*sandbox));
                self.hash_later(row.id, row.sandbox);
            }
            SnapshotState::Ready => self.hash_later(row.id, None),
            SnapshotState::Deleting => {
                verbs.remove(&row.id).await?;
                store.forget_snapshot(&row.id).await?;
            }
        }
        Ok(())
    }

    /// Any driver that has snapshots: all of them share the files.
    pub(super) fn snapshot_driver(&self) -> Result<Arc<dyn Driver>, FleetError> {
        let drivers = &self.inner().drivers;
        let found = drivers.all().iter().find(|driver| driver.snapshots().is_some());
        found.cloned().ok_or_else(|| no_snapshots().into())
    }

    /// Runs work to its end, whether or not the caller waits for it.
    pub async fn run_to_end<T: Send + 'static, E: From<FleetError> + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        self.spawn_with_reply(work).await.unwrap_or_else(|_| Err(FleetError::ShuttingDown.into()))
    }

    pub(super) fn spawn_with_reply<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, replied) = oneshot::channel();
        self.spawn(async move {
            // The caller may be gone.
            let _ = reply.send(work.await);
        });
        replied
    }
}

impl SandboxActor {
    /// Captures the sandbox. Returns for how long it was frozen, too, in milliseconds.
    pub(super) async fn capture(
        &self,
        order: &CaptureOrder,
        extent: CopyExtent,
    ) -> Result<(CaptureOutcome, u64), FleetError> {
        self.check_settled()?;
        if !self.restore.is_over() {
            return Err(FleetError::Restoring);
        }
        let (id, driver) = (self.id(), self.driver.clone());
        let verbs = snapshots_of(&driver)?;
        let outcome = match driver.inspect(&id).await? {
            ContainerState::Running { frozen: true, .. } => verbs.capture(order, false, extent).await?,
            ContainerState::Running { frozen: false, .. } => {
                let begun = Instant::now();
                let frozen = FrozenForCapture {
                    fleet: self.fleet.clone(),
                    driver: driver.clone(),
                    id,
                    is_thawed: false,
                };
                let captured = match driver.freeze(&id).await {
                    Ok(()) => verbs.capture(order, false, extent).await,
                    Err(error) => Err(error),
                };
                failpoint::hit("snapshot.captured");
                // Also after a capture that failed.
                let thawed = frozen.thaw().await;
                let outcome = captured?;
                thawed?;
                return Ok((outcome, u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)));
            }
            ContainerState::Absent | ContainerState::Dead(_) => verbs.capture(order, true, extent).await?,
            ContainerState::Launching | ContainerState::OtherPidNamespace => {
                return Err(FleetError::InProgress);
            }
        };
        Ok((outcome, 0))
    }

    pub(super) fn check_settled(&self) -> Result<(), FleetError> {
        let record = self.record();
        if record.state.status == SandboxStatus::Destroyed {
            return Err(TransitionRefused::Destroyed.into());
        }
        match record.state.operation {
            Some(_) => Err(FleetError::InProgress),
            None => Ok(()),
        }
    }
}

/// A sandbox that is frozen for a capture. Dropped before it is thawed, as when hostd is told to end, it is thawed by a
/// task that hostd waits for.
struct FrozenForCapture {
    fleet: Arc<Inner>,
    driver: Arc<dyn Driver>,
    id: SandboxId,
    is_thawed: bool,
}

impl FrozenForCapture {
    async fn thaw(mut self) -> Result<(), DriverError> {
        // On an error the drop tries once more.
        self.driver.thaw(&self.id).await?;
        self.is_thawed = true;
        Ok(())
    }
}

impl Drop for FrozenForCapture {
    fn drop(&mut self) {
        if self.is_thawed {
            return;
        }
        let (driver, id) = (self.driver.clone(), self.id);
        self.fleet.tasks.spawn(async move {
            if let Err(error) = driver.thaw(&id).await {
                warn!(sandbox = %id, %error, "failed to thaw a sandbox after a snapshot");
            }
        });
    }
}

pub(super) fn snapshots_of(driver: &Arc<dyn Driver>) -> Result<&dyn SnapshotDriver, DriverError> {
    driver.snapshots().ok_or_else(no_snapshots)
}

fn no_snapshots() -> DriverError {
    let message = "this driver takes no snapshots".to_owned();
    DriverError::Refused { field: "driver", message, supported: vec![] }
}
