//! Performs the steps of a plan. Each may be repeated: hostd can be killed at any instruction.

use super::{
    FleetError,
    actor::SandboxActor,
    driver_problem::outcome_of,
    event_recovery::recover_events,
    launch_progress::progress_changed,
    metrics::{LaunchMeter, LaunchStep},
};
use hostd_core::{Death, DriverVerb, Goal, PlanStep, TaskEnding, Transition, VerbOutcome, no_answer};
use hostd_drivers::DriverError;
use hostd_store::StoreError;
use hostd_trace::Span;
use protocol::api::{Problem, SandboxStatus};
use std::{ops::ControlFlow, pin::pin, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

/// Whether the rest of the plan still holds.
pub(super) type Flow = Result<ControlFlow<()>, FleetError>;

/// The longest that an actor reads the logs of a sandbox without answering commands.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

const ON: Flow = Ok(ControlFlow::Continue(()));
const REPLAN: Flow = Ok(ControlFlow::Break(()));

/// How interruptible work ended.
pub(super) enum WorkOutcome<T> {
    Done(T),
    /// Another goal is wanted now.
    CutOff,
    /// The deadline of the operation passed.
    Overdue,
}

impl SandboxActor {
    pub(super) async fn perform(&mut self, step: PlanStep) -> Flow {
        match step {
            PlanStep::Launch => self.launch().await,
            PlanStep::AwaitReady => {
                let begun = Instant::now();
                let flow = self.await_ready().await;
                self.meter_launch(LaunchStep::FirstAnswer, begun.elapsed());
                flow
            }
            PlanStep::Provision => {
                let begun = Instant::now();
                let flow = self.provision().await;
                self.meter_launch(LaunchStep::Provision, begun.elapsed());
                flow
            }
            PlanStep::InspectAgain => {
                let wait = self.situation.wait_to_inspect(self.record().other_pid_namespace);
                self.wait_to_inspect(wait).await;
                REPLAN
            }
            PlanStep::Drive(verb) => self.drive(verb).await,
            PlanStep::Renewed => self.record_transition(Transition::Renewed).await,
            PlanStep::Reached => self.reached().await,
            PlanStep::GiveUp(problem) => self.give_up(problem).await,
            PlanStep::Lost(death) => self.lost(Transition::Lost { death: Box::new(death) }).await,
            PlanStep::Ended(death) => self.lost(Transition::Ended { death: Box::new(death) }).await,
            PlanStep::Restart(death) => self.restart(death).await,
            PlanStep::TryAgain => self.try_again().await,
            // A destroy waits for as long as the backend is away. The first deadline that passes is recorded.
            PlanStep::Extend if self.situation.backend().is_away() => ON,
            PlanStep::Extend => {
                let deadline_ms = self.deadline_ms(self.record().state.goal);
                self.record_transition(Transition::Extend { deadline_ms }).await
            }
        }
    }

    /// Adds to the time of a step of the launch under way, if there is one.
    pub(super) fn meter_launch(&mut self, step: LaunchStep, took: Duration) {
        if let Some(meter) = &mut self.launch_meter {
            meter.add(step, took);
        }
    }

    /// Performs one verb of the driver. No command cuts it off: verbs have bounds of their own.
    async fn drive(&mut self, verb: DriverVerb) -> Flow {
        let (driver, id) = (self.driver.clone(), self.id());
        let record = self.record();
        let keep_workspace = record.keep_workspace;
        // Processes whose files are thrown away need no time to put them in order.
        let in_order = record.state.goal != Goal::Destroyed || keep_workspace;
        let grace_ms = if in_order { self.fleet.timing.grace_ms } else { 0 };
        if verb == DriverVerb::Destroy {
            self.conclude_tasks_before_destroy().await?;
        }
        if verb == DriverVerb::Terminate && record.state.goal != Goal::Destroyed {
            self.remember_memory().await;
        }
        let work = async move {
            let span = Span::child("driver");
            let done = async {
                match verb {
                    DriverVerb::Freeze => driver.freeze(&id).await,
                    DriverVerb::Thaw => driver.thaw(&id).await,
                    DriverVerb::Terminate => driver.terminate(&id, grace_ms).await,
                    DriverVerb::CleanUp => driver.clean_up(&id).await,
                    DriverVerb::ResetWorkspace => driver.reset_workspace(&id).await,
                    DriverVerb::Destroy => driver.destroy(&id, keep_workspace).await,
                }
            };
            span.run_fallible(done).await
        };
        let outcome = self.run_interruptible(work, |_, _| false).await;
        if verb.ends_run() {
            self.disconnect();
        }
        self.situation.verb_ended(verb.brings(), verb_outcome(verb, &outcome));
        match outcome {
            WorkOutcome::Done(Ok(())) => ON,
            WorkOutcome::Done(Err(error)) => Err(error.into()),
            WorkOutcome::CutOff | WorkOutcome::Overdue => REPLAN,
        }
    }

    async fn conclude_tasks_before_destroy(&mut self) -> Result<(), FleetError> {
        match self.conclude_tasks().await {
            // Destroying may be what makes room; the runners of the tasks go on trying.
            Err(FleetError::Store(StoreError::Full)) => {
                warn!(sandbox = %self.id(), "disk full: the last events of the sandbox are not recovered");
                Ok(())
            }
            concluded => concluded,
        }
    }

    /// Recovers the last events of a sandbox that does not run from its logs.
    fn recovery(&self) -> impl Future<Output = Result<(), FleetError>> + use<> {
        let (id, fleet, logs) = (self.id(), self.fleet.clone(), self.driver.logs(&self.id()));
        async move {
            match logs {
                Some(logs) => recover_events(&fleet.store, logs, &id).await,
                None => Ok(()),
            }
        }
    }

    /// Recovers events while no command is answered: what takes long, or finds no room on the disk, is left to the
    /// runners of the tasks.
    async fn recover_events_quickly(&self) -> Result<(), FleetError> {
        match timeout(RECOVERY_MAX, self.recovery()).await {
            Ok(Err(FleetError::Store(StoreError::Full))) => {
                warn!(sandbox = %self.id(), "disk full: the last events of the sandbox are recovered later");
                Ok(())
            }
            Ok(recovered) => recovered,
            Err(_) => Ok(()),
        }
    }

    /// Ends the tasks of a sandbox before its files go: nothing can tell their end afterwards.
    async fn conclude_tasks(&mut self) -> Result<(), FleetError> {
        let recovery = self.recovery();
        // Recovery may delay the end of the sandbox, not keep it from coming.
        if let WorkOutcome::Done(recovered) = self.run_interruptible(Box::pin(recovery), |_, _| false).await {
            recovered?;
        }
        for task in self.fleet.store.open_tasks(Some(self.id())).await? {
            let now_ms = self.fleet.clock.now_ms();
            self.fleet.store.conclude_task(task.number, TaskEnding::Destroyed, now_ms).await?;
        }
        Ok(())
    }

    /// Does some work while answering commands. `cut(before, now)` says whether a new goal makes the work pointless.
    /// Dropping the work is safe: every verb of a driver may be repeated.
    pub(super) async fn run_interruptible<T>(
        &mut self,
        work: impl Future<Output = T>,
        cut: impl Fn(Goal, Goal) -> bool,
    ) -> WorkOutcome<T> {
        let goal = self.record().state.goal;
        let left = self.time_left();
        let (mut work, mut late) = (pin!(work), pin!(sleep(left)));
        loop {
            tokio::select! {
                biased;
                done = &mut work => return WorkOutcome::Done(done),
                // A message is taken whole or not at all.
                Some(message) = self.inbox.recv() => {
                    self.handle(message).await;
                    let state = &self.record().state;
                    if cut(goal, state.goal) || state.renewal.is_some() && cut(goal, Goal::Stopped) {
                        return WorkOutcome::CutOff;
                    }
                }
                // The newest progress stays in its channel until it is recorded.
                () = progress_changed(&mut self.launch_progress) => {
                    self.record_progress().await;
                    late.as_mut().reset(Instant::now() + self.time_left());
                }
                () = &mut late => return WorkOutcome::Overdue,
            }
        }
    }

    /// The time until the deadline of the operation. Without an operation, or past the deadline of a destroy, which
    /// goes on, as long as stopping may take.
    pub(super) fn time_left(&self) -> Duration {
        let (state, now_ms) = (&self.record().state, self.fleet.clock.now_ms());
        let left_ms = match &state.operation {
            Some(operation) if state.goal != Goal::Destroyed || operation.deadline_ms > now_ms => {
                operation.deadline_ms.saturating_sub(now_ms)
            }
            Some(_) | None => self.fleet.timing.down_ms,
        };
        Duration::from_millis(left_ms.max(self.fleet.timing.retry_min_ms))
    }

    async fn record_transition(&mut self, transition: Transition) -> Flow {
        self.transition(transition).await?;
        ON
    }

    async fn reached(&mut self) -> Flow {
        let record = self.record();
        let (id, attempt) = (record.id, record.attempt);
        let created_ms = (record.state.status == SandboxStatus::Creating).then_some(record.created_ms);
        if record.state.goal == Goal::Stopped {
            self.recover_events_quickly().await?;
            // Their end was not seen. An end that runtimed's log still shows replaces this.
            self.fleet.store.mark_execs_lost(&id, self.fleet.clock.now_ms()).await?;
        }
        if record.state.goal != Goal::Running || !self.situation.attempt().needs_end() {
            return self.record_transition(Transition::Reached).await;
        }
        self.situation.act();
        let (fleet, run) = (self.fleet.clone(), self.situation.attempt().run().cloned());
        let reached = fleet.store.attempt_reached(&id, attempt, run, fleet.clock.now_ms()).await?;
        let (record, written) = reached;
        self.publish(record);
        written?;
        self.situation.close_attempt();
        let now_ms = fleet.clock.now_ms();
        let age = created_ms.map(|created_ms| Duration::from_millis(now_ms.saturating_sub(created_ms)));
        self.launch_meter.take().into_iter().for_each(|meter| meter.reached(age));
        ON
    }

    pub(super) async fn give_up(&mut self, problem: Problem) -> Flow {
        let problem = self.situation.give_up(problem);
        self.close_attempt(&problem).await?;
        let found = self.situation.found();
        self.transition(Transition::GiveUp { problem, found }).await?;
        REPLAN
    }

    async fn close_attempt(&mut self, problem: &Problem) -> Result<(), FleetError> {
        if !self.situation.attempt().needs_end() {
            return Ok(());
        }
        let (record, now_ms) = (self.record(), self.fleet.clock.now_ms());
        let (id, attempt, store) = (record.id, record.attempt, &self.fleet.store);
        if let Some(run) = self.situation.attempt().run().cloned() {
            store.attempt_launched(&id, attempt, run, now_ms).await?;
        }
        store.end_attempt(&id, attempt, Some(problem.clone()), now_ms).await?;
        self.situation.close_attempt();
        self.launch_meter.take().into_iter().for_each(LaunchMeter::given_up);
        Ok(())
    }

    /// Records the death of a sandbox that should run: its execs are lost with it.
    async fn lost(&mut self, transition: Transition) -> Flow {
        self.disconnect();
        self.recover_events_quickly().await?;
        self.fleet.store.mark_execs_lost(&self.id(), self.fleet.clock.now_ms()).await?;
        self.transition(transition).await?;
        REPLAN
    }

    async fn restart(&mut self, death: Death) -> Flow {
        let pause = self.fleet.timing.restart_pause(self.situation.backoff().restarts);
        self.situation.restarting();
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.deadline_ms(Goal::Running).saturating_add(pause_ms);
        let flow = self.lost(Transition::Restart { death: Box::new(death), deadline_ms }).await?;
        self.pause(pause).await;
        Ok(flow)
    }
}

fn verb_outcome(verb: DriverVerb, outcome: &WorkOutcome<Result<(), DriverError>>) -> VerbOutcome {
    match outcome {
        WorkOutcome::Done(Ok(())) => VerbOutcome::Done,
        WorkOutcome::Done(Err(DriverError::TimedOut { .. })) | WorkOutcome::CutOff => VerbOutcome::Abandoned,
        WorkOutcome::Done(Err(error)) => outcome_of(error),
        // Processes that do not end in time are a problem of the sandbox, not of the backend.
        WorkOutcome::Overdue if verb == DriverVerb::Terminate => VerbOutcome::Abandoned,
        WorkOutcome::Overdue => VerbOutcome::Unanswered(no_answer()),
    }
}
