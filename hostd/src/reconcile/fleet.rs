//! All sandboxes: the handle that others hold. It finds the owner of a sandbox and passes on what is
//! asked; it performs nothing itself.

use super::{
    Clock, FleetError, Timing,
    actor::{ActorMessage, ActorParts, SandboxActor, Start},
    disk_pressure::CleanupSandbox,
    preview_target::PreviewTarget,
    record_publisher::RecordPublisher,
    task_queue::TaskQueues,
};
use crate::{
    agents::Agents,
    control::{Control, ControlPool, Lease},
    core::{Defaults, TransitionRefused},
    disk_space::DiskSpace,
    driver::{Driver, DriverError, Drivers},
    egress::Egress,
    gateway::Gateway,
    inside::InsideServer,
    limits,
    models::Models,
    store::{NewSandbox, SandboxRecord, Store},
    traffic::Traffic,
};
use protocol::api::{AttemptRelation, SandboxId, SandboxStatus};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, Semaphore, mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often, and how long apart, the owner of a new sandbox is looked for.
const ACTOR_TRIES: u32 = 200;
const ACTOR_RETRY: Duration = Duration::from_millis(5);

/// What may be asked of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxCommand {
    Start,
    Stop,
    Pause,
    Resume,
    /// Resume what is frozen; what is stopped, or is to be, stays so.
    Thaw,
    Destroy {
        keep_workspace: bool,
    },
    /// Stop it because the disk is full and it has grown.
    Evict {
        grown_bytes: u64,
    },
    /// Stop, empty the workspace unless it is to be kept, and bring it up again from the frozen blueprint.
    Recreate {
        keep_workspace: bool,
    },
}

/// What a fleet is made of.
pub struct FleetParts {
    pub store: Store,
    pub drivers: Drivers,
    pub defaults: Defaults,
    pub timing: Timing,
    pub inside: InsideServer,
    pub agents: Agents,
    pub models: Models,
    pub disk: DiskSpace,
}

#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub store: Store,
    pub drivers: Drivers,
    pub defaults: Defaults,
    pub timing: Timing,
    pub inside: InsideServer,
    pub agents: Agents,
    pub models: Models,
    pub disk: DiskSpace,
    /// Which sandbox may be up to make room, while the disk is low.
    pub cleanup_sandbox: CleanupSandbox,
    pub clock: Clock,
    /// Launches at once, for each driver: one that hangs does not hold up another.
    launches: HashMap<&'static str, Arc<Semaphore>>,
    pub stop: CancellationToken,
    pub tasks: TaskTracker,
    actors: Mutex<HashMap<SandboxId, ActorHandle>>,
    /// The way to the runners of tasks, by the row.
    runner_wakeups: Mutex<HashMap<i64, Arc<Notify>>>,
    task_queues: TaskQueues,
}

impl Inner {
    /// Where the launches of a driver wait for their turn. One that this hostd was not given launches nothing.
    pub(super) fn launches(&self, driver: &Arc<dyn Driver>) -> Option<Arc<Semaphore>> {
        self.launches.get(driver.name()).cloned()
    }

    /// Whether a sandbox is up, or on its way there.
    pub(super) fn is_wanted_up(&self, id: &SandboxId) -> bool {
        let actors = self.actors.lock().expect("no panic while held");
        actors.get(id).is_some_and(|handle| handle.record.borrow().state.is_wanted_up())
    }
}

/// The way to the owner task of one sandbox.
#[derive(Clone)]
struct ActorHandle {
    inbox: mpsc::Sender<ActorMessage>,
    /// Gone with the owner: that is how others learn of its end.
    publisher: Weak<RecordPublisher>,
    record: watch::Receiver<Arc<SandboxRecord>>,
    pool: ControlPool,
    traffic: Traffic,
    target: Arc<PreviewTarget>,
    driver: Arc<dyn Driver>,
}

type Record = Arc<SandboxRecord>;

impl Fleet {
    /// Takes up every sandbox that is not destroyed where it was left, and finds those that the database
    /// does not know.
    pub async fn open(parts: FleetParts) -> Result<Self, FleetError> {
        let FleetParts { store, drivers, defaults, timing, inside, models, agents, disk } = parts;
        let permits =
            |driver: &Arc<dyn Driver>| (driver.name(), Arc::new(Semaphore::new(limits::LAUNCHES_MAX)));
        let launches = drivers.all().iter().map(permits).collect();
        let inner = Arc::new(Inner {
            store,
            drivers,
            defaults,
            timing,
            inside,
            agents,
            models,
            disk,
            cleanup_sandbox: CleanupSandbox::default(),
            clock: Clock::new(),
            launches,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            actors: Mutex::default(),
            runner_wakeups: Mutex::default(),
            task_queues: TaskQueues::default(),
        });
        let fleet = Self { inner };
        for record in fleet.inner.store.live_sandboxes().await? {
            fleet.spawn_actor(record, Start::Resumed);
        }
        fleet.resume_tasks().await?;
        fleet.adopt().await;
        Ok(fleet)
    }

    /// Checks with the driver, writes the row and begins to bring it up. Returns at once.
    pub async fn create(&self, new: NewSandbox) -> Result<Record, FleetError> {
        self.check_open()?;
        if self.inner.actors.lock().expect("no panic while held").len() >= limits::SANDBOXES_MAX {
            return Err(FleetError::TooMany);
        }
        self.check_disk_room()?;
        self.inner.drivers.require(&new.blueprint.driver)?.check(&new.blueprint).await?;
        let record = self.inner.store.insert_sandbox(new, AttemptRelation::Create).await?;
        Ok(self.spawn_actor(record, Start::Created))
    }

    /// Starts the owner of a sandbox; `fresh`: its first attempt is open already.
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
            target: Arc::new(target),
            driver: driver.clone(),
        };
        let id = record.id;
        let control = Control::new(id, driver.clone(), pool);
        let parts = ActorParts { driver, control, publisher, inbox, traffic, upstream };
        let actor = SandboxActor::new(self.inner.clone(), start, parts);
        self.inner.actors.lock().expect("no panic while held").insert(id, handle);
        let inner = self.inner.clone();
        self.inner.tasks.spawn(async move {
            actor.run().await;
            inner.actors.lock().expect("no panic while held").remove(&id);
        });
        record
    }

    fn handle(&self, id: &SandboxId) -> Option<ActorHandle> {
        self.inner.actors.lock().expect("no panic while held").get(id).cloned()
    }

    /// The owner of a sandbox, or the record of one that is destroyed. One that was written a moment ago
    /// has no owner yet.
    async fn actor(&self, id: &SandboxId) -> Result<Result<ActorHandle, Record>, FleetError> {
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

    /// As it is now; destroyed ones too.
    pub async fn record(&self, id: &SandboxId) -> Result<Record, FleetError> {
        if let Some(handle) = self.handle(id) {
            return Ok(handle.record.borrow().clone());
        }
        self.inner.store.sandbox(id).await?.map(Arc::new).ok_or(FleetError::NotFound)
    }

    /// Writes down what is wanted and begins to do it. Returns when it is written.
    pub async fn command(&self, id: &SandboxId, command: SandboxCommand) -> Result<Record, FleetError> {
        if matches!(command, SandboxCommand::Start | SandboxCommand::Resume)
            && let Some(traffic) = self.traffic(id)
        {
            // Whoever asks for one that was idle for long wants to use it.
            traffic.touch();
        }
        self.send(id, command).await
    }

    async fn send(&self, id: &SandboxId, command: SandboxCommand) -> Result<Record, FleetError> {
        self.check_open()?;
        let handle = match self.actor(id).await? {
            Ok(handle) => handle,
            // Destroying twice is no mistake.
            Err(record) if matches!(command, SandboxCommand::Destroy { .. }) => return Ok(record),
            Err(_) => return Err(FleetError::Refused(TransitionRefused::Destroyed)),
        };
        let (reply, replied) = oneshot::channel();
        handle.inbox.try_send(ActorMessage::Command(command, reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => FleetError::TooMany,
            mpsc::error::TrySendError::Closed(_) => FleetError::ShuttingDown,
        })?;
        match replied.await {
            Ok(reply) => reply,
            // Its owner ended: destroyed in between, or hostd ends.
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

    /// Waits until nothing is being done to it; `InProgress` when that takes longer, `Failed` when nothing
    /// came of it.
    pub async fn wait_settled(&self, id: &SandboxId, within: Duration) -> Result<Record, FleetError> {
        let mut handle = match self.actor(id).await? {
            Ok(handle) => handle,
            Err(record) => return Ok(record),
        };
        let settled = handle.record.wait_for(|record| record.state.operation.is_none());
        let settled = timeout(within, settled).await.map(|found| found.map(|record| record.clone()).ok());
        let record = match settled {
            Ok(Some(record)) => record,
            // Its owner ended.
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

    /// Wakes it if it sleeps (stopped or paused), waits until it answers, and gives the way to it. Brings
    /// it up once however many ask. While the `Control` lives, it is not put to sleep; one that dozed is
    /// frozen again soon, unless something happens that counts.
    pub async fn wake(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        self.wake_with(id, SandboxCommand::Start).await
    }

    /// The same for one that is only frozen.
    pub async fn thaw(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        self.wake_with(id, SandboxCommand::Thaw).await
    }

    async fn wake_with(
        &self,
        id: &SandboxId,
        command: SandboxCommand,
    ) -> Result<(Record, Control), FleetError> {
        let handle = self.actor(id).await?.map_err(|_| TransitionRefused::Destroyed)?;
        // Taken before the look: whoever puts it to sleep looks for leases after saying so.
        let control = handle.control(*id);
        handle.traffic.record_wake();
        let record = handle.record.borrow().clone();
        reachable(&record)?;
        if record.state.is_up() {
            return Ok((record, control));
        }
        if !record.state.dozing {
            handle.traffic.touch();
        }
        if record.state.status == SandboxStatus::Error && record.state.operation.is_none() {
            let problem = record.state.problem.clone().map(Box::new);
            let problem = problem.ok_or(FleetError::NotRunning { status: "error" })?;
            return Err(FleetError::Failed { sandbox: *id, problem });
        }
        self.send(id, command).await?;
        let within = Duration::from_millis(self.inner.timing.up_ms + self.inner.timing.down_ms);
        let record = self.wait_settled(id, within).await?;
        if record.state.is_up() { Ok((record, control)) } else { Err(not_running(&record)) }
    }

    /// The way to it if it runs now; `NotRunning` otherwise.
    pub async fn control(&self, id: &SandboxId) -> Result<(Record, Control), FleetError> {
        let handle = self.actor(id).await?.map_err(|record| not_running(&record))?;
        // The lease first, as in `awake`.
        let control = handle.control(*id);
        let record = handle.record.borrow().clone();
        reachable(&record)?;
        if record.state.is_up() { Ok((record, control)) } else { Err(not_running(&record)) }
    }

    /// What browsers do with one that is not destroyed.
    pub fn traffic(&self, id: &SandboxId) -> Option<Traffic> {
        self.handle(id).map(|handle| handle.traffic)
    }

    /// The records of those that are up, or on their way there.
    pub(super) fn all_up(&self) -> Vec<Record> {
        let actors = self.inner.actors.lock().expect("no panic while held");
        let records = actors.values().map(|handle| handle.record.borrow().clone());
        records.filter(|record| record.state.is_wanted_up()).collect()
    }

    /// What the edge sees of a sandbox that is not destroyed.
    pub fn preview_target(&self, id: &SandboxId) -> Option<Arc<PreviewTarget>> {
        let actors = self.inner.actors.lock().expect("no panic while held");
        actors.get(id).map(|handle| handle.target.clone())
    }

    /// Those of all sandboxes.
    pub fn preview_targets(&self) -> Vec<Arc<PreviewTarget>> {
        let actors = self.inner.actors.lock().expect("no panic while held");
        actors.values().map(|handle| handle.target.clone()).collect()
    }

    /// After a change of the row by the store (name, metadata, expiry, services, rules): in force when this returns.
    pub fn publish_change(&self, record: SandboxRecord) {
        let Some(handle) = self.handle(&record.id) else { return };
        if let Some(publisher) = handle.publisher.upgrade() {
            publisher.put(Arc::new(record));
        }
        // When the inbox is full the owner is about to look anyway.
        let _ = handle.inbox.try_send(ActorMessage::RecordChanged);
    }

    /// Returns when the record is another than the one with this generation.
    pub(super) async fn wait_changed(&self, id: &SandboxId, generation: u64) {
        let Some(mut handle) = self.handle(id) else { return };
        // An owner that ended is a change too.
        let _ = handle.record.wait_for(|record| record.generation != generation).await;
    }

    /// Runs beside the owners, and is cut off where it stands when they are.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                biased;
                // Whoever is spawned so can be taken up by the next hostd.
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    pub(super) fn task_queues(&self) -> &TaskQueues {
        &self.inner.task_queues
    }

    pub(super) fn runner_wakeup(&self, task: i64) -> Arc<Notify> {
        self.inner.runner_wakeups.lock().expect("no panic while held").entry(task).or_default().clone()
    }

    pub(super) fn wake_runner(&self, task: i64) {
        if let Some(runner) = self.inner.runner_wakeups.lock().expect("no panic while held").get(&task) {
            runner.notify_one();
        }
    }

    pub(super) fn forget_runner(&self, task: i64) {
        self.inner.runner_wakeups.lock().expect("no panic while held").remove(&task);
    }

    /// Ends every owner where it stands; the sandboxes live on.
    pub async fn close(&self) {
        self.inner.models.begin_shutdown();
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    pub fn disk(&self) -> &DiskSpace {
        &self.inner.disk
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub fn models(&self) -> &Models {
        &self.inner.models
    }

    pub fn gateway(&self) -> &Gateway {
        self.inner.inside.gateway()
    }

    pub fn drivers(&self) -> &Drivers {
        &self.inner.drivers
    }

    /// The driver of a sandbox.
    pub fn driver_of(&self, record: &SandboxRecord) -> Arc<dyn Driver> {
        self.inner.drivers.get(&record.blueprint.driver)
    }

    pub fn agents(&self) -> &Agents {
        &self.inner.agents
    }

    pub fn defaults(&self) -> &Defaults {
        &self.inner.defaults
    }

    pub fn egress(&self) -> &Egress {
        self.inner.inside.egress()
    }

    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    pub fn timing(&self) -> &Timing {
        &self.inner.timing
    }
}

impl ActorHandle {
    fn control(&self, id: SandboxId) -> Control {
        Control::new(id, self.driver.clone(), self.pool.clone()).with_lease(Lease::take(&self.pool))
    }
}

/// Refuses what would need its processes where they live in another PID namespace.
pub(super) fn reachable(record: &SandboxRecord) -> Result<(), FleetError> {
    match record.other_pid_namespace {
        true => Err(DriverError::OtherPidNamespace { sandbox: record.id }.into()),
        false => Ok(()),
    }
}

fn not_running(record: &SandboxRecord) -> FleetError {
    let status = match record.state.status {
        SandboxStatus::Creating => "being created",
        // It runs, and something is being done to it.
        SandboxStatus::Running => "on its way down",
        SandboxStatus::Paused => "paused",
        SandboxStatus::Stopped => "stopped",
        SandboxStatus::Error => "in error",
        SandboxStatus::Destroyed => return TransitionRefused::Destroyed.into(),
    };
    FleetError::NotRunning { status }
}
