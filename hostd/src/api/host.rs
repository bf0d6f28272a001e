//! The host itself: its health, metrics and resources.

use super::{
    call::Call,
    drivers,
    error::{CallError, CallResult},
    limits,
    views::ok,
};
use crate::{api::Api, reconcile::FleetError};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use hostd_core::MemoryStalls;
use hostd_drivers::host_memory::kib;
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::{ApiErrorCode, DiskLevel, HostView, MemoryLevel, PressureView};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use tokio::time::timeout;
use utoipa::ToSchema;

/// `GET /healthz` and `/readyz`
#[derive(Debug, Serialize, ToSchema)]
pub struct HostHealth {
    status: &'static str,
    /// How much memory is left for sandboxes; while it is not `ok`, creates and wakes are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryLevel>,
}

pub async fn healthz(_: Call) -> CallResult {
    Ok(ok(&HostHealth { status: "ok", memory: None }))
}

/// Ready when the store answers, the default driver is healthy and the disk has room for new sandboxes.
pub async fn readyz(call: Call) -> CallResult {
    let api = &call.api;
    let probe = async {
        api.store.count_by_status().await?;
        Ok::<_, CallError>(api.drivers.require(&api.defaults.driver)?.health()?)
    };
    let late = |_| CallError::new(ApiErrorCode::DriverUnavailable, "the store or a driver does not answer");
    timeout(Duration::from_millis(limits::READY_MAX_MS), probe).await.map_err(late)??;
    let disk = api.disk.state();
    match disk.level {
        DiskLevel::Ok => {}
        DiskLevel::Low | DiskLevel::Full => {
            let mut response = CallError::from(FleetError::DiskFull(disk)).into_response();
            // Load balancers look for 503.
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return Ok(response);
        }
    }
    Ok(ok(&HostHealth { status: "ready", memory: Some(api.fleet.memory().state().level) }))
}

pub async fn metrics(call: Call) -> CallResult {
    let mut response = Response::new(Body::from(call.api.metrics_text()));
    let kind = HeaderValue::from_static(hostd_metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}

pub async fn openapi(_: Call) -> CallResult {
    let mut response = Response::new(Body::from(super::openapi_json()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub async fn host(call: Call) -> CallResult {
    let (api, settings) = (&call.api, &call.api.settings);
    let memory = api.fleet.memory().state();
    let disk = api.disk.state();
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let resident_pages =
        read("/proc/self/statm").split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(ok(&HostView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: settings.instance.clone(),
        default_driver: api.defaults.driver.clone(),
        default_image: api.default_image(),
        drivers: drivers::views(&api.drivers, &api.defaults.driver),
        cpus: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_total_bytes: kib(&read("/proc/meminfo"), "MemTotal:"),
        memory_available_bytes: memory.available_bytes,
        memory_reserve_bytes: memory.reserve_bytes,
        memory_admitted_bytes: memory.admitted_bytes,
        memory_limit_bytes: memory.limit_bytes,
        memory_level: memory.level,
        memory_pressure: memory.stalls.map(pressure),
        load: load(&read("/proc/loadavg")),
        disk_total_bytes: disk.total_bytes,
        disk_free_bytes: disk.free_bytes,
        disk_floor_bytes: disk.floor_bytes,
        disk_level: disk.level,
        hostd_rss_bytes: u64::try_from(page).unwrap_or(0).saturating_mul(resident_pages),
        sandboxes: api.store.count_by_status().await?,
        sandboxes_by_driver: count_by_driver(api),
        warnings: warnings(api),
    }))
}

fn warnings(api: &Api) -> Vec<String> {
    let problems = api.drivers.all().iter().flat_map(|driver| drivers::problems(driver.as_ref()));
    let left_alone = api.fleet.records().iter().filter(|record| record.other_pid_namespace).count();
    let elsewhere = (left_alone > 0).then(|| {
        format!(
            "sandboxes in another PID namespace than hostd, which leaves them alone: {left_alone}; start hostd in the \
             namespace that they were started in"
        )
    });
    problems.chain(elsewhere).chain(api.settings.tls_warnings()).collect()
}

/// Percentage of the host's memory that is available.
pub fn memory_available_percent() -> u64 {
    let memory = read("/proc/meminfo");
    let total = kib(&memory, "MemTotal:").max(1);
    kib(&memory, "MemAvailable:").saturating_mul(100) / total
}

/// Reads a file of /proc: small, and generated on read.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn pressure(stalls: MemoryStalls) -> PressureView {
    let percent = |hundredths: u32| f64::from(hundredths) / 100.0;
    PressureView { some_percent: percent(stalls.some), full_percent: percent(stalls.full) }
}

/// The averages of `/proc/loadavg`.
fn load(text: &str) -> [f64; 3] {
    let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0.0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

fn count_by_driver(api: &Api) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for record in api.fleet.records() {
        *counts.entry(record.blueprint.driver.clone()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_averages_are_read() {
        assert_eq!(load("0.52 1.00 10.25 3/999 123\n"), [0.52, 1.0, 10.25]);
        assert_eq!(load(""), [0.0; 3]);
    }
}
