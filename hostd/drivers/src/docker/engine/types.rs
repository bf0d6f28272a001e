//! Request and response types of the Engine API, reduced to the fields that are used.

use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::collections::BTreeMap;

/// Identity and features of an engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineInfo {
    /// `Docker 20.10.24` or `Podman 4.3.1`, for display.
    pub version: String,
    pub podman: bool,
    /// The negotiated API version.
    pub api: String,
    /// OCI runtimes by name, the default first.
    pub runtimes: Vec<String>,
    /// `name=seccomp,profile=default`, `name=userns`, `name=rootless`, …
    pub security: Vec<String>,
    pub root_dir: String,
    pub cgroup_version: u32,
    /// Limits that the engine cannot enforce on this host.
    pub missing_limits: Vec<&'static str>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateContainer {
    pub image: String,
    pub hostname: String,
    /// `0:0`.
    pub user: String,
    pub env: Vec<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub working_dir: String,
    pub labels: BTreeMap<String, String>,
    pub stop_signal: String,
    /// Seconds until `docker stop` by an operator escalates to SIGKILL.
    pub stop_timeout: u64,
    pub healthcheck: Healthcheck,
    pub network_disabled: bool,
    pub host_config: HostConfig,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Healthcheck {
    pub test: Vec<String>,
}

/// Limits of a container, when it is created and when they are changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Resources {
    pub memory: u64,
    pub memory_swap: u64,
    /// Microseconds of CPU time in each period of `cpu_period` microseconds.
    pub cpu_quota: u64,
    pub cpu_period: u64,
    pub pids_limit: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostConfig {
    pub binds: Vec<String>,
    pub tmpfs: BTreeMap<String, String>,
    pub readonly_rootfs: bool,
    pub cap_drop: Vec<String>,
    pub cap_add: Vec<String>,
    pub security_opt: Vec<String>,
    /// Replaces the engine's own list, unless empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub masked_paths: Vec<String>,
    pub network_mode: String,
    pub ipc_mode: String,
    pub pid_mode: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroupns_mode: String,
    #[serde(flatten)]
    pub resources: Resources,
    pub shm_size: u64,
    pub ulimits: Vec<Ulimit>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    pub init: bool,
    pub restart_policy: RestartPolicy,
    pub log_config: LogConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub oom_score_adj: i32,
    pub auto_remove: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Ulimit {
    pub name: String,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RestartPolicy {
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LogConfig {
    pub r#type: String,
    pub config: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InspectedContainer {
    pub id: String,
    pub name: String,
    pub state: InspectedState,
    pub config: InspectedConfig,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InspectedConfig {
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InspectedState {
    /// `created`, `running`, `paused`, `restarting`, `removing`, `exited`, `dead`; Podman: `configured`,
    /// `initialized`, `stopped`, `stopping` too.
    pub status: String,
    pub running: bool,
    pub paused: bool,
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    pub pid: i64,
    pub exit_code: i64,
    pub error: String,
    /// Identifies one run of the container, together with its id.
    pub started_at: String,
    pub finished_at: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListedContainer {
    pub id: String,
    #[serde(default)]
    pub names: Vec<String>,
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Image {
    pub id: String,
    #[serde(default)]
    pub repo_tags: Option<Vec<String>>,
    /// Defaults that the image sets for its containers.
    #[serde(default)]
    pub config: Option<ImageConfig>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ImageConfig {
    pub labels: Option<BTreeMap<String, String>>,
    pub volumes: Option<BTreeMap<String, IgnoredAny>>,
    pub env: Option<Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Network {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub options: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateNetwork {
    pub name: String,
    pub driver: String,
    pub options: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
}

/// An event of one container.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineEvent {
    /// `create`, `start`, `die`, `oom`, `kill`, `stop`, `pause`, `unpause`, `destroy` (`remove` on Podman), …
    pub action: String,
    pub container: String,
    pub attributes: BTreeMap<String, String>,
}
