//! What the host is and has.

use serde::{Deserialize, Serialize};

/// Where Docker's socket usually is, and Podman's.
pub const DOCKER_SOCKET: &str = "/var/run/docker.sock";
pub const PODMAN_SOCKET: &str = "/run/podman/podman.sock";

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
    pub memory_available_bytes: u64,
    pub disk_total_bytes: u64,
    /// Of the file system of the data directory, beside what hostd has set aside for itself.
    pub disk_free_bytes: u64,
    /// Below this creates and wakes are refused.
    #[serde(default)]
    pub disk_floor_bytes: u64,
    #[serde(default)]
    pub disk_level: DiskLevel,
    pub hostd_rss_bytes: u64,
    /// Sandboxes by status.
    pub sandboxes: std::collections::BTreeMap<String, u64>,
    /// What does not work on this host, for people.
    pub warnings: Vec<String>,
}

/// How full the disk of the data directory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskLevel {
    #[default]
    Ok,
    /// Below the floor: creates and wakes are refused, but for one sandbox at a time that may wake so that files
    /// are deleted in it.
    Low,
    /// Below half of the floor: sandboxes that grow are stopped, too.
    Full,
}

/// What makes sandboxes on this host, or could.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriverView {
    pub name: String,
    /// Of sandboxes that name none.
    #[serde(default)]
    pub default: bool,
    /// A name that people know and hostd has no driver for: `missing` says what to use instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupported: bool,
    /// Its backend is on this host.
    pub present: bool,
    /// Sandboxes can be made with it now.
    pub usable: bool,
    /// The program behind it and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What keeps it from being used, or what it lacks, and what to do about that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// `GET /v1/host/stale`: what drivers found that carries marks of this hostd and is not its own. Whoever put it
/// there takes it away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StaleList {
    pub items: Vec<StaleView>,
    /// Drivers that did not answer: what they have is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<Unasked>,
    /// There is more than is listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StaleView {
    pub driver: String,
    /// As its backend calls it.
    pub name: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Unasked {
    pub driver: String,
    pub why: String,
}

/// What a driver can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capabilities {
    /// `none`, `proxy`, `open`.
    pub networks: Vec<String>,
    /// Which fields of `limits` it honours.
    pub limits: Vec<String>,
    pub pause: bool,
    /// OCI runtimes that a sandbox may ask for, the default first.
    pub runtimes: Vec<String>,
    /// `host`, `imported`, `registry`.
    pub images: Vec<String>,
    /// What stands between sandbox and host beside the kernel's namespaces, for people.
    pub isolation: Vec<String>,
}
