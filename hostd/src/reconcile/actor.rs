//! The task that drives one sandbox: inspects, plans, performs, and waits until something happens.
//!
//! ```text
//!        ┌────────────▶ inspect ──▶ plan ──▶ nothing to do: wait ──┐
//!        │                            │                            │ command, change, time
//!        ├── perform the steps ◀──────┘                            │
//!        └─────────────────────────────────────────────────────────┘
//! ```
//!
//! A command that comes while a step is performed is recorded and answered at once; it cuts the step off where that
//! has become pointless. The actor decides nothing: `core::plan` says what to do, `core::Situation` holds what the
//! actor remembers.

use super::{
    FleetError, SandboxCommand,
    cause::Cause,
    connections::Connections,
    fleet::Inner,
    idle::IdleCheck,
    launch_progress::LaunchProgress,
    limits_change::LimitsInForce,
    metrics::LaunchMeter,
    record_publisher::RecordPublisher,
    snapshot_restore::{RestoreState, RestoreStep},
};
use hostd_core::{Desired, DriverVerb, Goal, PlanDecision, PlanStep, Situation, Transition, drift, plan};
use hostd_drivers::{CaptureOrder, CaptureOutcome, CopyExtent, Driver, control::Control};
use hostd_edge::{traffic::Traffic, upstream::UpstreamPool};
use hostd_store::{SandboxRecord, StoreError};
use hostd_trace::Attribute;
use protocol::api::{SandboxId, SandboxStatus};
use std::{ops::ControlFlow, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub(super) type CommandReply = Result<Arc<SandboxRecord>, FleetError>;

pub(super) enum ActorMessage {
    Command(SandboxCommand, Cause, oneshot::Sender<CommandReply>),
    /// Take a snapshot; answered with the milliseconds for which the sandbox was frozen, too.
    Capture(CaptureOrder, CopyExtent, oneshot::Sender<Result<(CaptureOutcome, u64), FleetError>>),
    Restore(RestoreStep, oneshot::Sender<Result<(), FleetError>>),
    /// The row was changed by someone else, and published: deadlines may have moved.
    RecordChanged,
}

/// How an actor comes to its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The row and the first attempt were written a moment ago.
    Created,
    /// The row is of an earlier hostd, or the sandbox was adopted.
    Resumed { restore: RestoreState },
}

pub(super) struct ActorParts {
    pub driver: Arc<dyn Driver>,
    pub control: Control,
    pub publisher: Arc<RecordPublisher>,
    pub inbox: mpsc::Receiver<ActorMessage>,
    pub traffic: Traffic,
    pub upstream: UpstreamPool,
    /// The request that made the sandbox.
    pub cause: Cause,
}

pub(super) struct SandboxActor {
    pub(super) fleet: Arc<Inner>,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) inbox: mpsc::Receiver<ActorMessage>,
    pub(super) publisher: Arc<RecordPublisher>,
    start: Start,
    pub(super) situation: Situation,
    pub(super) connections: Connections,
    /// Use of the sandbox by browsers.
    pub(super) traffic: Traffic,
    /// How far a restore of its files is.
    pub(super) restore: RestoreState,
    /// Progress of the newest launch.
    pub(super) launch_progress: Option<LaunchProgress>,
    /// The time of the launch under way.
    pub(super) launch_meter: Option<LaunchMeter>,
    pub(super) idle_check: Option<IdleCheck>,
    /// The request that the operation under way was accepted for.
    pub(super) cause: Cause,
    pub(super) limits_in_force: LimitsInForce,
}

impl SandboxActor {
    pub(super) fn new(fleet: Arc<Inner>, start: Start, parts: ActorParts) -> Self {
        let ActorParts { driver, control, publisher, inbox, traffic, upstream, cause } = parts;
        let record = publisher.get();
        let situation = match start {
            Start::Created => Situation::created(),
            Start::Resumed { .. } => Situation::resumed(&record.state, record.generation, record.attempt),
        };
        Self {
            fleet,
            driver,
            inbox,
            publisher,
            start,
            situation,
            connections: Connections::new(control, upstream),
            traffic,
            restore: match start {
                Start::Created => RestoreState::None,
                Start::Resumed { restore } => restore,
            },
            launch_progress: None,
            launch_meter: None,
            idle_check: None,
            cause,
            limits_in_force: match start {
                Start::Created => LimitsInForce::AsRecorded,
                Start::Resumed { .. } => LimitsInForce::Unchecked,
            },
        }
    }

    pub(super) async fn run(mut self) {
        match self.start {
            Start::Created => {}
            // The time in which no hostd ran does not count.
            Start::Resumed { .. } => self.extend().await,
        }
        let stop = self.fleet.stop.clone();
        // Safe to cut off anywhere: every step can be repeated, and the next hostd inspects first.
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
            self.end_interrupted_restore(&observed).await;
            self.check_limits(&observed).await;
            let record = self.record();
            if record.state.status == SandboxStatus::Destroyed {
                return;
            }
            let desired = Desired {
                state: &record.state,
                idle_policy: record.blueprint.idle_policy,
                to_provision: !record.provisioning.is_done(&record.blueprint),
            };
            let steps = plan(&desired, &observed, self.fleet.clock.now_ms());
            if let Some(drift) = drift(&desired, &observed, &steps) {
                self.attribute_drift(drift, &observed).await;
            }
            let healthy = self.driver.health().is_ok();
            match self.situation.planned(&steps, &observed, &record.state, healthy) {
                PlanDecision::Rest => {
                    self.cause = Cause::none();
                    self.wait_at_rest(&observed).await;
                }
                PlanDecision::Perform => self.perform_plan(steps, record.state.goal).await,
            }
        }
    }

    /// Performs a plan that was made for `goal`, up to the first step that fails or makes the rest void.
    async fn perform_plan(&mut self, steps: Vec<PlanStep>, goal: Goal) {
        for step in steps {
            let (cause, driver) = (self.cause.clone(), Attribute::Driver(self.driver.name()));
            let about = [Attribute::Sandbox(self.id()), Attribute::Step(step_word(&step)), driver];
            let span = cause.span("reconcile", about);
            // Boxed: a launch is large, and an actor at rest should be small.
            match Box::pin(cause.within(span.run_fallible(self.perform(step)))).await {
                Ok(ControlFlow::Continue(())) if self.record().state.goal != goal => return,
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return,
                // The reason belongs to the request, too.
                Err(error) => return self.cause.clone().within(self.back_off(&error)).await,
            }
        }
    }

    /// Gives the operation under way its whole time again.
    pub(super) async fn extend(&mut self) {
        let record = self.record();
        if record.state.operation.is_none() {
            return;
        }
        let deadline_ms = self.deadline_ms(record.state.goal);
        if let Err(error) = self.transition(Transition::Extend { deadline_ms }).await {
            warn!(sandbox = %self.id(), %error, "failed to extend the operation under way");
        }
    }

    /// Waits, and answers commands meanwhile. A command that changes the goal ends the pause.
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

    pub(super) async fn set_goal(&mut self, goal: Goal) -> CommandReply {
        let deadline_ms = self.deadline_ms(goal);
        self.transition(Transition::Accept { goal, deadline_ms }).await
    }

    pub(super) fn deadline_ms(&self, goal: Goal) -> u64 {
        self.fleet.clock.now_ms() + self.fleet.timing.towards_ms(goal)
    }

    /// Records a transition and publishes the new record.
    pub(super) async fn transition(&mut self, transition: Transition) -> CommandReply {
        self.situation.act();
        let now_ms = self.fleet.clock.now_ms();
        let (store, id) = (&self.fleet.store, self.id());
        let record = match store.transition_sandbox(&id, transition.clone(), now_ms).await {
            // Reserved disk space has been released meanwhile.
            Err(StoreError::Full) => store.transition_sandbox(&id, transition, now_ms).await?,
            moved => moved?,
        };
        Ok(self.publish(record))
    }

    pub(super) fn publish(&mut self, record: SandboxRecord) -> Arc<SandboxRecord> {
        let record = Arc::new(record);
        self.publisher.put(record.clone());
        self.account_memory(&record);
        record
    }

    /// Publishes the record as the store has it.
    pub(super) async fn reread(&mut self) -> Result<(), FleetError> {
        let record = self.fleet.store.sandbox(&self.id()).await?.ok_or(FleetError::NotFound)?;
        self.publish(record);
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

/// The word for a step in traces.
fn step_word(step: &PlanStep) -> &'static str {
    match step {
        PlanStep::Launch => "launch",
        PlanStep::AwaitReady => "await_ready",
        PlanStep::Provision => "provision",
        PlanStep::InspectAgain => "inspect_again",
        PlanStep::Drive(DriverVerb::Freeze) => "freeze",
        PlanStep::Drive(DriverVerb::Thaw) => "thaw",
        PlanStep::Drive(DriverVerb::Terminate) => "terminate",
        PlanStep::Drive(DriverVerb::CleanUp) => "clean_up",
        PlanStep::Drive(DriverVerb::ResetWorkspace) => "reset_workspace",
        PlanStep::Drive(DriverVerb::Destroy) => "destroy",
        PlanStep::Renewed => "renewed",
        PlanStep::Reached => "reached",
        PlanStep::GiveUp(_) => "give_up",
        PlanStep::Lost(_) => "lost",
        PlanStep::Ended(_) => "ended",
        PlanStep::Restart(_) => "restart",
        PlanStep::TryAgain => "try_again",
        PlanStep::Extend => "extend",
    }
}
