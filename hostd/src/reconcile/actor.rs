//! The one task that owns a sandbox: looks, plans, performs, and rests until something happens.
//!
//! ```text
//!        ┌──────────────▶ look ──▶ plan ──▶ nothing to do: rest ──┐
//!        │                          │                            │ ask, death, time
//!        └── perform a step ◀───────┘                            │
//!        └───────────────────────────────────────────────────────┘
//! ```
//!
//! What is asked for while a step is performed is written down and answered at once; it cuts the step off
//! when that has become pointless.

use super::{
    FleetError, SandboxCommand, disk_pressure::evicted, fleet::Inner, launch_progress::LaunchProgress,
    record_publisher::RecordPublisher,
};
use crate::{
    control::Control,
    core::{Desired, Drift, Goal, Observed, Renewal, Transition, TransitionRefused, drift, plan, restarted},
    driver::{ContainerState, Driver, DriverError, Handle},
    inside::{InsideListener, ServedSandbox},
    store::{SandboxRecord, SandboxUpdate, StoreError},
    traffic::Traffic,
    upstream::UpstreamPool,
};
use protocol::api::{Problem, SandboxId, SandboxStatus};
use serde_json::json;
use std::{ops::ControlFlow, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

pub(super) type CommandReply = Result<Arc<SandboxRecord>, FleetError>;

pub(super) enum ActorMessage {
    Command(SandboxCommand, oneshot::Sender<CommandReply>),
    /// The row was changed by somebody else, and published: it may be time for something.
    RecordChanged,
}

pub(super) struct SandboxActor {
    pub(super) fleet: Arc<Inner>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) control: Control,
    pub(super) inbox: mpsc::Receiver<ActorMessage>,
    publisher: Arc<RecordPublisher>,
    /// PID 1 has answered since it was launched, or since hostd started.
    pub(super) ready: bool,
    /// The newest attempt is open and was not tried yet.
    pub(super) attempt_open: bool,
    /// A hostd that died may have left the newest attempt open.
    pub(super) left_open: bool,
    /// What the driver said about the newest launch, until it is written.
    pub(super) launched: Option<Handle>,
    /// Steps that failed in a row.
    pub(super) failures: u32,
    /// Nothing was left to do: what is found otherwise now was not our doing.
    pub(super) at_rest: bool,
    /// The last look showed nothing.
    blind: bool,
    /// Disturbances in a row that came to nothing.
    pub(super) alarms: u32,
    /// The backend did not answer when it was needed for what is being done.
    pub(super) outage: Option<Problem>,
    /// And this was said.
    pub(super) said: bool,
    /// There is nothing to do before the backend is back.
    pub(super) awaits_backend: bool,
    /// Where a verb that was not answered may still bring it.
    pub(super) late: Option<Goal>,
    /// What the last look showed, if it showed anything.
    pub(super) found: Option<Goal>,
    /// The run that was seen last.
    run: Option<Handle>,
    /// What the newest launch tells.
    pub(super) launch_progress: Option<LaunchProgress>,
    /// Deaths in a row of one that should always run.
    pub(super) deaths: u32,
    /// Follows runtimed's events while this lives.
    pub(super) follower: Option<DropGuard>,
    /// hostd's own port inside, while this lives.
    pub(super) door: Option<InsideListener>,
    /// What browsers do with it.
    pub(super) traffic: Traffic,
    /// What the edge keeps open to its ports.
    pub(super) connections: UpstreamPool,
    /// When it is looked at next whether it may sleep, and the generation of the record that is for.
    pub(super) idle_check: Option<(u64, Instant)>,
}

impl SandboxActor {
    pub(super) fn new(
        fleet: Arc<Inner>,
        driver: Arc<dyn Driver>,
        control: Control,
        publisher: Arc<RecordPublisher>,
        inbox: mpsc::Receiver<ActorMessage>,
    ) -> Self {
        Self {
            fleet,
            driver,
            control,
            inbox,
            publisher,
            ready: false,
            attempt_open: false,
            left_open: false,
            launched: None,
            failures: 0,
            at_rest: false,
            blind: false,
            alarms: 0,
            outage: None,
            said: false,
            awaits_backend: false,
            late: None,
            found: None,
            run: None,
            launch_progress: None,
            deaths: 0,
            follower: None,
            door: None,
            traffic: Traffic::default(),
            connections: UpstreamPool::default(),
            idle_check: None,
        }
    }

    pub(super) fn with_traffic(mut self, traffic: Traffic) -> Self {
        self.traffic = traffic;
        self
    }

    pub(super) fn with_open_attempt(mut self, fresh: bool) -> Self {
        self.attempt_open = fresh;
        self
    }

    pub(super) fn with_upstream(mut self, connections: UpstreamPool) -> Self {
        self.connections = connections;
        self
    }

    pub(super) async fn run(mut self) {
        if !self.attempt_open {
            self.resume().await;
        }
        let stop = self.fleet.stop.clone();
        // Safe to cut off anywhere: every step can be repeated, and the next hostd looks first.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.work() => {}
        }
    }

    async fn work(&mut self) {
        loop {
            if let Err(error) = self.expire().await {
                self.back_off(&error).await;
            }
            let observed = self.inspect().await;
            let record = self.record();
            if record.state.status == SandboxStatus::Destroyed {
                return;
            }
            let desired = Desired { state: &record.state, idle_policy: record.blueprint.idle_policy };
            let steps = plan(&desired, &observed, self.fleet.clock.now_ms());
            let drift = drift(&desired, &observed, &steps).filter(|_| self.at_rest);
            if let Some(drift) = drift.filter(|drift| !self.is_late_effect(&observed, drift)) {
                self.report_drift(drift).await;
            }
            if steps.is_empty() || self.waits_for_backend(&steps, &observed) {
                self.failures = 0;
                self.end_outage();
                self.at_rest |= !matches!(observed, Observed::Unknown | Observed::OtherPidNamespace);
                self.wait(&observed).await;
                continue;
            }
            self.alarms = 0;
            for step in steps {
                match self.perform(step).await {
                    // What was planned for another goal does not hold any more.
                    Ok(ControlFlow::Continue(())) if self.record().state.goal != record.state.goal => break,
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => break,
                    Err(error) => {
                        self.back_off(&error).await;
                        break;
                    }
                }
            }
        }
    }

    /// What an earlier hostd was doing gets its whole time again: how long nobody was there does not count.
    async fn resume(&mut self) {
        let record = self.record();
        // In error, it may be that clearing away was cut off; and what was adopted was never known.
        let settled = record.state.operation.is_none() && record.state.status != SandboxStatus::Error;
        self.at_rest = settled && record.generation > 1;
        self.left_open |= record.state.operation.is_some() && record.attempt > 0;
        self.extend().await;
    }

    /// What is being done gets its whole time again.
    async fn extend(&mut self) {
        let record = self.record();
        if record.state.operation.is_none() {
            return;
        }
        let deadline_ms = self.deadline_ms(record.state.goal);
        if let Err(error) = self.transition(Transition::Extend { deadline_ms }).await {
            warn!(sandbox = %self.id(), %error, "could not take up what was being done");
        }
    }

    /// Once for each occurrence, and before anything is done about it.
    async fn report_drift(&mut self, drift: Drift) {
        self.at_rest = false;
        warn!(sandbox = %self.id(), ?drift, "found other than it was left");
        let now_ms = self.fleet.clock.now_ms();
        let told = self.fleet.store.record_event(&self.id(), "sandbox.drift", json!(drift), now_ms).await;
        if let Err(error) = told {
            // It is mended all the same.
            warn!(sandbox = %self.id(), %error, "could not write down what was found");
        }
    }

    /// Waits, and answers meanwhile. An ask that changes the goal ends the pause.
    pub(super) async fn pause(&mut self, time: Duration) {
        let goal = self.record().state.goal;
        let until = sleep(time);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return,
                // A message is taken whole or not at all.
                Some(message) = self.inbox.recv() => {
                    self.handle(message).await;
                    if self.record().state.goal != goal {
                        return;
                    }
                }
            }
        }
    }

    async fn inspect(&mut self) -> Observed {
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        let sight = timeout(within, self.driver.inspect(&self.id())).await;
        let observed = match sight {
            Ok(Ok(ContainerState::Absent)) => Observed::Absent,
            Ok(Ok(ContainerState::Launching)) => Observed::Launching,
            Ok(Ok(ContainerState::Running { frozen, handle })) => {
                self.note_run(handle).await;
                Observed::Running { frozen, ready: self.ready }
            }
            Ok(Ok(ContainerState::Dead(death))) => Observed::Dead(death),
            Ok(Ok(ContainerState::OtherPidNamespace)) => Observed::OtherPidNamespace,
            Ok(Err(error)) => {
                self.failures += 1;
                if !self.blind {
                    // Once: it is tried again and again.
                    warn!(sandbox = %self.id(), error = &error as &dyn std::error::Error, "could not look");
                }
                self.note_outage(&error);
                Observed::Unknown
            }
            Err(_) => {
                self.note_timeout();
                Observed::Unknown
            }
        };
        self.notice_namespace(&observed).await;
        self.blind = observed == Observed::Unknown;
        self.found = observed.as_goal();
        match observed {
            Observed::Running { .. } | Observed::Unknown | Observed::OtherPidNamespace => {}
            Observed::Absent | Observed::Launching | Observed::Dead(_) => self.disconnect(),
        }
        observed
    }

    /// Says once that a sandbox lives in another PID namespace. When it does not any more, what was being done
    /// gets its whole time again.
    async fn notice_namespace(&mut self, observed: &Observed) {
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

    /// Another run than the one that was told what it must know: somebody started it anew, and nothing of the
    /// old one counts.
    async fn note_run(&mut self, handle: Handle) {
        let other = self.ready && self.run.as_ref().is_some_and(|run| *run != handle);
        if other {
            self.disconnect();
            if let Some(drift) = restarted(&self.record().state).filter(|_| self.at_rest) {
                self.report_drift(drift).await;
            }
            let lost = self.fleet.store.mark_execs_lost(&self.id(), self.fleet.clock.now_ms()).await;
            if let Err(error) = lost {
                // They are lost when it stops, at the latest.
                warn!(sandbox = %self.id(), %error, "could not write down what was lost");
            }
        }
        self.run = Some(handle);
    }

    /// Nothing of it runs: no connection is good any more.
    pub(super) fn disconnect(&mut self) {
        self.ready = false;
        self.run = None;
        self.follower = None;
        self.door = None;
        self.control.close_idle();
        self.connections.clear();
    }

    pub(super) async fn handle(&mut self, message: ActorMessage) {
        match message {
            ActorMessage::Command(command, reply) => {
                // Boxed: what drives a sandbox stays small while nothing is asked of it.
                let result = Box::pin(self.accept(command)).await;
                // Nobody waits any more: what was asked for is written all the same.
                let _ = reply.send(result);
            }
            ActorMessage::RecordChanged => {}
        }
    }

    async fn accept(&mut self, command: SandboxCommand) -> CommandReply {
        if self.record().other_pid_namespace {
            return Err(self.other_pid_namespace().into());
        }
        match command {
            SandboxCommand::Thaw if !self.record().state.stays_up() => {
                Err(TransitionRefused::NotRunning.into())
            }
            SandboxCommand::Start | SandboxCommand::Resume | SandboxCommand::Thaw
                if self.is_only_frozen() =>
            {
                self.thaw_at_once().await
            }
            SandboxCommand::Start | SandboxCommand::Resume | SandboxCommand::Thaw => {
                self.check_room_to_launch()?;
                self.set_goal(Goal::Running).await
            }
            SandboxCommand::Stop => self.set_goal(Goal::Stopped).await,
            SandboxCommand::Pause => self.set_goal(Goal::Paused).await,
            SandboxCommand::Destroy { keep_workspace } => match self.destroy(keep_workspace).await {
                Err(FleetError::Store(StoreError::Full)) => self.destroy_on_full_disk(keep_workspace).await,
                reply => reply,
            },
            SandboxCommand::Evict { grown_bytes } => {
                let problem = evicted(grown_bytes, &self.fleet.disk.state());
                let deadline_ms = self.deadline_ms(Goal::Stopped);
                self.transition(Transition::Evict { problem, deadline_ms }).await
            }
            SandboxCommand::Recreate { keep_workspace } => {
                if keep_workspace {
                    self.check_room_to_launch()?;
                }
                let deadline_ms = self.deadline_ms(Goal::Stopped) + self.fleet.timing.up_ms;
                self.transition(Transition::Renew { renewal: Renewal { keep_workspace }, deadline_ms }).await
            }
        }
    }

    pub(super) async fn destroy(&mut self, keep_workspace: bool) -> CommandReply {
        if keep_workspace {
            let change = SandboxUpdate { keep_workspace: Some(true), ..SandboxUpdate::default() };
            let now_ms = self.fleet.clock.now_ms();
            self.fleet.store.update_sandbox(&self.id(), change, now_ms).await?;
        }
        self.set_goal(Goal::Destroyed).await
    }

    fn is_only_frozen(&self) -> bool {
        let state = &self.record().state;
        self.ready && state.status == SandboxStatus::Paused && state.operation.is_none()
    }

    /// The deed before the word: somebody waits for this one. What is thawed and not written down is frozen
    /// again by whoever looks next.
    async fn thaw_at_once(&mut self) -> CommandReply {
        let id = self.id();
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        if !matches!(timeout(within, self.driver.thaw(&id)).await, Ok(Ok(()))) {
            return self.set_goal(Goal::Running).await;
        }
        let (deadline_ms, now_ms) = (self.deadline_ms(Goal::Running), self.fleet.clock.now_ms());
        let wanted = Transition::Accept { goal: Goal::Running, deadline_ms };
        let store = &self.fleet.store;
        self.at_rest = false;
        // In this order; they may share a commit.
        let (wanted, reached) = tokio::join!(
            store.transition_sandbox(&id, wanted, now_ms),
            store.transition_sandbox(&id, Transition::Reached, now_ms)
        );
        self.publisher.put(Arc::new(wanted?));
        let record = Arc::new(reached?);
        self.publisher.put(record.clone());
        Ok(record)
    }

    pub(super) async fn set_goal(&mut self, goal: Goal) -> CommandReply {
        let deadline_ms = self.deadline_ms(goal);
        self.transition(Transition::Accept { goal, deadline_ms }).await
    }

    pub(super) fn deadline_ms(&self, goal: Goal) -> u64 {
        self.fleet.clock.now_ms() + self.fleet.timing.towards_ms(goal)
    }

    /// Opens hostd's own port inside, until the sandbox is gone.
    pub(super) fn open_door(&mut self) {
        if self.door.is_some() {
            return;
        }
        let (record, control) = (self.publisher.subscribe(), self.control.clone());
        let guest = ServedSandbox::new(record, control, self.driver.clone());
        let (door, serve) = self.fleet.inside.open(guest, self.stop());
        self.fleet.tasks.spawn(serve);
        self.door = Some(door);
    }

    /// What a launch told last.
    pub(super) fn publish_progress(&mut self, progress: Option<Arc<str>>) {
        self.publisher.put_progress(progress);
    }

    /// Writes a move and publishes the record it makes.
    pub(super) async fn transition(&mut self, change: Transition) -> CommandReply {
        self.at_rest = false;
        let now_ms = self.fleet.clock.now_ms();
        let (store, id) = (&self.fleet.store, self.id());
        let record = match store.transition_sandbox(&id, change.clone(), now_ms).await {
            // Room that was set aside has been released meanwhile.
            Err(StoreError::Full) => store.transition_sandbox(&id, change, now_ms).await?,
            moved => moved?,
        };
        Ok(self.publish(record))
    }

    /// What was written of it.
    pub(super) fn publish(&mut self, record: SandboxRecord) -> Arc<SandboxRecord> {
        let record = Arc::new(record);
        self.publisher.put(record.clone());
        record
    }

    /// Publishes what the store has.
    pub(super) async fn reread(&mut self) -> Result<(), FleetError> {
        let record = self.fleet.store.sandbox(&self.id()).await?.ok_or(FleetError::NotFound)?;
        self.publisher.put(Arc::new(record));
        Ok(())
    }

    pub(super) fn record(&self) -> Arc<SandboxRecord> {
        self.publisher.get()
    }

    pub(super) fn id(&self) -> SandboxId {
        self.publisher.get().id
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.fleet.stop
    }
}
