//! Sandboxes as callers ask for them and see them.

use super::{ApiErrorCode, Network, NetworkSpec, Owner, SandboxId, SandboxScope};
use crate::{Cursor, EnvMap, ListeningPort, Reason, ServiceSpec, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a caller asks for. Everything is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    /// For people; need not be unique. Made from the id when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `host`, or the name of an imported image. hostd's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The driver to use; hostd's default when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The OCI runtime to run it with, as in `runsc`; the driver's own when absent. `GET /v1/drivers` has the
    /// names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Ports whose previews are advertised; any port that listens can be opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Environment of everything that runs in it. Reaches the processes only: never shown again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSpec>,
    pub limits: LimitsSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_policy: Option<IdlePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_headers: Option<PreviewHeaders>,
    /// How long it may exist, as `90s`, `15m`, `4h` or `7d`; for ever when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Anything the caller wants to find again, as text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// `default` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<SandboxScope>,
    /// Only to be checked: must be the caller's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Cores, as in 0.5 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// Limits as they are in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    pub memory_mb: u64,
    pub cpus: f64,
    pub pids: u64,
    /// Absent: not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IdlePolicy {
    /// Stopped when nothing happens in it for a while, started when someone needs it.
    #[default]
    Sleep,
    /// Kept running; started again when it dies.
    AlwaysOn,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Previews ask for a token.
    #[default]
    Private,
    Public,
}

/// What an app sees of the name it is previewed under.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PreviewHeaders {
    /// `Host`, and its own `Origin` and `Referer`, are those of `localhost:<port>`, so that servers which
    /// check them work as they are; what they say about it in answers is put back.
    #[default]
    Localhost,
    /// As the browser sent them.
    AsSent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxStatus {
    Creating,
    Running,
    /// Frozen; memory kept.
    Paused,
    /// Memory freed; files kept.
    Stopped,
    /// See `problem`. Ways out: start, recreate, destroy.
    Error,
    /// The record is kept.
    Destroyed,
}

/// What is being done to a sandbox now. Every phase has a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Queued,
    Building,
    Provisioning,
    Starting,
    Pausing,
    Resuming,
    Stopping,
    Destroying,
}

/// Why a sandbox is in `error`, or why an attempt failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    pub code: ProblemCode,
    /// For people.
    pub message: String,
    /// The last lines of what the backend or PID 1 printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The backend refused what was asked for, and will again.
    Refused,
    /// The backend tried and failed.
    LaunchFailed,
    /// It came up but did not answer in time.
    NotReady,
    /// A phase took longer than its deadline.
    DeadlinePassed,
    /// The kernel killed it for memory.
    Oom,
    /// PID 1 ended, or was killed, while it should run.
    Died,
    /// What the driver kept about it is missing or was changed.
    Damaged,
    /// The image is not there.
    ImageMissing,
    /// Something that is not ours has the name that the backend would give it.
    NameTaken,
    DiskFull,
    DriverUnavailable,
}

impl ProblemCode {
    /// As whoever asked for something is told it. A backend that is away comes back; what else is wrong does
    /// not pass by itself.
    pub fn as_error(self) -> ApiErrorCode {
        match self {
            Self::DriverUnavailable => ApiErrorCode::DriverUnavailable,
            Self::Refused
            | Self::LaunchFailed
            | Self::NotReady
            | Self::DeadlinePassed
            | Self::Oom
            | Self::Died
            | Self::Damaged
            | Self::ImageMissing
            | Self::NameTaken
            | Self::DiskFull => ApiErrorCode::SandboxFailed,
        }
    }
}

/// How a sandbox ended that should have run. Outlives what it was; kept until it ends so once more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostMortem {
    pub at: String,
    pub cause: DeathCause,
    /// For people: cause, numbers and what to do, in a sentence.
    pub message: String,
    /// Of PID 1, where the backend tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// As last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Processes the kernel killed for memory, and starts of processes that the limit refused.
    #[serde(default)]
    pub oom_kills: u64,
    #[serde(default)]
    pub pids_limit_hits: u64,
    /// Of what PID 1 printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// The task that ran in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeathCause {
    /// PID 1 shut down and said so: somebody asked it to, inside or by the backend's own stop.
    ShutDown,
    /// The kernel killed PID 1 for memory.
    Oom,
    /// PID 1 was killed by a signal, not by us.
    Killed,
    /// PID 1 ended by itself.
    Exited,
    /// What it ran in was removed behind our back.
    Removed,
    /// The backend stopped it: it was shut down or started anew.
    Backend,
    #[default]
    Unknown,
}

/// A sandbox as its owner sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxView {
    pub id: SandboxId,
    pub name: String,
    #[serde(flatten)]
    pub owner: Owner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SandboxScope>,
    pub status: SandboxStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why it is in `error`; or, while it is not, why what was asked for last was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// How it ended last while it should have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<PostMortem>,
    /// What bringing it up is busy with, where that takes long and `phase` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    pub driver: String,
    /// The OCI runtime that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub image: String,
    pub ports: Vec<u16>,
    /// By port.
    pub previews: BTreeMap<String, String>,
    /// Ports that something listens on now: in a list that was asked for them, of those that run and answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<Vec<u16>>,
    pub limits: Limits,
    pub network: Network,
    pub idle_policy: IdlePolicy,
    pub visibility: Visibility,
    #[serde(default)]
    pub preview_headers: PreviewHeaders,
    /// Names of the variables given at create; their values are not shown.
    pub env: Vec<String>,
    /// Names of the services given at create.
    pub services: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    /// How often it was brought up.
    pub attempt: u32,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnsureAnswer {
    #[serde(flatten)]
    pub sandbox: SandboxView,
    pub created: bool,
}

/// A list, and where to go on: give `next` as `after`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `PATCH …/ttl`. `ttl` counts from now; null takes the end away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TtlChange {
    pub ttl: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    Open,
    Succeeded,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptRelation {
    Create,
    Start,
    /// By hostd, after it died.
    Restart,
    Recreate,
}

/// One try to bring a sandbox up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptView {
    pub attempt: u32,
    pub relation: AttemptRelation,
    pub state: AttemptState,
    pub driver: String,
    /// The frozen blueprint.
    pub blueprint: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// How what it brought up ended, if it should have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<PostMortem>,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// One event of hostd's log. `seq` is global and only grows. What an event of a task tells stands beside the
/// other fields, as in [`TaskEventView`](super::TaskEventView); what any other tells is `data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventView {
    pub seq: u64,
    pub time: String,
    pub sandbox: SandboxId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub kind: String,
    /// Where it stands in the log of the sandbox's runtimed, if it comes from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub origin: Option<Cursor>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fact: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortView {
    #[serde(flatten)]
    pub listening: ListeningPort,
    /// Where browsers see it. Absent where it listens on an address that previews do not reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsView {
    pub memory_bytes: u64,
    pub memory_peak_bytes: u64,
    pub memory_limit_bytes: u64,
    pub cpu_usage_us: u64,
    pub pids: u64,
    pub pids_limit: u64,
    pub oom_kills: u64,
    pub pids_limit_hits: u64,
}

/// Why a sandbox is awake, and when it will sleep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityView {
    pub busy: bool,
    /// Since when it is busy, or nothing happens.
    pub since: String,
    /// Also what does not keep it awake, but from being stopped: a silent preview that is open.
    pub reasons: Vec<Reason>,
    pub idle_policy: IdlePolicy,
    /// Paused because nothing happens in it, until somebody comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dozing: bool,
    /// When it will sleep, or sleep deeper, if nothing happens until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps_at: Option<String>,
    /// How: paused while a preview is open in a browser, stopped otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps_to: Option<SleepsTo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SleepsTo {
    Paused,
    Stopped,
}

/// `POST` and `GET /v1/images`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Image {
    pub name: String,
    pub created_at: String,
    pub size_bytes: u64,
}
