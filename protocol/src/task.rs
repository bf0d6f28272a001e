//! Tasks: one coding job each, done by an agent. What a caller asks for, how it is seen, how it ended.

use crate::{Agent, AgentKind, EnvMap, Exit, Hint, Payload, ServiceName, TaskId, Usage};
use serde::{Deserialize, Serialize};

/// What to do, and who does it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Chosen by the caller; made up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    pub prompt: String,
    pub agent: Agent,
    #[serde(default, skip_serializing_if = "EnvMap::is_empty")]
    pub env: EnvMap,
    /// Absolute, or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// From the end of waiting in the queue to the end of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long the agent may print nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Let processes live on that outlive the agent.
    #[serde(default)]
    pub keep_processes: bool,
    /// Use the agent that was started in advance under this name, where there still is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<String>,
    /// Absent: what the manifest says. An empty command: no build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildSpec>,
    /// How long to wait for services to be ready afterwards; 0 does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_timeout_ms: Option<u64>,
}

/// A check that what the agent left can be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildSpec {
    /// A shell line, run in the app directory.
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    Queued,
    Preparing,
    Checkpoint,
    Agent,
    Build,
    Health,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl TaskStatus {
    pub fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// Why a task did not succeed: a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The agent exited with something else than 0, was killed (`exit` says which), or said that it failed.
    AgentFailed,
    /// The provider of its model refused for good, or failed too often; `message` has its words.
    ModelFailed,
    /// What the task, or its tenant, may use of models is used up.
    BudgetExceeded,
    TimedOut,
    /// The agent printed nothing for too long.
    IdleTimedOut,
    Cancelled,
    /// The agent could not be started; `message` says why.
    SpawnFailed,
    /// The agent succeeded and the build did not.
    BuildFailed,
    /// The sandbox stopped or died, or the shim of the agent did.
    Lost,
    /// The sandbox could not be brought up; `message` says why.
    SandboxFailed,
    /// A fault of ours; `message` says which.
    Internal,
}

impl FailureReason {
    /// Whether the agent failed by itself, so that what it printed may say why.
    pub fn is_of_agent(self) -> bool {
        match self {
            Self::AgentFailed | Self::TimedOut | Self::IdleTimedOut => true,
            Self::ModelFailed
            | Self::BudgetExceeded
            | Self::Cancelled
            | Self::SpawnFailed
            | Self::BuildFailed
            | Self::Lost
            | Self::SandboxFailed
            | Self::Internal => false,
        }
    }
}

/// The state of the workspace before the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Checkpoint {
    Taken {
        /// A commit of the private repository.
        id: String,
        /// Files left out because they are too large or could not be read.
        #[serde(default)]
        skipped: u64,
    },
    Unavailable {
        why: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One file that is another one than before the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileChange {
    /// Relative to the app directory; base64 where it is no text.
    pub path: Payload,
    pub change: ChangeKind,
    /// Lines; absent where the file is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_lines: Option<u64>,
}

/// What the task changed: everything in numbers, the first of them by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    pub files: Vec<FileChange>,
    /// Whether `files` is not all of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BuildStatus {
    Passed,
    Failed,
    /// Nothing to build, or the agent did not succeed.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildOutcome {
    pub status: BuildStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// The end of what a failed build printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Every service that should run is ready.
    Healthy,
    Unhealthy,
    /// There is no service, or nobody waited for them.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthOutcome {
    pub status: HealthStatus,
    /// Those that were not ready in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<ServiceName>,
}

/// Milliseconds spent in each phase; 0 for one that was not reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Durations {
    pub queued_ms: u64,
    pub preparing_ms: u64,
    pub checkpoint_ms: u64,
    pub agent_ms: u64,
    pub build_ms: u64,
    pub health_ms: u64,
    pub total_ms: u64,
}

/// How a task ended: all there is to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskResult {
    pub status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<FailureReason>,
    /// For people: what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the agent ended; absent where it never ran or nobody saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// The end of what the agent said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_message: Option<Payload>,
    /// The end of what an agent with a protocol printed beside its messages (standard error, and lines that are no
    /// messages); only of one that failed or took too long. `GET …/tasks/{t}/log` has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_stderr: Option<Payload>,
    /// Absent where they could not be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Changes>,
    pub build: BuildOutcome,
    pub health: HealthOutcome,
    /// What it used of models, as hostd's gateway saw it; absent where it used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The models that it called, as `provider/name`, the first one first, as hostd's gateway saw it: what the agent
    /// calls them may be something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The agent's own name for the conversation, which a later task can go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub durations: Durations,
    pub checkpoint: Checkpoint,
}

/// A task as a caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    pub id: TaskId,
    pub status: TaskStatus,
    pub phase: TaskPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<FailureReason>,
    pub agent: AgentKind,
    pub created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    /// Tasks that run before this one does, while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// The oldest event that is kept, and the newest that is known.
    pub oldest_seq: u64,
    pub last_seq: u64,
    /// Of a task that is done; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}
