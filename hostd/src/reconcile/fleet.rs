//! The handle to all sandboxes. It finds the actor of a sandbox and passes commands on; it performs nothing itself.

use super::{
    FleetError, Timing,
    actor::{ActorMessage, ActorParts, SandboxActor, Start},
    cause::Cause,
    disk_pressure::CleanupSandbox,
    metrics::FleetMetrics,
    quota_watch::QuotaWatch,
    record_publisher::RecordPublisher,
    sandbox_command::SandboxCommand,
    snapshot_restore::RestoreState,
    snapshots::SnapshotWork,
    task_runner::TaskRunners,
};
use crate::{agents::Agents, inside::InsideServer};
use hostd_core::{TransitionRefused, limits};
use hostd_drivers::{
    Driver, Drivers,
    control::{Control, ControlPool, Lease},
    host_memory::HostMemory,
};
use hostd_edge::{PreviewTarget, PreviewTargets, traffic::Traffic};
use hostd_models::Models;
use hostd_store::{Clock, NewSandbox, SandboxRecord, SnapshotRetention, Store, disk_space::DiskSpace};
use protocol::api::{AttemptRelation, SandboxId, SandboxStatus};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

/// How often, and how long apart, the actor of a new sandbox is looked up.
const ACTOR_TRIES: u32 = 200;
const ACTOR_RETRY: Duration = Duration::from_millis(5);

/// The parts a fleet is made of.
pub struct FleetParts {
    pub store: Store,
    pub drivers: Drivers,
    pub timing: Timing,
    pub inside: InsideServer,
    pub agents: Agents,
    pub models: Models,
    pub disk: DiskSpace,
    pub memory: HostMemory,
    /// Where the edge finds the sandboxes.
    pub targets: PreviewTargets,
    pub snapshot_retention: SnapshotRetention,
    pub clock: Clock,
}

#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub store: Store,
    pub drivers: Drivers,
    pub timing: Timing,
    pub inside: InsideServer,
    pub agents: Agents,
    pub models: Models,
    pub disk: DiskSpace,
    pub memory: HostMemory,
    /// The sandbox that may be up to free space, while the disk is low.
    pub cleanup_sandbox: CleanupSandbox,
    pub targets: PreviewTargets,
    pub clock: Clock,
    /// Permits for launches at once, for each driver: one that hangs does not hold up another.
    launches: HashMap<&'static str, Arc<Semaphore>>,
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
    actors: Mutex<HashMap<SandboxId, ActorHandle>>,
    pub runners: TaskRunners,
    pub quota_watch: QuotaWatch,
    pub snapshots: SnapshotWork,
    pub metrics: FleetMetrics,
}

impl Inner {
    /// The launch permits of a driver; none for a driver that this hostd does not have, which launches nothing.
    pub(super) fn launches(&self, driver: &Arc<dyn Driver>) -> Option<Arc<Semaphore>> {
        self.launches.get(driver.name()).cloned()
    }

    /// Whether a sandbox is up, or on its way there.
    pub(super) fn is_wanted_up(&self, id: &SandboxId) -> bool {
        let actors = self.actors.lock().expect("no panic while held");
        actors.get(id).is_some_and(|handle| handle.record.borrow().state.is_wanted_up())
    }
}

/// The handle to the actor of one sandbox.
#[derive(Clone)]
pub(super) struct ActorHandle {
    inbox: mpsc::Sender<ActorMessage>,
    /// Gone with the actor: that is how others learn of its end.
    publisher: Weak<RecordPublisher>,
    pub(super) record: watch::Receiver<Arc<SandboxRecord>>,
    pool: ControlPool,
    pub(super) traffic: Traffic,
    driver: Arc<dyn Driver>,
}

pub(super) type Record = Arc<SandboxRecord>;

impl Fleet {
    /// Resumes every sandbox that is not destroyed, and adopts those that the database does not know.
    pub async fn open(parts: FleetParts) -> Result<Self, FleetError> {
        let FleetParts {
            store, drivers, timing, inside, models, agents, disk, memory, targets, clock, ..
        } = parts;
        let snapshot_retention = parts.snapshot_retention;
        let permits =
            |driver: &Arc<dyn Driver>| (driver.name(), Arc::new(Semaphore::new(limits::LAUNCHES_MAX)));
        let launches = drivers.all().iter().map(permits).collect();
        let metrics = FleetMetrics::new(drivers.all().iter().map(|driver| driver.name()));
        let inner = Arc::new(Inner {
            store,
            drivers,
            timing,
            inside,
            agents,
            models,
            disk,
            memory,
            cleanup_sandbox: CleanupSandbox::default(),
            targets,
            clock,
            launches,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            actors: Mutex::default(),
            runners: TaskRunners::default(),
            quota_watch: QuotaWatch::default(),
            snapshots: SnapshotWork::new(snapshot_retention),
            metrics,
        });
        let fleet = Self { inner };
        fleet.apply_quotas().await?;
        let interrupted = fleet.interrupted_restores().await;
        for record in fleet.inner.store.live_sandboxes().await? {
            let restore = RestoreState::found(&interrupted, &record.id);
            fleet.make_restored(&record).await;
            fleet.spawn_actor(record, Start::Resumed { restore });
        }
        fleet.resume_tasks().await?;
        fleet.adopt().await;
        // Read before the first call of the API, whose snapshots are not those of an earlier hostd.
        let (resumed, unfinished) = (fleet.clone(), fleet.inner.store.unfinished_snapshots().await?);
        fleet.spawn(async move {
            if let Err(error) = resumed.resume_snapshots(unfinished).await {
                warn!(%error, "failed to finish the snapshots of an earlier hostd");
            }
        });
        Ok(fleet)
    }

    /// Checks the blueprint with the driver, writes the row and begins to launch. Returns at once.
    pub async fn create(&self, new: NewSandbox) -> Result<Record, FleetError> {
        self.check_create(&new).await?;
        let id = new.id;
        let inserted = self.inner.store.insert_sandbox(new, AttemptRelation::Create).await;
        let record = inserted.inspect_err(|_| self.inner.memory.forget(&id))?;
        Ok(self.spawn_actor(record, Start::Created))
    }

    /// Creates a sandbox as `create` does, in the place of the living one with its name, which is destroyed. Where
    /// hostd dies in between, that one has expired.
    pub async fn replace(&self, new: NewSandbox, keep_workspace: bool) -> Result<Record, FleetError> {
        self.check_create(&new).await?;
        let id = new.id;
        let replaced = self.inner.store.replace_sandbox(new, AttemptRelation::Create, keep_workspace).await;
        let made = replaced.inspect_err(|_| self.inner.memory.forget(&id))?;
        let record = self.spawn_actor(made.record, Start::Created);
        if let Some(replaced) = made.replaced {
            let id = replaced.id;
            self.publish_change(replaced);
            if let Err(error) = self.send(&id, SandboxCommand::Destroy { keep_workspace }).await {
                warn!(sandbox = %id, %error, "a replaced sandbox is destroyed later");
            }
        }
        Ok(record)
    }

    /// Checks what can be checked before the row is written, and admits the memory of the sandbox.
    async fn check_create(&self, new: &NewSandbox) -> Result<(), FleetError> {
        self.check_open()?;
        if self.inner.actors.lock().expect("no panic while held").len() >= limits::SANDBOXES_MAX {
            return Err(FleetError::TooMany);
        }
        self.check_disk_room()?;
        self.inner.drivers.require(&new.blueprint.driver)?.check(&new.blueprint).await?;
        self.inner.admit_memory(&new.id, &new.blueprint)
    }

    /// Starts the actor of a sandbox.
    pub(super) fn spawn_actor(&self, record: SandboxRecord, start: Start) -> Record {
        let record = Arc::new(record);
        let publisher = Arc::new(RecordPublisher::new(record.clone()));
        let watch = publisher.subscribe();
        let (sender, inbox) = mpsc::channel(limits::SANDBOX_REQUESTS_MAX);
        let pool = ControlPool::default();
        let driver = self.inner.drivers.get(&record.blueprint.driver);
        let traffic = Traffic::default();
        let target = PreviewTarget::new(watch.clone(), pool.clone(), traffic.clone(), driver.clone());
        let upstream = target.connections.clone();
        let handle = ActorHandle {
            inbox: sender,
            publisher: Arc::downgrade(&publisher),
            record: watch,
            pool: pool.clone(),
            traffic: traffic.clone(),
            driver: driver.clone(),
        };
        let id = record.id;
        let control = Control::new(id, driver.clone(), pool);
        let cause = Cause::current();
        let parts = ActorParts { driver, control, publisher, inbox, traffic, upstream, cause };
        let actor = SandboxActor::new(self.inner.clone(), start, parts);
        self.inner.actors.lock().expect("no panic while held").insert(id, handle);
        self.inner.targets.insert(target);
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            // Boxed: the future of an actor is large, and is moved on its way into its task.
            Box::pin(actor.run()).await;
            inner.targets.remove(&id);
            inner.actors.lock().expect("no panic while held").remove(&id);
        });
        record
    }

    pub(super) fn handle(&self, id: &SandboxId) -> Option<ActorHandle> {
        self.inner.actors.lock().expect("no panic while held").get(id).cloned()
    }

    /// The actor of a sandbox, or the record of one that is destroyed. A sandbox that was written a moment ago may
    /// have no actor yet.
    pub(super) async fn actor(&self, id: &SandboxId) -> Result<Result<ActorHandle, Record>, FleetError> {
        for _ in 0..ACTOR_TRIES {
            if let Some(handle) = self.handle(id) {
                return Ok(Ok(handle));
            }
            let record = self.record(id).await?;
            if record.state.status == SandboxStatus::Destroyed {
                return Ok(Err(record));
            }
            self.check_open()?;
            sleep(ACTOR_RETRY).await;
        }
        Err(FleetError::InProgress)
    }

    pub(super) fn check_open(&self) -> Result<(), FleetError> {
        if self.inner.stop.is_cancelled() { Err(FleetError::ShuttingDown) } else { Ok(()) }
    }

    /// The newest record of a sandbox, destroyed or not.
    pub async fn record(&self, id: &SandboxId) -> Result<Record, FleetError> {
        if let Some(handle) = self.handle(id) {
            return Ok(handle.record.borrow().clone());
        }
        self.inner.store.sandbox(id).await?.map(Arc::new).ok_or(FleetError::NotFound)
    }

    /// Records a command and begins to carry it out. Returns when it is recorded.
    pub async fn command(&self, id: &SandboxId, command: SandboxCommand) -> Result<Record, FleetError> {
        if matches!(command, SandboxCommand::Start | SandboxCommand::Resume)
            && let Some(traffic) = self.traffic(id)
        {
            // A sandbox that is started is about to be used: its idle window begins anew.
            traffic.touch();
        }
        self.send(id, command).await
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Sends a message to the actor of a sandbox that is not destroyed.
    pub(super) async fn message(&self, id: &SandboxId, message: ActorMessage) -> Result<(), FleetError> {
        self.inbox(id).await?.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => FleetError::TooMany,
            mpsc::error::TrySendError::Closed(_) => FleetError::ShuttingDown,
        })
    }

    /// As `message`, and waits where the actor has too many: for what must not be given up.
    pub(super) async fn deliver(&self, id: &SandboxId, message: ActorMessage) -> Result<(), FleetError> {
        self.inbox(id).await?.send(message).await.map_err(|_| FleetError::ShuttingDown)
    }

    async fn inbox(&self, id: &SandboxId) -> Result<mpsc::Sender<ActorMessage>, FleetError> {
        self.check_open()?;
        let handle = self.actor(id).await?.map_err(|_| FleetError::Refused(TransitionRefused::Destroyed))?;
        Ok(handle.inbox)
    }

    pub(super) async fn send(&self, id: &SandboxId, command: SandboxCommand) -> Result<Record, FleetError> {
        self.check_open()?;
        let (reply, replied) = oneshot::channel();
        match self.message(id, ActorMessage::Command(command, Cause::current(), reply)).await {
            Ok(()) => {}
            // Destroying twice is no error.
            Err(FleetError::Refused(TransitionRefused::Destroyed))
                if matches!(command, SandboxCommand::Destroy { .. }) =>
            {
                return self.record(id).await;
            }
            Err(error) => return Err(error),
        }
        match replied.await {
            Ok(reply) => reply,
            // The actor ended: the sandbox was destroyed in between, or hostd ends.
            Err(_) => {
                self.check_open()?;
                let record = self.record(id).await?;
                if matches!(command, SandboxCommand::Destroy { .. }) {
                    Ok(record)
                } else {
                    Err(TransitionRefused::Destroyed.into())
                }
            }
        }
    }

    /// Waits until no operation is under way. `InProgress` when that takes longer, `Failed` when the operation was
    /// given up.
    pub async fn wait_settled(&self, id: &SandboxId, within: Duration) -> Result<Record, FleetError> {
        let mut handle = match self.actor(id).await? {
            Ok(handle) => handle,
            Err(record) => return Ok(record),
        };
        let settled = handle.record.wait_for(|record| record.state.operation.is_none());
        let settled = timeout(within, settled).await.map(|found| found.map(|record| record.clone()).ok());
        let record = match settled {
            Ok(Some(record)) => record,
            // The actor ended.
            Ok(None) => return self.record(id).await,
            Err(_) => return Err(FleetError::InProgress),
        };
        match &record.state.problem {
            Some(problem) if record.state.evicted().is_none() => {
                Err(FleetError::Failed { sandbox: *id, problem: Box::new(problem.clone()) })
            }
            Some(_) | None => Ok(record),
        }
    }

    /// The use of a sandbox by browsers; none for one that is destroyed.
    pub fn traffic(&self, id: &SandboxId) -> Option<Traffic> {
        self.handle(id).map(|handle| handle.traffic)
    }

    /// A sandbox as the edge sees it; none for one that is destroyed.
    pub fn preview_target(&self, id: &SandboxId) -> Option<Arc<PreviewTarget>> {
        self.inner.targets.get(id)
    }

    /// The records of all sandboxes that are not destroyed.
    pub fn records(&self) -> Vec<Record> {
        let actors = self.inner.actors.lock().expect("no panic while held");
        actors.values().map(|handle| handle.record.borrow().clone()).collect()
    }

    /// The records of sandboxes that are up, or on their way there.
    pub(super) fn all_up(&self) -> Vec<Record> {
        self.records().into_iter().filter(|record| record.state.is_wanted_up()).collect()
    }

    /// Publishes a change of the row (name, metadata, expiry, services, rules). In force when this returns.
    pub fn publish_change(&self, record: SandboxRecord) {
        let Some(handle) = self.handle(&record.id) else { return };
        if let Some(publisher) = handle.publisher.upgrade() {
            publisher.put(Arc::new(record));
        }
        // With a full inbox the actor reads the record soon anyway.
        let _ = handle.inbox.try_send(ActorMessage::RecordChanged);
    }

    /// Returns when the record has another generation than this.
    pub(super) async fn wait_changed(&self, id: &SandboxId, generation: u64) {
        let Some(mut handle) = self.handle(id) else { return };
        // The end of the actor is a change too.
        let _ = handle.record.wait_for(|record| record.generation != generation).await;
    }

    /// Runs beside the actors, and is cut off where it stands when hostd ends.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                biased;
                // Safe to cut off: the next hostd resumes such work.
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    pub(super) fn runners(&self) -> &TaskRunners {
        &self.inner.runners
    }

    /// Ends every actor where it stands; the sandboxes live on.
    pub async fn close(&self) {
        self.inner.models.begin_shutdown();
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    pub(super) fn quota_watch(&self) -> &QuotaWatch {
        &self.inner.quota_watch
    }

    pub(super) fn targets(&self) -> &PreviewTargets {
        &self.inner.targets
    }

    pub(super) fn disk(&self) -> &DiskSpace {
        &self.inner.disk
    }

    pub fn memory(&self) -> &HostMemory {
        &self.inner.memory
    }

    pub(super) fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(super) fn models(&self) -> &Models {
        &self.inner.models
    }

    pub(super) fn drivers(&self) -> &Drivers {
        &self.inner.drivers
    }

    /// The driver of a sandbox.
    pub fn driver_of(&self, record: &SandboxRecord) -> Arc<dyn Driver> {
        self.inner.drivers.get(&record.blueprint.driver)
    }

    pub(super) fn agents(&self) -> &Agents {
        &self.inner.agents
    }

    pub(super) fn clock(&self) -> Clock {
        self.inner.clock
    }

    pub fn metrics(&self) -> &FleetMetrics {
        &self.inner.metrics
    }

    pub fn timing(&self) -> &Timing {
        &self.inner.timing
    }
}

impl ActorHandle {
    /// The way to the sandbox for one who only looks: it does not keep it awake.
    pub(super) fn observer(&self, id: SandboxId) -> Control {
        Control::new(id, self.driver.clone(), self.pool.clone())
    }

    pub(super) fn control(&self, id: SandboxId) -> Control {
        Control::new(id, self.driver.clone(), self.pool.clone()).with_lease(Lease::take(&self.pool))
    }
}
