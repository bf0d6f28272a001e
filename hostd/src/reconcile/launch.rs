//! Brings a sandbox up: begins an attempt, launches the container, and waits until PID 1 answers.

use super::{
    FleetError,
    actor::SandboxActor,
    driver_problem::{outage_of, outcome_of, problem_of},
    launch_progress::LaunchPermit,
    metrics::LaunchStep,
    perform::{Flow, WorkOutcome},
};
use crate::inside::InsideListener;
use hostd_core::{Goal, VerbOutcome, limits, no_answer};
use hostd_drivers::{
    BadgeDetails, DriverError, Handle, LaunchRequest, ProgressSink, SandboxBadge,
    control::{Control, ControlError},
};
use hostd_store::SandboxRecord;
use hostd_trace::Span;
use hyper::Method;
use protocol::{
    ServiceView, ServicesRequest,
    api::{AttemptRelation, Phase, Problem, ProblemCode, SandboxStatus},
};
use std::{
    ops::ControlFlow,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Pauses between tries to reach a PID 1 that has just been started: the first tries, and the longest pause.
const TRY_MIN: Duration = Duration::from_micros(500);
const TRY_MAX: Duration = Duration::from_millis(50);
const TRIES_QUICK: u32 = 40;

/// Whether a launch is pointless with this new goal.
pub(super) fn is_pointless(_: Goal, now: Goal) -> bool {
    match now {
        Goal::Stopped | Goal::Destroyed => true,
        Goal::Running | Goal::Paused => false,
    }
}

impl SandboxActor {
    pub(super) async fn launch(&mut self) -> Flow {
        self.disconnect();
        self.fleet.disk.ensure_free();
        self.interrupt_step().await?;
        self.begin_attempt().await?;
        self.launch_meter.get_or_insert_with(|| self.fleet.metrics.launch(self.driver.name()));
        let record = self.record();
        let permit = LaunchPermit::default();
        let progress = self.progress_sink(permit.clone());
        let request = LaunchRequest { progress, ..launch_request(&record) };
        let (driver, fleet, held) = (self.driver.clone(), self.fleet.clone(), permit.clone());
        let (begun, queued) = (Instant::now(), Arc::new(OnceLock::new()));
        let admitted = queued.clone();
        let work = async move {
            let acquired = match fleet.launches(&driver) {
                Some(launches) => launches.acquire_owned().await.ok(),
                None => None,
            };
            if let Ok(mut permit) = permit.lock() {
                *permit = acquired;
            }
            admitted.get_or_init(|| begun.elapsed());
            Span::child("driver launch").run_fallible(driver.launch(&request)).await
        };
        let outcome = self.run_interruptible(work, is_pointless).await;
        let (took, queued) = (begun.elapsed(), queued.get().copied());
        let queued = queued.unwrap_or(took);
        self.meter_launch(LaunchStep::Queued, queued);
        self.meter_launch(LaunchStep::Launch, took.saturating_sub(queued));
        self.stop_progress();
        self.situation.verb_ended(Some(Goal::Running), launch_outcome(&outcome, &held));
        match outcome {
            WorkOutcome::Done(Ok(run)) => {
                // Recorded at the end of the attempt: a driver finds the run without it.
                self.situation.record_launch(run);
                self.open_inside_listener();
                Ok(ControlFlow::Continue(()))
            }
            // A later launch may work, and belongs to the same attempt: the deadline ends it.
            WorkOutcome::Done(Err(error)) if outage_of(&error).is_some() => Err(error.into()),
            WorkOutcome::Done(Err(error)) => self.give_up(problem_of(&error)).await,
            WorkOutcome::Overdue | WorkOutcome::CutOff => Ok(ControlFlow::Break(())),
        }
    }

    /// Opens a row for this launch, which ends a row that a dead hostd left open. Launches that found the backend
    /// away share one row.
    async fn begin_attempt(&mut self) -> Result<(), FleetError> {
        if self.situation.attempt().is_open() {
            return Ok(());
        }
        let record = self.record();
        let relation = match &record.state.operation {
            Some(_) if record.state.status == SandboxStatus::Creating => AttemptRelation::Create,
            Some(operation) if operation.phase == Phase::Provisioning => AttemptRelation::Recreate,
            Some(_) | None if self.situation.backoff().restarts > 0 => AttemptRelation::Restart,
            Some(_) | None => AttemptRelation::Start,
        };
        let (blueprint, now_ms) = (record.blueprint.clone(), self.fleet.clock.now_ms());
        self.fleet.store.begin_attempt(&record.id, relation, blueprint, now_ms).await?;
        self.reread().await?;
        self.situation.begin_attempt();
        self.launch_meter = None;
        Ok(())
    }

    pub(super) async fn await_ready(&mut self) -> Flow {
        self.open_inside_listener();
        let (control, driver) = (self.connections.control.clone(), self.driver.clone());
        let (record, opened) =
            (self.record(), self.connections.inside_listener.as_ref().map(InsideListener::opened));
        let work = async move {
            let configured = async {
                configure(&control, &record).await?;
                if let Some(opened) = opened {
                    opened.await;
                }
                Ok(true)
            };
            // Safe to cut off: both requests and configuration may be repeated.
            tokio::select! {
                configured = configured => configured,
                _ = driver.died(&record.id) => Ok(false),
            }
        };
        match self.run_interruptible(work, is_pointless).await {
            WorkOutcome::Done(Ok(true)) => {
                self.situation.became_ready();
                self.follow();
                Ok(ControlFlow::Continue(()))
            }
            // PID 1 died instead.
            WorkOutcome::Done(Ok(false)) => Ok(ControlFlow::Break(())),
            WorkOutcome::Done(Err(error)) if self.record().state.operation.is_some() => {
                self.give_up(not_ready(&error)).await
            }
            // A sandbox that ran before does not answer now: tried again. Clients that need it get the error.
            WorkOutcome::Done(Err(error)) => Err(error.into()),
            WorkOutcome::Overdue if self.record().state.operation.is_some() => {
                let waited_ms = self.fleet.timing.up_ms;
                self.give_up(not_ready(&ControlError::TimedOut(waited_ms))).await
            }
            WorkOutcome::CutOff | WorkOutcome::Overdue => Ok(ControlFlow::Break(())),
        }
    }
}

fn launch_outcome(outcome: &WorkOutcome<Result<Handle, DriverError>>, permit: &LaunchPermit) -> VerbOutcome {
    match outcome {
        WorkOutcome::Done(Ok(_)) => VerbOutcome::Done,
        WorkOutcome::Done(Err(error)) => outcome_of(error),
        WorkOutcome::CutOff => VerbOutcome::Abandoned,
        // The driver had its permit and never reported progress, which would have released it.
        WorkOutcome::Overdue if permit.lock().is_ok_and(|permit| permit.is_some()) => {
            VerbOutcome::Unanswered(no_answer())
        }
        WorkOutcome::Overdue => VerbOutcome::Abandoned,
    }
}

/// Waits for PID 1 and gives it the services of the blueprint, with their environment. They also release those of the
/// manifest in a sandbox that was provisioned.
async fn configure(control: &Control, record: &SandboxRecord) -> Result<(), ControlError> {
    let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
    let mut pause = TRY_MIN;
    for tries in 0.. {
        match control.get::<String>("/healthz", within).await {
            Ok(_) => break,
            // The socket is not there yet, or PID 1 does not listen on it yet.
            Err(ControlError::Unreachable(_) | ControlError::Broken(_) | ControlError::TimedOut(_)) => {}
            Err(error) => return Err(error),
        }
        sleep(pause).await;
        pause = if tries < TRIES_QUICK { TRY_MIN } else { (pause * 2).min(TRY_MAX) };
    }
    // It has no services, neither these nor those of its manifest, until its provisioning is done.
    let is_provisioned = record.blueprint.is_provisioned();
    if is_provisioned && !record.provisioning.is_done(&record.blueprint) {
        return Ok(());
    }
    let has_none = record.blueprint.services.is_empty() && !is_provisioned;
    if has_none || record.env.0.lost && has_services(control, within).await? {
        return Ok(());
    }
    let request = ServicesRequest { services: record.env.0.with_environment(&record.blueprint.services) };
    let put = control.json::<Vec<ServiceView>>(Method::PUT, "/v1/services", Some(&request), within);
    put.await.map(|_| ())
}

/// Whether runtimed has services: theirs is an environment that an adopted sandbox's record does not have.
async fn has_services(control: &Control, within: Duration) -> Result<bool, ControlError> {
    Ok(!control.get::<Vec<ServiceView>>("/v1/services", within).await?.is_empty())
}

/// A launch that reports no progress.
pub(super) fn launch_request(record: &SandboxRecord) -> LaunchRequest {
    LaunchRequest {
        badge: badge(record),
        attempt: record.attempt,
        blueprint: record.blueprint.clone(),
        progress: ProgressSink::default(),
    }
}

fn badge(record: &SandboxRecord) -> SandboxBadge {
    SandboxBadge {
        sandbox: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        scope: record.scope.clone(),
        created_ms: record.created_ms,
        details: Some(BadgeDetails { metadata: record.metadata.clone(), expires_ms: record.expires_ms }),
    }
}

fn not_ready(error: &ControlError) -> Problem {
    let message = format!("it was started, but {error}; see its attempts, or start it again");
    Problem { code: ProblemCode::NotReady, message, output: Vec::new(), step: None }
}
