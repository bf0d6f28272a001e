//! Metrics in the text format of Prometheus.

use crate::allocator::used_bytes;
use hostd_edge::metrics as edge;
use hostd_store::disk_space::DiskState;
use hyper::Method;
use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

#[derive(Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<(String, &'static str, u16), u64>>,
    pub audit_dropped: AtomicU64,
}

/// Static, because `connections` counts them and knows nothing of the API.
pub static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
pub static CONNECTIONS_REFUSED: AtomicU64 = AtomicU64::new(0);

impl Metrics {
    /// Counts a request. `path` is the pattern of the route, so that there are few label values.
    pub fn count_request(&self, method: &Method, path: &'static str, status: u16) {
        // Unknown methods share one label, so that clients cannot add labels.
        let known = matches!(
            *method,
            Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::HEAD
        );
        let method = if known { method.as_str() } else { "other" };
        let mut requests = self.requests.lock().expect("no panic while held");
        *requests.entry((method.to_owned(), path, status)).or_default() += 1;
    }

    pub fn text(&self, sandboxes: &BTreeMap<String, u64>, disk: &DiskState) -> String {
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, lines: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let plain = |value: &AtomicU64| [(String::new(), value.load(Ordering::Relaxed))];
        let by_status: Vec<_> =
            sandboxes.iter().map(|(status, count)| (format!("{{status=\"{status}\"}}"), *count)).collect();
        let requests: Vec<_> = {
            let requests = self.requests.lock().expect("no panic while held");
            let label = |(method, path, status): &(String, &str, u16)| {
                format!("{{method=\"{method}\",route=\"{path}\",status=\"{status}\"}}")
            };
            requests.iter().map(|(key, count)| (label(key), *count)).collect()
        };
        family("slipway_sandboxes", "gauge", "Sandboxes by status.", &by_status);
        family("slipway_api_requests_total", "counter", "Answered requests.", &requests);
        family("slipway_api_connections", "gauge", "Open connections.", &plain(&CONNECTIONS));
        family(
            "slipway_api_connections_refused_total",
            "counter",
            "Connections over the limit.",
            &plain(&CONNECTIONS_REFUSED),
        );
        for (name, help, value) in [
            ("slipway_preview_requests_total", "Requests that an app answered.", &edge::SERVED),
            ("slipway_preview_held_total", "Requests that were held for a sandbox.", &edge::HELD),
            ("slipway_preview_excused_total", "Requests that no app answered.", &edge::ERROR_PAGES),
            ("slipway_preview_upgrades_total", "Connections that were upgraded.", &edge::UPGRADED),
            ("slipway_preview_connections_refused_total", "Connections over the limit.", &edge::REFUSED),
        ] {
            family(name, "counter", help, &plain(value));
        }
        for (name, help, value) in [
            ("slipway_disk_free_bytes", "Free space for sandboxes on the data disk.", disk.free_bytes),
            ("slipway_disk_floor_bytes", "Below this creates and wakes are refused.", disk.floor_bytes),
            ("slipway_disk_full", "1 when the disk is low, 2 when it is full.", disk.level as u64),
        ] {
            family(name, "gauge", help, &[(String::new(), value)]);
        }
        let allocated = u64::try_from(used_bytes()).unwrap_or(u64::MAX);
        family(
            "slipway_memory_allocated_bytes",
            "gauge",
            "Memory that hostd uses; resident memory beyond it is free and kept for a moment.",
            &[(String::new(), allocated)],
        );
        family(
            "slipway_audit_dropped_total",
            "counter",
            "Refused calls that were not written to the audit log.",
            &plain(&self.audit_dropped),
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_route_and_status() {
        let metrics = Metrics::default();
        metrics.count_request(&Method::GET, "/v1/host", 200);
        metrics.count_request(&Method::GET, "/v1/host", 200);
        metrics.count_request(&Method::from_bytes(b"FROB").unwrap(), "-", 404);
        let text = metrics.text(&BTreeMap::from([("running".to_owned(), 3)]), &DiskState::default());
        for line in [
            "slipway_sandboxes{status=\"running\"} 3",
            "slipway_api_requests_total{method=\"GET\",route=\"/v1/host\",status=\"200\"} 2",
            "slipway_api_requests_total{method=\"other\",route=\"-\",status=\"404\"} 1",
            "slipway_audit_dropped_total 0",
            "slipway_disk_full 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
