//! Sandboxes: the spec that a client sends, the view it gets, and attempts, events, ports, stats and images.
//!
//! A new field of the spec goes into [`SandboxSpec`]; hostd resolves it in `hostd/src/core/blueprint.rs`, documents its
//! limits in `hostd/src/api/openapi/constraints.rs`, and the command sets it in `cli/src/sandbox_flags.rs`.

use super::{
    ApiErrorCode, DotfilesSpec, FailedStep, Network, NetworkSpec, OnTtl, Owner, SandboxId, SandboxScope,
    SetupSpec, SetupView, SharedView, SnapshotId, SourceSpec,
};
use crate::{Cursor, EnvMap, ListeningPort, Reason, ServiceSpec, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The sandbox to create. Every field is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSpec {
    /// Display name; need not be unique. Default: derived from the id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `host`, or the name of an imported image; default: hostd's default image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Driver; default: hostd's default driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// OCI runtime, as in `runsc`, from `GET /v1/drivers`; default: that of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Ports whose previews are advertised. Previews of other ports work as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Environment variables of every process in the sandbox. Values are never shown again.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Services to keep running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSpec>,
    pub limits: LimitsSpec,
    /// First content of the workspace; default: that of `/opt/sandbox-skel` in the image, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<Seed>,
    /// Repository to begin with, cloned before all else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceSpec>,
    /// Files for the home directory, before the setup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dotfiles: Option<DotfilesSpec>,
    /// Commands that run once, before the services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_policy: Option<IdlePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_headers: Option<PreviewHeaders>,
    /// Time to live, as `90s`, `15m`, `4h` or `7d`; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// What happens at the end of `ttl`; default: destroyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_ttl: Option<OnTtl>,
    /// Key-value pairs of the client; hostd only stores them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Project; default: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<SandboxScope>,
    /// Must be the tenant of the caller where given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Must be the principal of the caller where given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
}

/// The first content of a new workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Seed {
    /// A template of the operator: 1 to 64 of a-z 0-9 -
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A snapshot, instead of a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
}

/// Requested resource limits. Absent fields have hostd's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// CPU cores, as in 0.5 or 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Space of the workspace: writes beyond it fail. Absent: unlimited. How it is kept is in `disk_limit` of the
    /// driver's capabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

/// Resource limits in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Limits {
    pub memory_mb: u64,
    pub cpus: f64,
    pub pids: u64,
    /// Absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IdlePolicy {
    /// Stopped after a while without activity, started again on demand.
    #[default]
    Sleep,
    /// Kept running; restarted when it dies.
    AlwaysOn,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Previews need a token or a preview link.
    #[default]
    Private,
    Public,
}

/// Host-related headers that an app receives from a preview.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PreviewHeaders {
    /// `Host`, and same-site `Origin` and `Referer`, are rewritten to `localhost:<port>`, so that dev servers which check
    /// them work unchanged. Responses are rewritten back.
    #[default]
    Localhost,
    /// As sent by the browser.
    AsSent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxStatus {
    Creating,
    Running,
    /// Frozen, memory kept.
    Paused,
    /// Memory freed, files kept.
    Stopped,
    /// Failed, see `problem`. Start, recreate or destroy it.
    Error,
    /// Gone; its record is kept.
    Destroyed,
}

/// The operation in progress on a sandbox. Every phase has a deadline.
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
    /// Explanation as text.
    pub message: String,
    /// Last lines of output of the backend, of PID 1 or of the step that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// The step of the setup that failed, where that is the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<FailedStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The backend rejected the request; a retry will fail too.
    Refused,
    /// The backend failed to start the sandbox.
    LaunchFailed,
    /// The sandbox started but was not ready in time.
    NotReady,
    /// A phase exceeded its deadline.
    DeadlinePassed,
    /// The kernel's OOM killer ended the sandbox.
    Oom,
    /// PID 1 ended, or was killed, while the sandbox should run.
    Died,
    /// The driver's state of the sandbox is missing or was modified.
    Damaged,
    /// The image does not exist.
    ImageMissing,
    /// A foreign resource of the backend already has the name of this sandbox.
    NameTaken,
    DiskFull,
    /// hostd stopped the sandbox because the host ran out of memory and it was idle.
    MemoryPressure,
    DriverUnavailable,
    /// A step of the setup failed, see `step`. Start the sandbox to go on with that step.
    SetupFailed,
    /// The dotfiles could not be installed, see `step`.
    DotfilesFailed,
    /// The server of a repository refused the credential, or there is none.
    SourceAuthFailed,
    /// There is no such repository, or the credential does not see it.
    SourceNotFound,
    /// The repository has no such branch, tag or commit.
    SourceRefUnknown,
    /// The repository is larger than the limit of a transfer, or than the disk.
    SourceTooLarge,
    /// The server of the repository does not answer, or may not be reached from this sandbox.
    SourceUnreachable,
    /// The clone of the repository failed otherwise.
    SourceFailed,
}

impl ProblemCode {
    /// Returns the code that a request which failed with this problem is answered with. Only an unavailable backend is
    /// worth a retry.
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
            | Self::DiskFull
            | Self::MemoryPressure
            | Self::SetupFailed
            | Self::DotfilesFailed
            | Self::SourceAuthFailed
            | Self::SourceNotFound
            | Self::SourceRefUnknown
            | Self::SourceTooLarge
            | Self::SourceUnreachable
            | Self::SourceFailed => ApiErrorCode::SandboxFailed,
        }
    }
}

/// How a sandbox died that should have run. Kept after a restart, until the next death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PostMortem {
    pub at: String,
    pub cause: DeathCause,
    /// Cause, numbers and advice as a sentence.
    pub message: String,
    /// Exit code of PID 1, where the backend reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Peak memory use as last measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Processes killed by the OOM killer.
    #[serde(default)]
    pub oom_kills: u64,
    /// Process starts refused because of the process limit.
    #[serde(default)]
    pub pids_limit_hits: u64,
    /// Last lines of output of PID 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// The task that was running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeathCause {
    /// PID 1 reported an ordered shutdown: requested inside the sandbox, or by a stop of the backend.
    ShutDown,
    /// The kernel's OOM killer ended PID 1.
    Oom,
    /// PID 1 was killed by a signal that hostd did not send.
    Killed,
    /// PID 1 exited.
    Exited,
    /// The container was removed, but not by hostd.
    Removed,
    /// The backend stopped the sandbox when it was shut down or restarted.
    Backend,
    #[default]
    Unknown,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SandboxView {
    pub id: SandboxId,
    pub name: String,
    #[serde(flatten)]
    pub owner: Owner,
    /// Set where the sandbox belongs to a colleague who shares it with the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<SandboxScope>,
    /// The sandbox that took its name by `replace`; this one is destroyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<SandboxId>,
    pub status: SandboxStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Why the sandbox is in `error`, or why the last operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The last death of the sandbox while it should have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<PostMortem>,
    /// Progress of a long-running phase, as text; for example of an image pull.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    pub driver: String,
    /// OCI runtime, where one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub image: String,
    pub ports: Vec<u16>,
    /// Preview URLs by port.
    pub previews: BTreeMap<String, String>,
    /// Ports that something listens on now. Only in lists with `listening=1`, for sandboxes that run and respond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listening: Option<Vec<u16>>,
    pub limits: Limits,
    pub network: Network,
    pub idle_policy: IdlePolicy,
    pub visibility: Visibility,
    #[serde(default)]
    pub preview_headers: PreviewHeaders,
    /// Names of the environment variables of the spec; values are not shown.
    pub env: Vec<String>,
    /// Names of the services of the spec.
    pub services: Vec<String>,
    /// Steps of source, dotfiles and setup; absent where the spec has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupView>,
    pub metadata: BTreeMap<String, String>,
    /// Number of the current attempt to launch it.
    pub attempt: u32,
    pub created_at: String,
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What happens then; absent: it is destroyed.
    #[serde(default, skip_serializing_if = "OnTtl::is_destroy")]
    pub on_ttl: OnTtl,
}

/// The sandbox that was found or created: `POST /v1/sandboxes/ensure`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnsureAnswer {
    #[serde(flatten)]
    pub sandbox: SandboxView,
    /// Whether this request created it.
    pub created: bool,
}

/// A page of a list. Pass `next` as `after` to get the following page; absent on the last page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
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
    /// Restart by hostd after the sandbox died.
    Restart,
    Recreate,
}

/// One attempt to launch a sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptView {
    pub attempt: u32,
    pub relation: AttemptRelation,
    pub state: AttemptState,
    pub driver: String,
    /// The resolved spec that was launched.
    pub blueprint: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// How the launched sandbox died, if it should have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<PostMortem>,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// An event of hostd's log. `seq` is global and increases with every event. Fields of task events are inline; those of
/// other events are in `data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventView {
    pub seq: u64,
    pub time: String,
    pub sandbox: SandboxId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    pub kind: String,
    /// Position in the sandbox's own event log, for events that come from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub origin: Option<Cursor>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fact: Map<String, Value>,
}

/// A port that a process of the sandbox listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortView {
    #[serde(flatten)]
    pub listening: ListeningPort,
    /// Preview URL; absent where the process listens on an address that previews do not reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

/// Why a sandbox is awake, and when it will sleep: `GET …/activity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityView {
    pub busy: bool,
    /// Since when it is busy, or idle.
    pub since: String,
    /// What keeps it awake. A silent open preview is listed too: it only prevents a stop, not a pause.
    pub reasons: Vec<Reason>,
    pub idle_policy: IdlePolicy,
    /// Whether it is paused for idleness until the next request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dozing: bool,
    /// When it will be paused or stopped without further activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleeps_at: Option<String>,
    /// How it will sleep: paused while a preview is open in a browser, stopped otherwise.
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
