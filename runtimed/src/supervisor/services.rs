//! All services: performs the effects of their machines and feeds them inputs. Changes of the set are in
//! `service_changes`, health checks in `service_checks`.

use super::command::ServiceVerb;
use super::context::Context;
use super::execs::Refusal;
use super::jobs::{JobId, JobOwner};
use super::output_log::{LogKey, OutputLog};
use super::retired_logs::RetiredLogs;
use super::service::Service;
use crate::core::log_retention::LogUsage;
use crate::core::service::{Effect, Input, Phase};
use crate::core::service_graph;
use crate::core::service_graph::Readiness;
use crate::limits::GRACE_DEFAULT_MS;
use crate::shim::messages::{Order, Report};
use crate::sys::clock::monotonic_ms;
use protocol::{ErrorBody, ErrorCode, Exit, Fact, ServiceName, ServiceSpec};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;

pub struct Services {
    pub(super) table: BTreeMap<ServiceName, Service>,
    pub(super) retired: RetiredLogs,
    pub(super) checks: JoinSet<(ServiceName, Result<(), String>)>,
    /// Grace of a stop.
    grace_ms: u64,
    /// Incremented whenever a service is added, removed or changes state.
    pub(super) generation: u64,
    /// The error of the manifest on disk, if any.
    pub manifest_error: Option<String>,
}

impl Services {
    /// No services yet, and the logs of an earlier boot.
    pub fn load(context: &Context) -> Self {
        Self {
            table: BTreeMap::new(),
            retired: RetiredLogs::load(&context.config.control_dir.join("services")),
            checks: JoinSet::new(),
            grace_ms: GRACE_DEFAULT_MS,
            generation: 0,
            manifest_error: None,
        }
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn iter(&self) -> impl Iterator<Item = &Service> {
        self.table.values()
    }

    pub fn get(&self, name: &ServiceName) -> Result<&Service, Refusal> {
        let missing = || Box::new(ErrorBody::new(ErrorCode::NotFound, format!("there is no service {name}")));
        self.table.get(name).ok_or_else(missing)
    }

    /// The log of a service, also of a removed one.
    pub fn log_mut(&mut self, name: &ServiceName) -> Option<&mut OutputLog> {
        match self.table.get_mut(name) {
            Some(service) => Some(&mut service.log),
            None => self.retired.get_mut(name),
        }
    }

    pub fn control(
        &mut self,
        context: &mut Context,
        name: &ServiceName,
        verb: ServiceVerb,
    ) -> Result<(), Refusal> {
        self.get(name)?;
        if self.control_during_change(name, verb)? {
            return Ok(());
        }
        let input = match verb {
            ServiceVerb::Start => Input::Start,
            ServiceVerb::Stop => Input::Stop,
            ServiceVerb::Restart => Input::Restart,
        };
        self.input(context, name, input);
        self.settle(context);
        Ok(())
    }

    /// Handles changes of watched files: running services restart, services in backoff retry at once.
    pub fn changed(&mut self, context: &mut Context, names: &BTreeSet<ServiceName>) {
        for name in names {
            let Some(service) = self.table.get(name) else { continue };
            let input = if matches!(service.machine.phase, Phase::Backoff { .. }) {
                Input::RetryNow
            } else if service.machine.wanted && !service.spec.watch.is_empty() {
                Input::Restart
            } else {
                continue;
            };
            self.input(context, name, input);
        }
        self.settle(context);
    }

    /// Handles the end of a task: services that ask for it restart, services in backoff retry at once.
    pub fn task_ended(&mut self, context: &mut Context) {
        let names: Vec<ServiceName> = self.table.keys().cloned().collect();
        for name in names {
            self.input(context, &name, Input::TaskEnded);
        }
        self.settle(context);
    }

    /// Whether any service should run, and which of those are not ready.
    pub fn unready(&self) -> (bool, Vec<ServiceName>) {
        let wanted = || self.table.values().filter(|service| service.machine.wanted);
        let unready = wanted().filter(|service| service.machine.readiness() != Readiness::Ready);
        (wanted().next().is_some(), unready.map(|service| service.spec.name.clone()).collect())
    }

    /// Stops these services with another grace than usual.
    pub fn stop(&mut self, context: &mut Context, names: &[ServiceName], grace_ms: u64) {
        self.grace_ms = grace_ms;
        for name in names {
            self.input(context, name, Input::Stop);
        }
    }

    /// Feeds one machine an input and performs its effects.
    pub(super) fn input(&mut self, context: &mut Context, name: &ServiceName, input: Input) {
        let Some(service) = self.table.get_mut(name) else { return };
        let policy = service.policy();
        let effects = service.machine.step(input, monotonic_ms(), &policy);
        for effect in effects {
            match effect {
                Effect::Spawn => self.spawn(context, name),
                Effect::Stop => self.stop_job(context, name),
                Effect::Probe => self.check(context, name),
            }
        }
    }

    fn spawn(&mut self, context: &mut Context, name: &ServiceName) {
        let Some(service) = self.table.get_mut(name) else { return };
        let mut job = service.job_for(context, &service.spec.command);
        job.log = Some(service.log.dir.clone());
        job.log_from = service.log.head().end;
        service.run_from = job.log_from;
        job.pattern = service.pattern();
        service.log.disarm();
        service.starts += 1;
        match context.jobs.start(JobOwner::Service(name.clone()), &job) {
            Ok(id) => service.job = Some(id),
            Err(error) => self.ended(context, name, Exit::SpawnFailed { message: error.to_string() }),
        }
    }

    fn stop_job(&mut self, context: &mut Context, name: &ServiceName) {
        self.drop_check(context, name);
        let Some(service) = self.table.get(name) else { return };
        if let Some(job) = service.job {
            context.jobs.order(job, &Order::Cancel { grace_ms: self.grace_ms });
        }
    }

    pub fn on_report(&mut self, context: &mut Context, name: &ServiceName, job: JobId, report: Report) {
        let Some(service) = self.table.get_mut(name).filter(|service| service.job == Some(job)) else {
            return;
        };
        match report {
            Report::Started { pid } => {
                service.pid = Some(pid);
                service.log.change(|head| head.started = true);
                context.record(Fact::ServiceStarted { service: name.clone(), pid });
            }
            Report::Grew { end } => service.log.grew(end),
            Report::Rotated { end } => {
                service.log.grew(end);
                service.rotate_log();
            }
            Report::Matched => self.input(context, name, Input::Probe(Ok(()))),
            Report::Summary | Report::RawGrew { .. } | Report::Conversation(_) => {}
            Report::Ended { exit, output_end, .. } => {
                service.log.grew(output_end);
                self.ended(context, name, exit);
            }
        }
        self.settle(context);
    }

    /// Handles the end of a service's shim; without a report before, the service was lost with it.
    pub fn on_shim_exit(&mut self, context: &mut Context, name: &ServiceName, job: JobId) {
        if self.table.get(name).is_some_and(|service| service.job == Some(job)) {
            self.ended(context, name, Exit::Lost);
            self.settle(context);
        }
    }

    fn ended(&mut self, context: &mut Context, name: &ServiceName, exit: Exit) {
        let Some(service) = self.table.get_mut(name) else { return };
        service.job = None;
        service.pid = None;
        service.last_exit = Some(exit.clone());
        service.log.disarm();
        service.rotate_log();
        self.drop_check(context, name);
        context.record(Fact::ServiceEnded { service: name.clone(), exit: exit.clone() });
        self.input(context, name, Input::Ended(exit));
    }

    pub fn tick(&mut self, context: &mut Context) {
        let now = monotonic_ms();
        let due = |s: &&Service| s.machine.next_wake().is_some_and(|at| at <= now);
        let names: Vec<ServiceName> = self.table.values().filter(due).map(|s| s.spec.name.clone()).collect();
        for name in names {
            self.input(context, &name, Input::Tick);
        }
        self.settle(context);
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.table.values().filter_map(|service| service.machine.next_wake()).min()
    }

    /// Propagates readiness along dependencies until nothing changes; replaces and removes services that
    /// stopped for it; reports changed states.
    pub fn settle(&mut self, context: &mut Context) {
        // Each round moves at least one service one level up its dependencies, so there are few.
        for _ in 0..=self.table.len() {
            let names: Vec<ServiceName> = self.table.keys().cloned().collect();
            let mut moved = false;
            for name in names {
                moved |= self.settle_dependencies_of(context, &name);
                moved |= self.finish_change(context, &name);
            }
            if !moved {
                break;
            }
        }
        for service in self.table.values_mut() {
            if let Some(state) = service.take_state_change() {
                self.generation += 1;
                context.record(Fact::ServiceState { service: service.spec.name.clone(), state });
            }
        }
    }

    pub(super) fn settle_dependencies_of(&mut self, context: &mut Context, name: &ServiceName) -> bool {
        let Some(service) = self.table.get(name) else { return false };
        let standing = |on: &ServiceName| self.table.get(on).map(|other| other.machine.readiness());
        let now = service_graph::dependencies(&service.spec, standing);
        let moved = now != service.machine.dependencies;
        if moved {
            self.input(context, name, Input::Dependencies(now));
        }
        moved
    }

    /// Services in levels to stop: those without dependents first.
    pub fn stop_levels(&self) -> Vec<Vec<ServiceName>> {
        let specs: Vec<ServiceSpec> = self.table.values().map(|service| service.spec.clone()).collect();
        service_graph::stop_levels(&specs)
    }

    pub fn alive(&self) -> BTreeSet<ServiceName> {
        self.table.values().filter(|s| s.job.is_some()).map(|s| s.spec.name.clone()).collect()
    }

    pub fn log_bytes(&self) -> u64 {
        self.table.values().map(|service| service.log.bytes()).sum::<u64>() + self.retired.bytes()
    }

    pub fn log_uses(&self) -> impl Iterator<Item = LogUsage<LogKey>> {
        let live = self.table.values().map(|service| LogUsage {
            key: LogKey::Service(service.spec.name.clone()),
            finished_ms: None,
            segments: service.log.segments.clone(),
        });
        live.chain(self.retired.uses())
    }
}
