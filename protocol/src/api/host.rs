//! The host: capacity, drivers, and stale resources.

use super::{MemoryLevel, PressureView};
use serde::{Deserialize, Serialize};

/// Default socket paths of Docker and Podman.
pub const DOCKER_SOCKET: &str = "/var/run/docker.sock";
pub const PODMAN_SOCKET: &str = "/run/podman/podman.sock";

/// The host and its capacity: `GET /v1/host`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostView {
    pub version: String,
    pub instance: String,
    pub default_driver: String,
    pub default_image: String,
    pub drivers: Vec<DriverView>,
    pub cpus: u32,
    pub memory_total_bytes: u64,
    /// For sandboxes: of the host, or of the tightest control group above them.
    pub memory_available_bytes: u64,
    /// Available memory below which creates and wakes are refused.
    #[serde(default)]
    pub memory_reserve_bytes: u64,
    /// Memory of sandboxes that were admitted a moment ago and do not use it yet.
    #[serde(default)]
    pub memory_admitted_bytes: u64,
    /// The limit of all sandboxes together; absent: none but the memory of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    #[serde(default)]
    pub memory_level: MemoryLevel,
    /// Absent where the kernel does not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<PressureView>,
    /// Processes that run or wait for the disk, averaged over 1, 5 and 15 minutes.
    #[serde(default)]
    pub load: [f64; 3],
    pub disk_total_bytes: u64,
    /// Free space on the file system of the data directory, without hostd's own reserve.
    pub disk_free_bytes: u64,
    /// Free space below which creates and wakes are refused.
    #[serde(default)]
    pub disk_floor_bytes: u64,
    #[serde(default)]
    pub disk_level: DiskLevel,
    pub hostd_rss_bytes: u64,
    /// Number of sandboxes by status.
    pub sandboxes: std::collections::BTreeMap<String, u64>,
    /// Number of sandboxes that are not destroyed, by driver.
    #[serde(default)]
    pub sandboxes_by_driver: std::collections::BTreeMap<String, u64>,
    /// Problems of this host, as text.
    pub warnings: Vec<String>,
}

/// How full the disk of the data directory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskLevel {
    #[default]
    Ok,
    /// Below the floor: creates and wakes are refused, except that one sandbox at a time may wake to delete files.
    Low,
    /// Below half of the floor: sandboxes that grow are stopped as well.
    Full,
}

/// A driver: the backend that runs sandboxes on this host, or could.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriverView {
    pub name: String,
    /// Whether sandboxes that name no driver use this one.
    #[serde(default)]
    pub default: bool,
    /// A name known from other tools that hostd has no driver for; `missing` names the alternative.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// Whether the backend is installed on this host.
    pub present: bool,
    /// Whether sandboxes can be created with it now.
    pub usable: bool,
    /// Program and version of the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Reasons why the driver is unusable or limited, each with what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Absent while unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// Resources that carry marks of this hostd but fail its checks: `GET /v1/host/stale`. hostd never touches them; the
/// operator removes them with the tools of the backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StaleList {
    pub items: Vec<StaleView>,
    /// Drivers that did not respond, so that their resources are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<Unasked>,
    /// Whether the list is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StaleView {
    pub driver: String,
    /// Name of the resource in its backend.
    pub name: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Unasked {
    pub driver: String,
    pub why: String,
}

/// Capabilities of a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// Supported network modes: `none`, `proxy`, `open`.
    pub networks: Vec<String>,
    /// Fields of `limits` that the driver enforces.
    pub limits: Vec<String>,
    /// How `limits.disk_mb` is kept: `project` (quota of the file system), `loop` (a file system of its own on
    /// space that is set aside), or `measured` (hostd stops a sandbox that is over). Absent where it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_limit: Option<String>,
    /// How snapshots are taken: `btrfs`, `overlay` or `copy`. Absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshots: Option<String>,
    pub pause: bool,
    /// OCI runtimes that a sandbox may request, the default first.
    pub runtimes: Vec<String>,
    /// Supported kinds of images: `host`, `imported`, `registry`.
    pub images: Vec<String>,
    /// Isolation between sandbox and host beyond kernel namespaces, as text.
    pub isolation: Vec<String>,
}
