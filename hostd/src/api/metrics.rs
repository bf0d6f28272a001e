//! Metrics of the API and of the host, and the one registry of all layers.

use super::ApiParts;
use crate::allocator::used_bytes;
use hostd_drivers::{Drivers, host_memory::HostMemory};
use hostd_metrics::{Counter, Family, Gauge, Histogram, Registry, set};
use hostd_store::disk_space::DiskState;
use hyper::Method;
use protocol::api::SandboxStatus;
use std::{borrow::Cow, collections::BTreeMap, time::Duration};

type OneLabel = [(&'static str, &'static str); 1];
type RequestLabels = [(&'static str, Cow<'static, str>); 3];
type RouteLabels = [(&'static str, &'static str); 2];

/// Bounds of buckets, in seconds. Creates and waits may take a minute.
const REQUEST_BUCKETS_S: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0];

/// Clones count into the same families.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub(super) connections: Gauge,
    pub(super) connections_refused: Counter,
    pub(super) event_streams: Gauge,
    pub(super) audit_dropped: Counter,
    sandboxes: Family<OneLabel, Gauge>,
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
        registry.register("slipway_sandboxes", "Sandboxes by status", self.sandboxes.clone());
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
    pub fn refresh_gauges(&self, sandboxes: &BTreeMap<String, u64>, drivers: &Drivers, disk: &DiskState) {
        for status in STATUSES.map(status_word) {
            let count = sandboxes.get(status).copied().unwrap_or_default();
            set(&self.sandboxes.get_or_create(&[("status", status)]), count);
        }
        for driver in drivers.all() {
            let gauge = self.drivers.get_or_create_owned(&[("driver", driver.name())]);
            set(&gauge, driver.health().is_ok().into());
        }
        set(&self.disk_free_bytes, disk.free_bytes);
        set(&self.disk_floor_bytes, disk.floor_bytes);
        set(&self.disk_full, disk.level as u64);
        set(&self.memory_allocated_bytes, used_bytes() as u64);
    }
}

/// Unknown methods share one label, so that clients cannot add labels.
fn method_label(method: &Method) -> &'static str {
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

const STATUSES: [SandboxStatus; 6] = [
    SandboxStatus::Creating,
    SandboxStatus::Running,
    SandboxStatus::Paused,
    SandboxStatus::Stopped,
    SandboxStatus::Error,
    SandboxStatus::Destroyed,
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
        let sandboxes = BTreeMap::from([("running".to_owned(), 3)]);
        metrics.refresh_gauges(&sandboxes, &Drivers::new(Vec::new()), &DiskState::default());
        let text = text(&metrics);
        for line in [
            "slipway_sandboxes{status=\"running\"} 3",
            "slipway_sandboxes{status=\"paused\"} 0",
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
