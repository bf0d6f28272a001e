//! Steps of a plan, performed.

use super::{
    FleetError, actor::SandboxActor, event_recovery::recover_events, launch_progress::progress_changed,
};
use crate::{
    core::{Death, Goal, PlanStep, TaskEnding, Transition},
    driver::DriverError,
    store::StoreError,
};
use protocol::api::{Problem, ProblemCode};
use std::{ops::ControlFlow, pin::pin, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

/// Whether the rest of the plan still holds.
pub(super) type Flow = Result<ControlFlow<()>, FleetError>;

/// How long an owner may be busy with what a sandbox left in its logs.
const RECOVERY_MAX: Duration = Duration::from_secs(5);

const ON: Flow = Ok(ControlFlow::Continue(()));

/// How work that could be cut off ended.
pub(super) enum WorkOutcome<T> {
    Done(T),
    /// Something else is wanted now.
    CutOff,
    /// The deadline of the effort passed.
    Overdue,
}

impl SandboxActor {
    pub(super) async fn perform(&mut self, step: PlanStep) -> Flow {
        match step {
            PlanStep::Launch => self.launch().await,
            PlanStep::AwaitReady => self.await_ready().await,
            PlanStep::InspectAgain => {
                if self.record().other_pid_namespace {
                    self.pause(Duration::from_millis(self.fleet.timing.inspect_unseen_ms)).await;
                } else if self.outage.is_some() {
                    self.wait_for_backend().await;
                } else {
                    self.pause(self.fleet.timing.retry_pause(self.failures)).await;
                }
                Ok(ControlFlow::Break(()))
            }
            PlanStep::Freeze
            | PlanStep::Thaw
            | PlanStep::Terminate
            | PlanStep::RemoveContainer
            | PlanStep::ResetWorkspace
            | PlanStep::Destroy => self.drive(&step).await,
            PlanStep::Renewed => self.write(Transition::Renewed).await,
            PlanStep::Reached => self.reached().await,
            PlanStep::GiveUp(problem) => self.give_up(problem).await,
            PlanStep::Lost(death) => self.lost(Transition::Lost { death: Box::new(death) }).await,
            PlanStep::Ended(death) => self.lost(Transition::Ended { death: Box::new(death) }).await,
            PlanStep::Restart(death) => self.restart(death).await,
            PlanStep::TryAgain => self.try_again().await,
            // It goes on for as long as the backend is away: that is written down once.
            PlanStep::Extend if self.outage.is_some() => ON,
            PlanStep::Extend => {
                let deadline_ms = self.deadline_ms(self.record().state.goal);
                self.write(Transition::Extend { deadline_ms }).await
            }
        }
    }

    /// One verb of the driver. Ends are never cut off; they have bounds of their own.
    async fn drive(&mut self, step: &PlanStep) -> Flow {
        let (driver, id) = (self.driver.clone(), self.id());
        let record = self.record();
        let keep_workspace = record.keep_workspace;
        // What is thrown away with its files need not be put in order first.
        let in_order = record.state.goal != Goal::Destroyed || keep_workspace;
        let grace_ms = if in_order { self.fleet.timing.grace_ms } else { 0 };
        if *step == PlanStep::Destroy {
            match self.conclude_tasks().await {
                // What is erased may be what makes room; the runners of its tasks try on.
                Err(FleetError::Store(StoreError::Full)) => {
                    warn!(sandbox = %id, "the disk is full: its last events are not taken over");
                }
                concluded => concluded?,
            }
        }
        let work = async move {
            match step {
                PlanStep::Freeze => driver.freeze(&id).await,
                PlanStep::Thaw => driver.thaw(&id).await,
                PlanStep::Terminate => driver.terminate(&id, grace_ms).await,
                PlanStep::RemoveContainer => driver.remove_container(&id).await,
                PlanStep::ResetWorkspace => driver.reset_workspace(&id).await,
                PlanStep::Destroy => driver.destroy(&id, keep_workspace).await,
                _ => Ok(()),
            }
        };
        let outcome = self.run_interruptible(work, |_, _| false).await;
        if matches!(step, PlanStep::Terminate | PlanStep::RemoveContainer | PlanStep::Destroy) {
            self.disconnect();
        }
        self.note_unanswered_verb(step, &outcome);
        match outcome {
            WorkOutcome::Done(Ok(())) => {
                self.end_outage();
                ON
            }
            WorkOutcome::Done(Err(error)) => {
                self.note_outage(&error);
                Err(error.into())
            }
            // An end has bounds of its own: what does not end is in error.
            WorkOutcome::Overdue if *step != PlanStep::Terminate => {
                self.note_timeout();
                Ok(ControlFlow::Break(()))
            }
            WorkOutcome::CutOff | WorkOutcome::Overdue => Ok(ControlFlow::Break(())),
        }
    }

    fn note_unanswered_verb(&mut self, step: &PlanStep, outcome: &WorkOutcome<Result<(), DriverError>>) {
        let answered = match outcome {
            WorkOutcome::Done(Err(
                DriverError::Unavailable { .. }
                | DriverError::TimedOut { .. }
                | DriverError::OtherPidNamespace { .. },
            )) => false,
            WorkOutcome::Done(_) => true,
            WorkOutcome::CutOff | WorkOutcome::Overdue => false,
        };
        match step {
            PlanStep::Freeze => self.expect_late_effect(Goal::Paused, answered),
            PlanStep::Thaw => self.expect_late_effect(Goal::Running, answered),
            _ => {}
        }
    }

    /// It does not run: what it said last is in its files.
    fn recover_events(&self) -> impl Future<Output = Result<(), FleetError>> + use<> {
        let (id, fleet, logs) = (self.id(), self.fleet.clone(), self.driver.logs(&self.id()));
        async move {
            match logs {
                Some(logs) => recover_events(&fleet.store, logs, &id).await,
                None => Ok(()),
            }
        }
    }

    /// The same while nothing may be asked for: what takes long, or finds no room on the disk, is left to the
    /// runners of its tasks.
    async fn recover_events_quickly(&self) -> Result<(), FleetError> {
        match timeout(RECOVERY_MAX, self.recover_events()).await {
            Ok(Err(FleetError::Store(StoreError::Full))) => {
                warn!(sandbox = %self.id(), "the disk is full: its last events are taken over later");
                Ok(())
            }
            Ok(recovered) => recovered,
            Err(_) => Ok(()),
        }
    }

    /// Before the files go: nobody will tell the end of its tasks afterwards.
    async fn conclude_tasks(&mut self) -> Result<(), FleetError> {
        let recovery = self.recover_events();
        // It may delay the end, not keep it from coming.
        if let WorkOutcome::Done(recovered) = self.run_interruptible(recovery, |_, _| false).await {
            recovered?;
        }
        for task in self.fleet.store.open_tasks(Some(self.id())).await? {
            let now_ms = self.fleet.clock.now_ms();
            self.fleet.store.conclude_task(task.number, TaskEnding::Destroyed, now_ms).await?;
        }
        Ok(())
    }

    /// Does some work while answering what is asked. `cut(before, now)` says whether a new goal makes the
    /// work pointless. Dropping the work is safe: every verb of a driver may be repeated.
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
                // So are words: the newest stays until it was taken down.
                () = progress_changed(&mut self.launch_progress) => {
                    self.record_progress().await;
                    late.as_mut().reset(Instant::now() + self.time_left());
                }
                () = &mut late => return WorkOutcome::Overdue,
            }
        }
    }

    /// Until the deadline of the effort; without one, or past that of a destroy, which goes on, as long as an
    /// end may take.
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

    async fn write(&mut self, change: Transition) -> Flow {
        self.transition(change).await?;
        ON
    }

    async fn reached(&mut self) -> Flow {
        let record = self.record();
        let (id, attempt) = (record.id, record.attempt);
        if record.state.goal == Goal::Stopped {
            self.recover_events_quickly().await?;
            // Whose end was not seen; should it still be learnt from the log of runtimed, that counts.
            self.fleet.store.mark_execs_lost(&id, self.fleet.clock.now_ms()).await?;
        }
        if record.state.goal != Goal::Running || !(self.attempt_open || self.left_open) {
            return self.write(Transition::Reached).await;
        }
        self.at_rest = false;
        let (fleet, handle) = (self.fleet.clone(), self.launched.clone());
        let reached = fleet.store.attempt_reached(&id, attempt, handle, fleet.clock.now_ms()).await?;
        let (record, written) = reached;
        self.publish(record);
        written?;
        self.forget_attempt();
        ON
    }

    pub(super) async fn give_up(&mut self, problem: Problem) -> Flow {
        let late = problem.code == ProblemCode::DeadlinePassed;
        let problem = self.outage.take().filter(|_| late).unwrap_or(problem);
        self.close_attempt(&problem).await?;
        self.transition(Transition::GiveUp { problem, found: self.found }).await?;
        Ok(ControlFlow::Break(()))
    }

    pub(super) async fn close_attempt(&mut self, problem: &Problem) -> Result<(), FleetError> {
        if self.attempt_open || self.left_open {
            let (record, now_ms) = (self.record(), self.fleet.clock.now_ms());
            let (id, attempt, store) = (record.id, record.attempt, &self.fleet.store);
            if let Some(handle) = self.launched.clone() {
                store.attempt_launched(&id, attempt, handle, now_ms).await?;
            }
            store.end_attempt(&id, attempt, Some(problem.clone()), now_ms).await?;
            self.forget_attempt();
        }
        Ok(())
    }

    /// And this is written.
    fn forget_attempt(&mut self) {
        (self.attempt_open, self.left_open, self.launched) = (false, false, None);
    }

    /// It is not there any more: what ran in it is lost.
    async fn lost(&mut self, change: Transition) -> Flow {
        self.disconnect();
        self.recover_events_quickly().await?;
        self.fleet.store.mark_execs_lost(&self.id(), self.fleet.clock.now_ms()).await?;
        self.transition(change).await?;
        Ok(ControlFlow::Break(()))
    }

    async fn restart(&mut self, death: Death) -> Flow {
        let pause = self.fleet.timing.restart_pause(self.deaths);
        self.deaths += 1;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let deadline_ms = self.deadline_ms(Goal::Running).saturating_add(pause_ms);
        let flow = self.lost(Transition::Restart { death: Box::new(death), deadline_ms }).await?;
        self.pause(pause).await;
        Ok(flow)
    }
}

/// What people read about a driver's error.
pub(super) fn problem_of(error: &DriverError) -> Problem {
    let (code, output) = match error {
        DriverError::Refused { .. } => (ProblemCode::Refused, &[] as &[String]),
        DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. } => {
            (ProblemCode::DriverUnavailable, &[] as _)
        }
        DriverError::ImageMissing { .. } => (ProblemCode::ImageMissing, &[] as _),
        DriverError::NameTaken { .. } => (ProblemCode::NameTaken, &[] as _),
        DriverError::DiskFull => (ProblemCode::DiskFull, &[] as _),
        DriverError::Failed { output, .. } => (ProblemCode::LaunchFailed, output.as_slice()),
        DriverError::TimedOut { .. } => (ProblemCode::DeadlinePassed, &[] as _),
        DriverError::Damaged { .. } => (ProblemCode::Damaged, &[] as _),
        DriverError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
            (ProblemCode::DiskFull, &[] as _)
        }
        DriverError::Io { .. } => (ProblemCode::LaunchFailed, &[] as _),
    };
    let message = match error {
        DriverError::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    Problem { code, message, output: output.to_vec() }
}
