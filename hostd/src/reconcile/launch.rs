//! Bringing a sandbox up: a new attempt, and then waiting until PID 1 answers.

use super::{
    FleetError,
    actor::SandboxActor,
    launch_progress::LaunchPermit,
    perform::{Flow, WorkOutcome, problem_of},
};
use crate::{
    control::{Control, ControlError},
    core::Goal,
    driver::{DriverError, LabelDetails, LaunchRequest, SandboxLabel},
    inside::InsideListener,
    limits,
    store::SandboxRecord,
};
use hyper::Method;
use protocol::{
    ServiceView, ServicesRequest,
    api::{AttemptRelation, Phase, Problem, ProblemCode, SandboxStatus},
};
use std::{ops::ControlFlow, time::Duration};
use tokio::time::sleep;

/// Between tries to reach a PID 1 that has just been started: while it should be there any moment, and
/// at most.
const TRY_MIN: Duration = Duration::from_micros(500);
const TRY_MAX: Duration = Duration::from_millis(50);
const TRIES_QUICK: u32 = 40;

/// Going up is pointless once it must not be up.
fn is_pointless(_: Goal, now: Goal) -> bool {
    match now {
        Goal::Stopped | Goal::Destroyed => true,
        Goal::Running | Goal::Paused => false,
    }
}

impl SandboxActor {
    pub(super) async fn launch(&mut self) -> Flow {
        self.disconnect();
        self.fleet.disk.ensure_free();
        self.begin_attempt().await?;
        let record = self.record();
        let permit = LaunchPermit::default();
        let request = LaunchRequest {
            label: label(&record),
            attempt: record.attempt,
            blueprint: record.blueprint.clone(),
            progress: self.progress_sink(permit.clone()),
        };
        let (driver, fleet, held) = (self.driver.clone(), self.fleet.clone(), permit.clone());
        let work = async move {
            let acquired = match fleet.launches(&driver) {
                Some(launches) => launches.acquire_owned().await.ok(),
                None => None,
            };
            if let Ok(mut held) = permit.lock() {
                *held = acquired;
            }
            driver.launch(&request).await
        };
        let outcome = self.run_interruptible(work, is_pointless).await;
        self.stop_progress();
        let answered = !matches!(
            outcome,
            WorkOutcome::Done(Err(DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. }))
                | WorkOutcome::CutOff
                | WorkOutcome::Overdue
        );
        self.expect_late_effect(Goal::Running, answered);
        match outcome {
            WorkOutcome::Done(Ok(handle)) => {
                self.end_outage();
                // Written with what comes of it: the driver finds it without.
                self.launched = Some(handle);
                self.open_door();
                Ok(ControlFlow::Continue(()))
            }
            // Later it may work, and is the same attempt: the deadline ends it.
            WorkOutcome::Done(Err(
                error @ (DriverError::Unavailable { .. } | DriverError::OtherPidNamespace { .. }),
            )) => {
                self.note_outage(&error);
                Err(error.into())
            }
            WorkOutcome::Done(Err(error)) => self.give_up(problem_of(&error)).await,
            WorkOutcome::Overdue => {
                // It had its turn, and never said a word.
                if held.lock().is_ok_and(|permit| permit.is_some()) {
                    self.note_timeout();
                }
                Ok(ControlFlow::Break(()))
            }
            WorkOutcome::CutOff => Ok(ControlFlow::Break(())),
        }
    }

    /// An attempt that was tried already, or left open by a hostd that died, is over.
    async fn begin_attempt(&mut self) -> Result<(), FleetError> {
        if self.attempt_open {
            return Ok(());
        }
        let record = self.record();
        let relation = match &record.state.operation {
            Some(_) if record.state.status == SandboxStatus::Creating => AttemptRelation::Create,
            Some(operation) if operation.phase == Phase::Provisioning => AttemptRelation::Recreate,
            Some(_) | None if self.deaths > 0 => AttemptRelation::Restart,
            Some(_) | None => AttemptRelation::Start,
        };
        let (blueprint, now_ms) = (record.blueprint.clone(), self.fleet.clock.now_ms());
        self.fleet.store.begin_attempt(&record.id, relation, blueprint, now_ms).await?;
        self.reread().await?;
        // It has ended the one before.
        (self.attempt_open, self.left_open) = (true, false);
        Ok(())
    }

    pub(super) async fn await_ready(&mut self) -> Flow {
        self.open_door();
        let (control, driver, record) = (self.control.clone(), self.driver.clone(), self.record());
        let opened = self.door.as_ref().map(InsideListener::opened);
        let work = async move {
            let told = async {
                configure(&control, &record).await?;
                if let Some(opened) = opened {
                    opened.await;
                }
                Ok(true)
            };
            // Safe to cut off: asking and telling may be repeated.
            tokio::select! {
                told = told => told,
                _ = driver.died(&record.id) => Ok(false),
            }
        };
        match self.run_interruptible(work, is_pointless).await {
            WorkOutcome::Done(Ok(true)) => {
                self.ready = true;
                self.follow();
                Ok(ControlFlow::Continue(()))
            }
            // It died instead.
            WorkOutcome::Done(Ok(false)) => Ok(ControlFlow::Break(())),
            WorkOutcome::Done(Err(error)) if self.record().state.operation.is_some() => {
                self.give_up(not_ready(&error)).await
            }
            // It ran before and does not answer now: tried again, and reported by whoever needs it.
            WorkOutcome::Done(Err(error)) => Err(error.into()),
            WorkOutcome::Overdue if self.record().state.operation.is_some() => {
                let waited_ms = self.fleet.timing.up_ms;
                self.give_up(not_ready(&ControlError::TimedOut(waited_ms))).await
            }
            WorkOutcome::CutOff | WorkOutcome::Overdue => Ok(ControlFlow::Break(())),
        }
    }
}

/// Waits for PID 1 and gives it the services of the blueprint, with their environment.
async fn configure(control: &Control, record: &SandboxRecord) -> Result<(), ControlError> {
    let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
    let mut pause = TRY_MIN;
    for tries in 0.. {
        match control.get::<String>("/healthz", within).await {
            Ok(_) => break,
            // The socket is not there yet, or nobody listens on it yet.
            Err(ControlError::Unreachable(_) | ControlError::Broken(_) | ControlError::TimedOut(_)) => {}
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = if tries < TRIES_QUICK { TRY_MIN } else { (pause * 2).min(TRY_MAX) };
    }
    if record.blueprint.services.is_empty() || record.env.0.lost && has_services(control, within).await? {
        return Ok(());
    }
    let request = ServicesRequest { services: record.env.0.with_environment(&record.blueprint.services) };
    let put = control.json::<Vec<ServiceView>>(Method::PUT, "/v1/services", Some(&request), within);
    put.await.map(|_| ())
}

/// Whether it has services: they have the environment that is not known here any more.
async fn has_services(control: &Control, within: Duration) -> Result<bool, ControlError> {
    Ok(!control.get::<Vec<ServiceView>>("/v1/services", within).await?.is_empty())
}

fn label(record: &SandboxRecord) -> SandboxLabel {
    SandboxLabel {
        sandbox: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        scope: record.scope.clone(),
        created_ms: record.created_ms,
        details: Some(LabelDetails { metadata: record.metadata.clone(), expires_ms: record.expires_ms }),
    }
}

fn not_ready(error: &ControlError) -> Problem {
    let message = format!("it was started, but {error}; see its attempts, or start it again");
    Problem { code: ProblemCode::NotReady, message, output: Vec::new() }
}
