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

use super::{Ask, FleetError, disk::evicted, fleet::Inner, published::Published, telling::Telling};
use crate::{
    control::Control,
    core::{Container, Desired, Drift, Goal, Move, Refused, Renewal, drift, plan, restarted},
    driver::{Driver, DriverError, Handle, Sight},
    inside::{Door, Guest},
    store::{Change, SandboxRecord, StoreError},
    traffic::Traffic,
    upstream::Lines,
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

pub(super) type Answer = Result<Arc<SandboxRecord>, FleetError>;

pub(super) enum Message {
    Ask(Ask, oneshot::Sender<Answer>),
    /// The row was changed by somebody else, and published: it may be time for something.
    Changed,
}

pub(super) struct Owner {
    pub(super) fleet: Arc<Inner>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) control: Control,
    pub(super) inbox: mpsc::Receiver<Message>,
    published: Arc<Published>,
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
    pub(super) hindrance: Option<Problem>,
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
    pub(super) telling: Option<Telling>,
    /// Deaths in a row of one that should always run.
    pub(super) deaths: u32,
    /// Follows runtimed's events while this lives.
    pub(super) follower: Option<DropGuard>,
    /// hostd's own port inside, while this lives.
    pub(super) door: Option<Door>,
    /// What browsers do with it.
    pub(super) traffic: Traffic,
    /// What the edge keeps open to its ports.
    pub(super) lines: Lines,
    /// When it is looked at next whether it may sleep, and the generation of the record that is for.
    pub(super) sleep_look: Option<(u64, Instant)>,
}

impl Owner {
    pub(super) fn new(
        fleet: Arc<Inner>,
        driver: Arc<dyn Driver>,
        control: Control,
        published: Arc<Published>,
        inbox: mpsc::Receiver<Message>,
    ) -> Self {
        Self {
            fleet,
            driver,
            control,
            inbox,
            published,
            ready: false,
            attempt_open: false,
            left_open: false,
            launched: None,
            failures: 0,
            at_rest: false,
            blind: false,
            alarms: 0,
            hindrance: None,
            said: false,
            awaits_backend: false,
            late: None,
            found: None,
            run: None,
            telling: None,
            deaths: 0,
            follower: None,
            door: None,
            traffic: Traffic::default(),
            lines: Lines::default(),
            sleep_look: None,
        }
    }

    pub(super) fn seen_by(mut self, traffic: Traffic) -> Self {
        self.traffic = traffic;
        self
    }

    pub(super) fn fresh(mut self, fresh: bool) -> Self {
        self.attempt_open = fresh;
        self
    }

    pub(super) fn reached_by(mut self, lines: Lines) -> Self {
        self.lines = lines;
        self
    }

    pub(super) async fn run(mut self) {
        if !self.attempt_open {
            self.take_up().await;
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
                self.stumble(&error).await;
            }
            let container = self.look().await;
            let record = self.record();
            if record.state.status == SandboxStatus::Destroyed {
                return;
            }
            let desired = Desired { state: &record.state, idle_policy: record.blueprint.idle_policy };
            let steps = plan(&desired, &container, self.fleet.clock.now_ms());
            let drift = drift(&desired, &container, &steps).filter(|_| self.at_rest);
            if let Some(drift) = drift.filter(|drift| !self.came_late(&container, drift)) {
                self.tell(drift).await;
            }
            if steps.is_empty() || self.only_waits(&steps, &container) {
                self.failures = 0;
                self.unhindered();
                self.at_rest |= !matches!(container, Container::Unknown | Container::OtherPidNamespace);
                self.rest(&container).await;
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
                        self.stumble(&error).await;
                        break;
                    }
                }
            }
        }
    }

    /// What an earlier hostd was doing gets its whole time again: how long nobody was there does not count.
    async fn take_up(&mut self) {
        let record = self.record();
        // In error, it may be that clearing away was cut off; and what was adopted was never known.
        let settled = record.state.effort.is_none() && record.state.status != SandboxStatus::Error;
        self.at_rest = settled && record.generation > 1;
        self.left_open |= record.state.effort.is_some() && record.attempt > 0;
        self.extend().await;
    }

    /// What is being done gets its whole time again.
    async fn extend(&mut self) {
        let record = self.record();
        if record.state.effort.is_none() {
            return;
        }
        let deadline_ms = self.deadline_ms(record.state.goal);
        if let Err(error) = self.change(Move::Extend { deadline_ms }).await {
            warn!(sandbox = %self.id(), %error, "could not take up what was being done");
        }
    }

    /// Once for each occurrence, and before anything is done about it.
    async fn tell(&mut self, drift: Drift) {
        self.at_rest = false;
        warn!(sandbox = %self.id(), ?drift, "found other than it was left");
        let now_ms = self.fleet.clock.now_ms();
        let told = self.fleet.store.note(&self.id(), "sandbox.drift", json!(drift), now_ms).await;
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

    async fn look(&mut self) -> Container {
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        let sight = timeout(within, self.driver.look(&self.id())).await;
        let container = match sight {
            Ok(Ok(Sight::Absent)) => Container::Absent,
            Ok(Ok(Sight::Launching)) => Container::Launching,
            Ok(Ok(Sight::Running { frozen, handle })) => {
                self.recognise(handle).await;
                Container::Running { frozen, ready: self.ready }
            }
            Ok(Ok(Sight::Dead(death))) => Container::Dead(death),
            Ok(Ok(Sight::OtherPidNamespace)) => Container::OtherPidNamespace,
            Ok(Err(error)) => {
                self.failures += 1;
                if !self.blind {
                    // Once: it is tried again and again.
                    warn!(sandbox = %self.id(), error = &error as &dyn std::error::Error, "could not look");
                }
                self.hindered(&error);
                Container::Unknown
            }
            Err(_) => {
                self.unanswered();
                Container::Unknown
            }
        };
        self.notice_namespace(&container).await;
        self.blind = container == Container::Unknown;
        self.found = container.found();
        match container {
            Container::Running { .. } | Container::Unknown | Container::OtherPidNamespace => {}
            Container::Absent | Container::Launching | Container::Dead(_) => self.gone(),
        }
        container
    }

    /// Says once that a sandbox lives in another PID namespace. When it does not any more, what was being done
    /// gets its whole time again.
    async fn notice_namespace(&mut self, container: &Container) {
        let elsewhere = match container {
            Container::OtherPidNamespace => true,
            // Nothing was learnt.
            Container::Unknown => return,
            Container::Absent | Container::Launching | Container::Running { .. } | Container::Dead(_) => {
                false
            }
        };
        if elsewhere == self.record().other_pid_namespace {
            return;
        }
        self.published.put_other_pid_namespace(elsewhere);
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
    async fn recognise(&mut self, handle: Handle) {
        let other = self.ready && self.run.as_ref().is_some_and(|run| *run != handle);
        if other {
            self.gone();
            if let Some(drift) = restarted(&self.record().state).filter(|_| self.at_rest) {
                self.tell(drift).await;
            }
            let lost = self.fleet.store.lose_execs(&self.id(), self.fleet.clock.now_ms()).await;
            if let Err(error) = lost {
                // They are lost when it stops, at the latest.
                warn!(sandbox = %self.id(), %error, "could not write down what was lost");
            }
        }
        self.run = Some(handle);
    }

    /// Nothing of it runs: no connection is good any more.
    pub(super) fn gone(&mut self) {
        self.ready = false;
        self.run = None;
        self.follower = None;
        self.door = None;
        self.control.forget();
        self.lines.clear();
    }

    pub(super) async fn handle(&mut self, message: Message) {
        match message {
            Message::Ask(ask, answer) => {
                // Boxed: what drives a sandbox stays small while nothing is asked of it.
                let result = Box::pin(self.accept(ask)).await;
                // Nobody waits any more: what was asked for is written all the same.
                let _ = answer.send(result);
            }
            Message::Changed => {}
        }
    }

    async fn accept(&mut self, ask: Ask) -> Answer {
        if self.record().other_pid_namespace {
            return Err(self.other_pid_namespace().into());
        }
        match ask {
            Ask::Thaw if !self.record().state.stays_up() => Err(Refused::NotRunning.into()),
            Ask::Start | Ask::Resume | Ask::Thaw if self.is_only_frozen() => self.thaw_at_once().await,
            Ask::Start | Ask::Resume | Ask::Thaw => {
                self.room_to_come_up()?;
                self.want(Goal::Running).await
            }
            Ask::Stop => self.want(Goal::Stopped).await,
            Ask::Pause => self.want(Goal::Paused).await,
            Ask::Destroy { keep_workspace } => match self.destroy(keep_workspace).await {
                Err(FleetError::Store(StoreError::Full)) => self.destroy_on_full_disk(keep_workspace).await,
                answer => answer,
            },
            Ask::Evict { grown_bytes } => {
                let problem = evicted(grown_bytes, &self.fleet.disk.state());
                let deadline_ms = self.deadline_ms(Goal::Stopped);
                self.change(Move::Evict { problem, deadline_ms }).await
            }
            Ask::Recreate { keep_workspace } => {
                if keep_workspace {
                    self.room_to_come_up()?;
                }
                let deadline_ms = self.deadline_ms(Goal::Stopped) + self.fleet.timing.up_ms;
                self.change(Move::Renew { renewal: Renewal { keep_workspace }, deadline_ms }).await
            }
        }
    }

    pub(super) async fn destroy(&mut self, keep_workspace: bool) -> Answer {
        if keep_workspace {
            let change = Change { keep_workspace: Some(true), ..Change::default() };
            let now_ms = self.fleet.clock.now_ms();
            self.fleet.store.change_sandbox(&self.id(), change, now_ms).await?;
        }
        self.want(Goal::Destroyed).await
    }

    fn is_only_frozen(&self) -> bool {
        let state = &self.record().state;
        self.ready && state.status == SandboxStatus::Paused && state.effort.is_none()
    }

    /// The deed before the word: somebody waits for this one. What is thawed and not written down is frozen
    /// again by whoever looks next.
    async fn thaw_at_once(&mut self) -> Answer {
        let id = self.id();
        let within = Duration::from_millis(self.fleet.timing.freeze_ms);
        if !matches!(timeout(within, self.driver.thaw(&id)).await, Ok(Ok(()))) {
            return self.want(Goal::Running).await;
        }
        let (deadline_ms, now_ms) = (self.deadline_ms(Goal::Running), self.fleet.clock.now_ms());
        let wanted = Move::Accept { goal: Goal::Running, deadline_ms };
        let store = &self.fleet.store;
        self.at_rest = false;
        // In this order; they may share a commit.
        let (wanted, reached) = tokio::join!(
            store.move_sandbox(&id, wanted, now_ms),
            store.move_sandbox(&id, Move::Reached, now_ms)
        );
        self.published.put(Arc::new(wanted?));
        let record = Arc::new(reached?);
        self.published.put(record.clone());
        Ok(record)
    }

    pub(super) async fn want(&mut self, goal: Goal) -> Answer {
        let deadline_ms = self.deadline_ms(goal);
        self.change(Move::Accept { goal, deadline_ms }).await
    }

    pub(super) fn deadline_ms(&self, goal: Goal) -> u64 {
        self.fleet.clock.now_ms() + self.fleet.timing.towards_ms(goal)
    }

    /// Opens hostd's own port inside, until the sandbox is gone.
    pub(super) fn offer(&mut self) {
        if self.door.is_some() {
            return;
        }
        let (record, control) = (self.published.subscribe(), self.control.clone());
        let guest = Guest::new(record, control, self.driver.clone());
        let (door, serve) = self.fleet.inside.open(guest, self.stop());
        self.fleet.tasks.spawn(serve);
        self.door = Some(door);
    }

    /// What a launch told last.
    pub(super) fn show(&mut self, progress: Option<Arc<str>>) {
        self.published.show(progress);
    }

    /// Writes a move and publishes the record it makes.
    pub(super) async fn change(&mut self, change: Move) -> Answer {
        self.at_rest = false;
        let now_ms = self.fleet.clock.now_ms();
        let (store, id) = (&self.fleet.store, self.id());
        let record = match store.move_sandbox(&id, change.clone(), now_ms).await {
            // Room that was set aside has been released meanwhile.
            Err(StoreError::Full) => store.move_sandbox(&id, change, now_ms).await?,
            moved => moved?,
        };
        Ok(self.publish(record))
    }

    /// What was written of it.
    pub(super) fn publish(&mut self, record: SandboxRecord) -> Arc<SandboxRecord> {
        let record = Arc::new(record);
        self.published.put(record.clone());
        record
    }

    /// Publishes what the store has.
    pub(super) async fn reread(&mut self) -> Result<(), FleetError> {
        let record = self.fleet.store.sandbox(&self.id()).await?.ok_or(FleetError::NotFound)?;
        self.published.put(Arc::new(record));
        Ok(())
    }

    pub(super) fn record(&self) -> Arc<SandboxRecord> {
        self.published.get()
    }

    pub(super) fn id(&self) -> SandboxId {
        self.published.get().id
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.fleet.stop
    }
}
