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
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::{ApiErrorCode, DiskLevel, HostView};
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;

/// `GET /healthz` and `/readyz`
#[derive(Debug, Serialize, ToSchema)]
pub struct HostHealth {
    status: &'static str,
}

pub async fn healthz(_: Call) -> CallResult {
    Ok(ok(&HostHealth { status: "ok" }))
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
    Ok(ok(&HostHealth { status: "ready" }))
}

pub async fn metrics(call: Call) -> CallResult {
    let api = &call.api;
    api.metrics.refresh_gauges(&api.store.count_by_status().await?, &api.drivers, &api.disk.state());
    api.store.refresh_gauges();
    let mut response = Response::new(Body::from(hostd_metrics::text(&api.registry)));
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
    let memory = read("/proc/meminfo");
    let disk = api.disk.state();
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let resident_pages =
        read("/proc/self/statm").split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Ok(ok(&HostView {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: settings.instance.clone(),
        default_driver: api.defaults.driver.clone(),
        default_image: api.defaults.image.clone(),
        drivers: drivers::views(&api.drivers, &api.defaults.driver),
        cpus: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_total_bytes: kib(&memory, "MemTotal:"),
        memory_available_bytes: kib(&memory, "MemAvailable:"),
        disk_total_bytes: disk.total_bytes,
        disk_free_bytes: disk.free_bytes,
        disk_floor_bytes: disk.floor_bytes,
        disk_level: disk.level,
        hostd_rss_bytes: u64::try_from(page).unwrap_or(0).saturating_mul(resident_pages),
        sandboxes: api.store.count_by_status().await?,
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
    problems.chain(elsewhere).collect()
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

/// A line of /proc/meminfo, in bytes.
fn kib(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    let number =
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24662264 kB\nMemFree:  1 kB\n";
        assert_eq!(kib(text, "MemTotal:"), 24_662_264 * 1024);
        assert_eq!(kib(text, "MemAvailable:"), 0);
    }
}
