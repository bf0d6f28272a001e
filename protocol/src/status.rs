//! Status of a sandbox as runtimed reports it.

use crate::{ExecId, ExecView, HoldName, HoldView, ServiceName, ServiceView, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    /// Whether runtimed is PID 1 of its namespace; otherwise it is a subreaper.
    pub pid1: bool,
    pub boot_ms: u64,
    pub epoch: u64,
    pub services: Vec<ServiceView>,
    /// The error of the manifest on disk, if it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest_error: Option<String>,
    /// Problems of the sandbox that no request caused, as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Execs that run, or that left processes running.
    pub execs: Vec<ExecView>,
    pub ports: Vec<ListeningPort>,
    pub cgroup: Cgroup,
    /// Number of processes now, including zombies. A spare shim is not counted.
    pub processes: u32,
    /// Number of zombies; expected to be 0.
    pub zombies: u32,
    /// Resident memory of runtimed itself.
    pub runtimed_rss_bytes: u64,
    pub workspace: WorkspaceUse,
    pub holds: Vec<HoldView>,
    pub activity: Activity,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Process {
    pub pid: i32,
    /// The command line, shortened.
    pub command: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListeningPort {
    pub port: u16,
    /// Address that it is bound to.
    pub address: String,
    /// The listening process, where it could be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    V1,
    V2,
    #[default]
    None,
}

/// Counters of the sandbox's control group; absent where the kernel lacks them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    pub version: CgroupVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_usage_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
    /// Number of forks refused because of the process limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_limit_hits: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceUse {
    pub used_bytes: u64,
    pub files: u64,
    /// Whether the measurement stopped at its limit, so that the true use is larger.
    pub partial: bool,
    /// Free and total space of its file system.
    pub free_bytes: u64,
    pub total_bytes: u64,
    pub measured_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub busy: bool,
    /// Since when it is busy, or idle, by the wall clock.
    pub since_ms: u64,
    /// For how long, by the monotonic clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
    /// Empty when idle.
    pub reasons: Vec<Reason>,
}

/// Why a sandbox is busy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    Exec {
        exec: ExecId,
    },
    /// A task that is queued or running.
    Task {
        task: TaskId,
    },
    Viewers {
        count: u32,
    },
    Tunnels {
        count: u32,
    },
    /// Verbs on files, but for watches.
    Files {
        count: u32,
    },
    Hold {
        hold: HoldName,
    },
    ServiceStarting {
        service: ServiceName,
    },
    Cpu {
        percent: u32,
    },
    /// Previews in browsers: open streams, and time since the last activity. Reported by hostd only.
    Preview {
        streams: u64,
        silent_ms: u64,
    },
}

/// Why a tunnel could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelRefusal {
    pub port: u16,
    pub listening: Vec<ListeningPort>,
}
