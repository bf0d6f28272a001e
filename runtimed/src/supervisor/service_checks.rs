//! Health checks of services: one at a time for each, and none outlives the job it is about.

use super::context::Context;
use super::jobs::{JobId, JobOwner};
use super::probe;
use super::service::{Probe, Service};
use super::services::Services;
use crate::core::service::Input;
use crate::shim::messages::{Order, Report};
use protocol::{Exit, HealthCheck, ServiceName};

impl Services {
    pub(super) fn check(&mut self, context: &mut Context, name: &ServiceName) {
        // Without a job the start failed at once, and there is nothing to check.
        let Some(service) = self.table.get_mut(name).filter(|service| service.job.is_some()) else { return };
        let Some(health) = service.health() else { return };
        let port = service.spec.port.unwrap_or_default();
        let check = match health.check {
            // The shim matches the line and reports it.
            HealthCheck::Log(_) => return,
            HealthCheck::Tcp(port) => probe::Check::Tcp(port),
            HealthCheck::Http(path) => probe::Check::Http { port, path },
            HealthCheck::Command(line) => {
                let mut job = service.job_for(context, &line);
                job.timeout_ms = Some(health.timeout_ms);
                job.timeout_grace_ms = 0;
                match context.jobs.start(JobOwner::Probe(name.clone()), &job) {
                    Ok(id) => service.probe = Some(Probe::Job(id)),
                    Err(error) => self.input(context, name, Input::Probe(Err(error.to_string()))),
                }
                return;
            }
        };
        let whose = name.clone();
        let task = self.checks.spawn(async move { (whose, probe::run(check, health.timeout_ms).await) });
        service.probe = Some(Probe::Task(task));
    }

    /// The next finished check. Pends while there is none.
    pub async fn next_probe(&mut self) -> (ServiceName, Result<(), String>) {
        loop {
            match self.checks.join_next_with_id().await {
                // A cancelled check may have finished before it was aborted.
                Some(Ok((id, (name, result)))) => {
                    let current =
                        |s: &Service| matches!(&s.probe, Some(Probe::Task(task)) if task.id() == id);
                    if self.table.get(&name).is_some_and(current) {
                        return (name, result);
                    }
                }
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    pub fn probed(&mut self, context: &mut Context, name: &ServiceName, result: Result<(), String>) {
        if let Some(service) = self.table.get_mut(name) {
            service.probe = None;
        }
        self.input(context, name, Input::Probe(result));
        self.settle(context);
    }

    pub fn on_check_report(
        &mut self,
        context: &mut Context,
        name: &ServiceName,
        job: JobId,
        report: &Report,
    ) {
        if let Report::Ended { exit, .. } = report {
            self.check_ended(context, name, job, exit);
        }
    }

    /// Handles the end of a check's shim; without a report before, the check failed.
    pub fn on_check_shim_exit(&mut self, context: &mut Context, name: &ServiceName, job: JobId) {
        self.check_ended(context, name, job, &Exit::Lost);
    }

    fn check_ended(&mut self, context: &mut Context, name: &ServiceName, job: JobId, exit: &Exit) {
        let current = |s: &Service| matches!(s.probe, Some(Probe::Job(id)) if id == job);
        if self.table.get(name).is_some_and(current) {
            self.probed(context, name, check_result(exit));
        }
    }

    /// Cancels a running check: its job is gone or stopping.
    pub(super) fn drop_check(&mut self, context: &mut Context, name: &ServiceName) {
        match self.table.get_mut(name).and_then(|service| service.probe.take()) {
            Some(Probe::Task(task)) => task.abort(),
            Some(Probe::Job(job)) => context.jobs.order(job, &Order::Cancel { grace_ms: 0 }),
            None => {}
        }
    }
}

/// The result of a check that is a command; the error text is for the user.
fn check_result(exit: &Exit) -> Result<(), String> {
    match exit {
        Exit::Exited { code: 0 } => Ok(()),
        Exit::Exited { code } => Err(format!("the check exited with {code}")),
        Exit::Signalled { signal } => Err(format!("the check was ended by signal {signal}")),
        Exit::TimedOut => Err("the check did not end in time".into()),
        Exit::Oom => Err("the check ran out of memory".into()),
        Exit::SpawnFailed { message } => Err(format!("the check could not {message}")),
        Exit::Cancelled | Exit::Lost => Err("the check was lost".into()),
    }
}
