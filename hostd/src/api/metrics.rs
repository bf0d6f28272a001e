//! Metrics of the API and of the host, and the one registry of all layers.

use super::{ApiParts, process_metrics::ProcessMetrics, usage_sampler::UsageMetrics};
use crate::allocator::used_bytes;
use hostd_drivers::{Drivers, host_memory::HostMemory};
use hostd_metrics::{Counter, Family, Gauge, Histogram, Label, LabeledHistograms, Registry, set};
use hostd_store::{SandboxRecord, disk_space::DiskState};
use hyper::Method;
use protocol::api::SandboxStatus;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

type OneLabel = [(&'static str, &'static str); 1];
type RequestLabels = [(&'static str, Cow<'static, str>); 3];
type RouteLabels = [(&'static str, &'static str); 2];
type DriverLabels = [(&'static str, &'static str); 2];

/// Bounds of buckets, in seconds. Creates and waits may take a minute.
const REQUEST_BUCKETS_S: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// The driver of a sandbox of which this hostd has not the driver.
const OTHER_DRIVER: &str = "other";
/// Bounds of buckets, in seconds: starting a command takes milliseconds, and it may run for hours.
const EXEC_BUCKETS_S: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30.0, 300.0];

/// Clones count into the same families.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub(super) connections: Gauge,
    pub(super) connections_refused: Counter,
    pub(super) event_streams: Gauge,
    pub(super) audit_dropped: Counter,
    pub(super) exec_steps: LabeledHistograms<ExecStep>,
    pub(super) usage: UsageMetrics,
    sandboxes: Family<DriverLabels, Gauge>,
    drivers: Family<OneLabel, Gauge>,
    disk_free_bytes: Gauge,
    disk_floor_bytes: Gauge,
    disk_full: Gauge,
    memory_available_bytes: Gauge,
    memory_reserve_bytes: Gauge,
    memory_level: Gauge,
    memory_refusals: Counter,
    memory_allocated_bytes: Gauge,
}

impl Default for ApiMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            request_duration: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS_S)),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            event_streams: Gauge::default(),
            audit_dropped: Counter::default(),
            exec_steps: LabeledHistograms::new(|| Histogram::new(EXEC_BUCKETS_S)),
            usage: UsageMetrics::default(),
            sandboxes: Family::default(),
            drivers: Family::default(),
            disk_free_bytes: Gauge::default(),
            disk_floor_bytes: Gauge::default(),
            disk_full: Gauge::default(),
            memory_available_bytes: Gauge::default(),
            memory_reserve_bytes: Gauge::default(),
            memory_level: Gauge::default(),
            memory_refusals: Counter::default(),
            memory_allocated_bytes: Gauge::default(),
        }
    }
}

/// Returns the registry of all families of hostd.
pub fn registry(parts: &ApiParts, own: &ApiMetrics) -> Registry {
    let mut registry = Registry::default();
    own.register(&mut registry);
    own.usage.register(&mut registry, parts.settings.metrics_sandboxes);
    registry.register_collector(Box::new(ProcessMetrics::new()));
    parts.fleet.metrics().register(&mut registry);
    parts.edge_metrics.register(&mut registry);
    parts.egress.metrics().register(&mut registry);
    parts.gateway.metrics().register(&mut registry);
    parts.webhooks.metrics().register(&mut registry);
    parts.store.metrics().register(&mut registry);
    registry
}

impl ApiMetrics {
    fn register(&self, registry: &mut Registry) {
        let help = "Sandboxes that are not destroyed, by status and driver";
        registry.register("slipway_sandboxes", help, self.sandboxes.clone());
        let help = "Duration of the steps of an exec";
        self.exec_steps.register(registry, "slipway_exec_step_duration_seconds", help);
        let build = Family::<OneLabel, Gauge>::default();
        set(&build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]), 1);
        registry.register("slipway_build_info", "The version of hostd; always 1", build);
        registry.register("slipway_api_requests", "Answered requests", self.requests.clone());
        let help = "Duration of a request until its response begins";
        registry.register("slipway_api_request_duration_seconds", help, self.request_duration.clone());
        for (name, help, counter) in [
            ("slipway_api_connections_refused", "Connections over the limit", &self.connections_refused),
            (
                "slipway_audit_dropped",
                "Refused calls that were not written to the audit log",
                &self.audit_dropped,
            ),
            (
                "slipway_memory_refusals",
                "Creates and wakes that were refused for lack of memory",
                &self.memory_refusals,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, gauge) in [
            ("slipway_api_connections", "Open connections", &self.connections),
            ("slipway_api_event_streams", "Open streams of server-sent events", &self.event_streams),
            ("slipway_disk_free_bytes", "Free space for sandboxes on the data disk", &self.disk_free_bytes),
            ("slipway_disk_floor_bytes", "Below this creates and wakes are refused", &self.disk_floor_bytes),
            ("slipway_disk_full", "1 when the disk is low, 2 when it is full", &self.disk_full),
            ("slipway_memory_available_bytes", "Memory left for sandboxes", &self.memory_available_bytes),
            (
                "slipway_memory_reserve_bytes",
                "Below this creates and wakes are refused",
                &self.memory_reserve_bytes,
            ),
            ("slipway_memory_level", "1 when memory is tight, 2 when it is critical", &self.memory_level),
            (
                "slipway_memory_allocated_bytes",
                "Memory that hostd uses; resident memory beyond it is free and kept for a moment",
                &self.memory_allocated_bytes,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        let help = "1 when the driver is healthy, 0 when it is not";
        registry.register("slipway_driver_up", help, self.drivers.clone());
    }

    /// Counts a request. `route` is the pattern of the route, so that there are few label values.
    pub fn count_request(&self, method: &Method, route: &'static str, status: u16, took: Duration) {
        let method = method_label(method);
        let status = Cow::Owned(status.to_string());
        let labels = [("method", method.into()), ("route", route.into()), ("status", status)];
        self.requests.get_or_create(&labels).inc();
        let labels = [("method", method), ("route", route)];
        self.request_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// Sets the gauges of memory, and the counter of refusals, which is kept elsewhere.
    pub fn refresh_memory(&self, memory: &HostMemory) {
        let state = memory.state();
        set(&self.memory_available_bytes, state.available_bytes);
        set(&self.memory_reserve_bytes, state.reserve_bytes);
        set(&self.memory_level, state.level as u64);
        let missing = memory.refusals().saturating_sub(self.memory_refusals.get());
        self.memory_refusals.inc_by(missing);
    }

    /// Sets the gauges that are read when they are asked for.
    pub fn refresh_gauges(&self, sandboxes: &[Arc<SandboxRecord>], drivers: &Drivers, disk: &DiskState) {
        self.count_sandboxes(sandboxes, drivers);
        for driver in drivers.all() {
            let gauge = self.drivers.get_or_create_owned(&[("driver", driver.name())]);
            set(&gauge, driver.health().is_ok().into());
        }
        set(&self.disk_free_bytes, disk.free_bytes);
        set(&self.disk_floor_bytes, disk.floor_bytes);
        set(&self.disk_full, disk.level as u64);
        set(&self.memory_allocated_bytes, used_bytes() as u64);
    }

    fn count_sandboxes(&self, sandboxes: &[Arc<SandboxRecord>], drivers: &Drivers) {
        let names: Vec<&'static str> = drivers.all().iter().map(|driver| driver.name()).collect();
        let mut counts = BTreeMap::new();
        for status in STATUSES.map(status_word) {
            counts.extend(names.iter().chain([&OTHER_DRIVER]).map(|driver| ((status, *driver), 0)));
        }
        for record in sandboxes.iter().filter(|record| record.state.status != SandboxStatus::Destroyed) {
            let known = names.iter().find(|name| **name == record.blueprint.driver);
            let labels = (status_word(record.state.status), *known.unwrap_or(&OTHER_DRIVER));
            *counts.entry(labels).or_default() += 1;
        }
        for ((status, driver), count) in counts {
            set(&self.sandboxes.get_or_create(&[("status", status), ("driver", driver)]), count);
        }
    }
}

/// The steps of an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecStep {
    /// Until its sandbox answers, which may have to be woken.
    Wake,
    /// Until it is recorded.
    Record,
    /// Until runtimed has started it; of one that is not waited for.
    Start,
    /// Until it has ended, of one that is waited for.
    Run,
}

impl Label for ExecStep {
    const NAME: &'static str = "step";
    const ALL: &'static [Self] = &[Self::Wake, Self::Record, Self::Start, Self::Run];

    fn value(self) -> &'static str {
        match self {
            Self::Wake => "wake",
            Self::Record => "record",
            Self::Start => "start",
            Self::Run => "run",
        }
    }
}

/// Unknown methods share one label, so that clients cannot add labels.
pub(super) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        _ => "other",
    }
}

/// The statuses of sandboxes that are there.
const STATUSES: [SandboxStatus; 5] = [
    SandboxStatus::Creating,
    SandboxStatus::Running,
    SandboxStatus::Paused,
    SandboxStatus::Stopped,
    SandboxStatus::Error,
];

/// The status as the store and the API spell it.
fn status_word(status: SandboxStatus) -> &'static str {
    match status {
        SandboxStatus::Creating => "creating",
        SandboxStatus::Running => "running",
        SandboxStatus::Paused => "paused",
        SandboxStatus::Stopped => "stopped",
        SandboxStatus::Error => "error",
        SandboxStatus::Destroyed => "destroyed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &ApiMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        hostd_metrics::text(&registry)
    }

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let metrics = ApiMetrics::default();
        let took = Duration::from_millis(3);
        metrics.count_request(&Method::GET, "/v1/host", 200, took);
        metrics.count_request(&Method::GET, "/v1/host", 200, took);
        metrics.count_request(&Method::from_bytes(b"FROB").unwrap(), "-", 404, took);
        metrics.refresh_gauges(&[], &Drivers::new(Vec::new()), &DiskState::default());
        let text = text(&metrics);
        for line in [
            "slipway_sandboxes{status=\"paused\",driver=\"other\"} 0",
            "slipway_api_requests_total{method=\"GET\",route=\"/v1/host\",status=\"200\"} 2",
            "slipway_api_requests_total{method=\"other\",route=\"-\",status=\"404\"} 1",
            "slipway_api_request_duration_seconds_bucket{le=\"0.005\",method=\"GET\",route=\"/v1/host\"} 2",
            "slipway_audit_dropped_total 0",
            "slipway_disk_full 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    #[test]
    fn statuses_are_spelt_as_in_the_api() {
        for status in STATUSES {
            assert_eq!(serde_json::to_value(status).unwrap(), status_word(status));
        }
    }
}
