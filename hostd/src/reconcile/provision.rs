//! Provisions a sandbox: performs its steps in order, each as an exec of the sandbox's user, before it counts as
//! running. `core::provision` says which step is next; the store has the answer before an exec is started.

use super::{
    FleetError,
    actor::SandboxActor,
    launch::is_pointless,
    perform::{Flow, WorkOutcome},
    provision_dotfiles,
    provision_exec::{self, StepExec},
    provision_source,
};
use hostd_core::{NextStep, ProvisionStep, Transition, limits, progress_line, provision_steps, step_problem};
use hostd_drivers::control::ControlError;
use hostd_store::{SandboxRecord, StepCommand, StepEnd};
use protocol::{Exit, api::Problem};
use std::{ops::ControlFlow, sync::Arc};

/// How the work of a step ended.
pub(super) enum StepOutcome {
    Succeeded,
    Failed(Problem),
    /// PID 1 died first.
    SandboxDied,
}

impl SandboxActor {
    /// Performs the steps that are left. A step that ran when hostd was killed is found by its exec.
    pub(super) async fn provision(&mut self) -> Flow {
        loop {
            let record = self.record();
            let index = match record.provisioning.next(&record.blueprint) {
                NextStep::AllDone => {
                    self.publisher.put_progress(None);
                    self.situation.provisioned();
                    return Ok(ControlFlow::Continue(()));
                }
                NextStep::Begin { index } => {
                    self.begin_step(&record, index).await?;
                    index
                }
                NextStep::Resume { index } if is_clone(&record, index) => {
                    // The grant of a clone ended with the hostd that gave it.
                    if let ControlFlow::Break(()) = self.cancel_clone(&record, index).await? {
                        return Ok(ControlFlow::Break(()));
                    }
                    continue;
                }
                NextStep::Resume { index } => index,
            };
            self.give_step_its_time(index).await?;
            if let ControlFlow::Break(()) = Box::pin(self.perform_step(index)).await? {
                self.publisher.put_progress(None);
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    async fn begin_step(&mut self, record: &SandboxRecord, index: usize) -> Result<(), FleetError> {
        // What dotfiles run is known only when they were unpacked.
        let command = match provision_steps(&record.blueprint).get(index) {
            Some(ProvisionStep::Setup(_, step)) => Some(StepCommand {
                argv: hostd_core::setup_argv(step),
                cwd: step.dir.clone().unwrap_or_default(),
            }),
            Some(ProvisionStep::Clone(_, source)) => Some(StepCommand {
                argv: vec!["git".to_owned(), "clone".to_owned(), source.url.clone()],
                cwd: source.dir.clone(),
            }),
            Some(ProvisionStep::Dotfiles(_)) | None => None,
        };
        let now_ms = self.fleet.clock.now_ms();
        let begun = self.fleet.store.begin_provision_step(&record.id, command, now_ms).await?;
        self.publish(begun);
        Ok(())
    }

    /// The step has its own time limit, which the deadline of the operation must not cut.
    async fn give_step_its_time(&mut self, index: usize) -> Result<(), FleetError> {
        let record = self.record();
        let timeout_ms = provision_steps(&record.blueprint).get(index).map_or(0, ProvisionStep::timeout_ms);
        let deadline_ms = self.fleet.clock.now_ms() + timeout_ms + self.fleet.timing.up_ms;
        let soon =
            record.state.operation.as_ref().is_some_and(|operation| operation.deadline_ms < deadline_ms);
        if soon {
            self.transition(Transition::Extend { deadline_ms }).await?;
        }
        self.publisher.put_progress(Some(progress_line(&record.blueprint, index).into()));
        Ok(())
    }

    async fn perform_step(&mut self, index: usize) -> Flow {
        let (record, driver) = (self.record(), self.driver.clone());
        let (control, store) = (self.connections.control.clone(), self.fleet.store.clone());
        let (watched, git) = (record.clone(), self.fleet.inside.git().clone());
        let work = async move {
            let steps = provision_steps(&watched.blueprint);
            let work = async {
                match &steps[index] {
                    ProvisionStep::Clone(_, source) => {
                        provision_source::clone(&control, &git, &watched, source, index).await
                    }
                    ProvisionStep::Dotfiles(dotfiles) => {
                        provision_dotfiles::install(&control, &store, &watched, dotfiles, index).await
                    }
                    ProvisionStep::Setup(number, step) => {
                        let exec = StepExec::of_setup(&watched, *number, step);
                        provision_exec::run(&control, &watched, index, exec).await
                    }
                }
            };
            // Safe to cut off: an exec goes on in the sandbox and is found again, and dotfiles are installed anew.
            tokio::select! {
                done = work => done,
                _ = driver.died(&watched.id) => Ok(StepOutcome::SandboxDied),
            }
        };
        match self.run_interruptible(work, is_pointless).await {
            WorkOutcome::Done(Ok(StepOutcome::Succeeded)) => {
                self.step_succeeded(&record, index).await?;
                Ok(ControlFlow::Continue(()))
            }
            WorkOutcome::Done(Ok(StepOutcome::Failed(problem))) => self.fail_step(problem).await,
            // Not tried again: a step that ends its sandbox would do so for ever.
            WorkOutcome::Done(Ok(StepOutcome::SandboxDied)) => {
                let exec = Some(record.provisioning.exec_id());
                let problem = step_problem(&record.blueprint, index, exec, Some(Exit::Lost), &[]);
                self.fail_step(problem).await
            }
            WorkOutcome::Done(Err(error)) => {
                let problem = unanswered(&record, index, &error);
                self.fail_step(problem).await
            }
            WorkOutcome::Overdue => {
                let error = ControlError::TimedOut(limits::CONTROL_TIMEOUT_MS);
                let problem = unanswered(&record, index, &error);
                self.fail_step(problem).await
            }
            // The sandbox is stopped or destroyed. Its next launch begins the step anew.
            WorkOutcome::CutOff => Ok(ControlFlow::Break(())),
        }
    }

    async fn cancel_clone(&mut self, record: &SandboxRecord, index: usize) -> Flow {
        let (control, watched) = (self.connections.control.clone(), self.record());
        let work = async move { provision_source::cancel(&control, &watched).await };
        match self.run_interruptible(work, is_pointless).await {
            // It succeeded before hostd was killed.
            WorkOutcome::Done(Ok(Exit::Exited { code: 0 })) => {
                self.step_succeeded(record, index).await?;
                Ok(ControlFlow::Continue(()))
            }
            WorkOutcome::Done(Ok(exit)) => {
                self.end_step(StepEnd::Interrupted(exit)).await?;
                Ok(ControlFlow::Continue(()))
            }
            WorkOutcome::Done(Err(error)) => self.fail_step(unanswered(record, index, &error)).await,
            WorkOutcome::CutOff | WorkOutcome::Overdue => Ok(ControlFlow::Break(())),
        }
    }

    async fn step_succeeded(&mut self, record: &SandboxRecord, index: usize) -> Result<(), FleetError> {
        self.end_step(StepEnd::Succeeded).await?;
        if let Some(ProvisionStep::Clone(_, source)) = provision_steps(&record.blueprint).get(index) {
            provision_source::remove_mark(&self.connections.control, source).await;
        }
        Ok(())
    }

    async fn fail_step(&mut self, problem: Problem) -> Flow {
        self.end_step(StepEnd::Failed(Box::new(problem.clone()))).await?;
        self.give_up(problem).await
    }

    async fn end_step(&mut self, end: StepEnd) -> Result<(), FleetError> {
        let (id, now_ms) = (self.id(), self.fleet.clock.now_ms());
        let record = self.fleet.store.end_provision_step(&id, end, now_ms).await?;
        self.publish(record);
        Ok(())
    }

    /// Nothing of an earlier run is left when a sandbox is launched: a step that ran then is begun anew.
    pub(super) async fn interrupt_step(&mut self) -> Result<(), FleetError> {
        let record: Arc<SandboxRecord> = self.record();
        if record.provisioning.running {
            self.end_step(StepEnd::Interrupted(Exit::Lost)).await
        } else {
            Ok(())
        }
    }
}

fn is_clone(record: &SandboxRecord, index: usize) -> bool {
    matches!(provision_steps(&record.blueprint).get(index), Some(ProvisionStep::Clone(..)))
}

/// The problem of a step whose end could not be learnt.
fn unanswered(record: &SandboxRecord, index: usize, error: &ControlError) -> Problem {
    let exec = Some(record.provisioning.exec_id());
    step_problem(&record.blueprint, index, exec, None, &[error.to_string()])
}
