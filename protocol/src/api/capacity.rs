//! Capacity of the host: memory, live limits of a sandbox, the cost of each sandbox, and what a reap removes.

use super::{Owner, SandboxId, SandboxStatus, Unasked};
use serde::{Deserialize, Serialize};

/// How much memory is left for sandboxes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MemoryLevel {
    #[default]
    Ok,
    /// Below the reserve: creates and wakes are refused, and idle sandboxes are paused.
    Tight,
    /// Below half of the reserve: idle sandboxes are stopped as well, the idlest first.
    Critical,
}

/// The numbers of a refusal with `capacity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CapacityDetail {
    pub level: MemoryLevel,
    /// Memory that the sandbox is expected to need.
    pub needed_bytes: u64,
    pub available_bytes: u64,
    /// Memory that hostd keeps free.
    pub reserve_bytes: u64,
    /// Memory of sandboxes that were admitted a moment ago and do not use it yet.
    pub admitted_bytes: u64,
    /// As in `Retry-After`.
    pub retry_after_s: u64,
}

/// Stalls for lack of memory, in percent of the last ten seconds: `/proc/pressure/memory`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PressureView {
    /// At least one process waited.
    pub some_percent: f64,
    /// Every process waited.
    pub full_percent: f64,
}

/// Resource use of a sandbox: `GET …/stats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsView {
    pub memory_bytes: u64,
    /// Memory that the kernel cannot free by dropping cached files.
    #[serde(default)]
    pub memory_working_bytes: u64,
    pub memory_peak_bytes: u64,
    pub memory_limit_bytes: u64,
    pub cpu_usage_us: u64,
    pub pids: u64,
    pub pids_limit: u64,
    /// CPU cores; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus_limit: Option<f64>,
    pub oom_kills: u64,
    pub pids_limit_hits: u64,
    /// Space that the workspace uses of its limit; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// `limits.disk_mb` in bytes; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_limit_bytes: Option<u64>,
}

/// New limits of a sandbox: `PATCH …/limits`. Absent fields stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// CPU cores, as in 0.5 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
}

/// What a sandbox costs the host: `GET /v1/host/sandboxes`. Absent: unknown, or it does not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxCost {
    pub id: SandboxId,
    pub name: String,
    #[serde(flatten)]
    pub owner: Owner,
    pub status: SandboxStatus,
    pub driver: String,
    pub memory_limit_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// CPU time since it was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_usage_us: Option<u64>,
    /// Space that its workspace takes; absent where measuring takes too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
}

/// What destroyed sandboxes left: `POST /v1/host/reap`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReapReport {
    /// Whether the items were removed; `false`: they would be.
    pub applied: bool,
    pub items: Vec<ReapItem>,
    /// Space of the items that were removed, or would be.
    pub bytes: u64,
    /// Drivers that did not respond, so that their leftovers are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unasked: Vec<Unasked>,
    /// Whether there are more items than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReapItem {
    pub driver: String,
    pub kind: LeftoverKind,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxId>,
    pub bytes: u64,
    /// Why it may be removed.
    pub reason: String,
    /// Why it could not be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A kind of thing that a sandbox may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeftoverKind {
    /// A directory that was to be removed, and was not.
    Trash,
    /// The directory with bundle, logs and badge.
    SandboxDirectory,
    /// The files, as a directory or a volume.
    Workspace,
    /// State of the OCI runtime.
    RuntimeState,
    ControlGroup,
}
