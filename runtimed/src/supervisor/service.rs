//! One service: its machine, its job, its log.

use super::context::Context;
use super::jobs::JobId;
use super::output_log::{self, OutputLog};
use crate::core::service::{Machine, Phase, Policy, view_state};
use crate::limits::{
    LAST_LINE_MAX_BYTES, LAST_LINES, SERVICE_LOG_MAX_BYTES, SERVICE_LOG_MAX_FILES, STARTING_IS_BUSY_FOR_MS,
};
use crate::log::segment;
use crate::shim::messages::JobSpec;
use crate::sys::clock::{monotonic_ms, wall_ms};
use protocol::{Exit, Health, HealthCheck, ServiceSource, ServiceSpec, ServiceState, ServiceView};
use std::mem::{Discriminant, discriminant};
use tokio::task::AbortHandle;

pub struct Service {
    pub spec: ServiceSpec,
    pub source: ServiceSource,
    pub machine: Machine,
    pub log: OutputLog,
    pub job: Option<JobId>,
    pub pid: Option<i32>,
    pub starts: u64,
    /// Where the output of the newest run begins in the log.
    pub run_from: u64,
    pub last_exit: Option<Exit>,
    pub pending_change: PendingChange,
    pub probe: Option<Probe>,
    /// The state that was reported last.
    pub reported: Option<Discriminant<ServiceState>>,
}

/// A running check.
pub enum Probe {
    Task(AbortHandle),
    Job(JobId),
}

/// The change to make once a service has stopped.
pub enum PendingChange {
    Keep,
    Replace {
        spec: Box<ServiceSpec>,
        source: ServiceSource,
        /// Whether to start it then.
        start: bool,
    },
    Remove,
}

impl Service {
    pub fn new(spec: ServiceSpec, source: ServiceSource, log: OutputLog) -> Self {
        Self {
            spec,
            source,
            machine: Machine::new(),
            log,
            job: None,
            pid: None,
            starts: 0,
            run_from: 0,
            last_exit: None,
            pending_change: PendingChange::Keep,
            probe: None,
            reported: None,
        }
    }

    /// The requested spec: the current one, or the one that replaces it once it has stopped. `None` if it is
    /// removed then.
    pub fn requested(&self) -> Option<(&ServiceSpec, ServiceSource)> {
        match &self.pending_change {
            PendingChange::Keep => Some((&self.spec, self.source)),
            PendingChange::Replace { spec, source, .. } => Some((spec, *source)),
            PendingChange::Remove => None,
        }
    }

    /// A job of this service: its own, or a check, which sees the same environment.
    pub fn job_for(&self, context: &Context, line: &str) -> JobSpec {
        let spec = &self.spec;
        let mut job = context.job(context.shell_line(line), &spec.env, spec.cwd.as_deref());
        context.add_proxy_env("service", spec.name.as_str(), &mut job);
        if let Some(port) = spec.port
            && !spec.env.contains_key("PORT")
        {
            job.env.push(("PORT".to_owned(), port.to_string()));
        }
        job
    }

    /// The check to use: the specified one, else a TCP check of its port, else none.
    pub fn health(&self) -> Option<Health> {
        let by_port = || self.spec.port.map(|port| Health::of(HealthCheck::Tcp(port)));
        self.spec.health.clone().or_else(by_port)
    }

    pub fn policy(&self) -> Policy {
        let health = self.health();
        let once = matches!(health, Some(Health { check: HealthCheck::Log(_), .. }));
        Policy {
            restart: self.spec.restart,
            restart_after_task: self.spec.restart_after_task,
            probe_interval_ms: health.as_ref().filter(|_| !once).map(|health| health.interval_ms),
            checked: health.is_some(),
        }
    }

    /// The pattern of a log check.
    pub fn pattern(&self) -> Option<String> {
        match self.health()?.check {
            HealthCheck::Log(pattern) => Some(pattern),
            HealthCheck::Tcp(_) | HealthCheck::Http(_) | HealthCheck::Command(_) => None,
        }
    }

    pub fn state(&self) -> ServiceState {
        view_state(&self.machine.phase, monotonic_ms(), wall_ms())
    }

    /// Whether the service is becoming ready. A start that never ends does not keep the sandbox awake for
    /// ever.
    pub fn is_starting_up(&self) -> bool {
        let young = |since: u64| monotonic_ms().saturating_sub(since) < STARTING_IS_BUSY_FOR_MS;
        matches!(self.machine.phase, Phase::Starting { since, .. } if young(since))
    }

    /// The state, if its kind differs from the one reported last.
    pub fn take_state_change(&mut self) -> Option<ServiceState> {
        let state = self.state();
        let kind = Some(discriminant(&state));
        (std::mem::replace(&mut self.reported, kind) != kind).then_some(state)
    }

    pub fn view(&self) -> ServiceView {
        ServiceView {
            name: self.spec.name.clone(),
            source: self.source,
            command: self.spec.command.clone(),
            port: self.spec.port,
            state: self.state(),
            pid: self.pid,
            restarts: self.starts.saturating_sub(1),
            last_exit: self.last_exit.clone(),
            last_lines: self.lines_from().map_or_else(Vec::new, |from| self.last_lines(from)),
        }
    }

    /// Position from which the log explains the state; `None` for a healthy service. While a service runs,
    /// output of earlier runs is left out.
    fn lines_from(&self) -> Option<u64> {
        match &self.machine.phase {
            Phase::Starting { .. } | Phase::Unhealthy { .. } => Some(self.run_from),
            Phase::Backoff { .. } => Some(0),
            Phase::Stopped => {
                let failed = self.last_exit.as_ref().is_some_and(|exit| *exit != Exit::Exited { code: 0 });
                failed.then_some(0)
            }
            Phase::Waiting { .. }
            | Phase::FailedDependency { .. }
            | Phase::Ready { .. }
            | Phase::Stopping { .. } => None,
        }
    }

    fn last_lines(&self, from: u64) -> Vec<String> {
        // Measured now: a running service only reports when its log begins another file.
        let segments = segment::list(&self.log.dir).unwrap_or_default();
        let end = segments.last().map_or(0, |last| last.start.saturating_add(last.bytes));
        output_log::last_lines(&self.log.dir, from..end, LAST_LINES, LAST_LINE_MAX_BYTES)
    }

    /// Removes the oldest files of a log that exceeds its limit.
    pub fn rotate_log(&mut self) {
        self.log.measure();
        let mut total: u64 = self.log.segments.iter().map(|segment| segment.bytes).sum();
        let too_much =
            |total: u64, files: usize| total > SERVICE_LOG_MAX_BYTES || files > SERVICE_LOG_MAX_FILES;
        while too_much(total, self.log.segments.len()) && self.log.segments.len() > 1 {
            let oldest = self.log.segments[0];
            self.log.remove_segment(oldest.start);
            total -= oldest.bytes;
        }
    }
}
