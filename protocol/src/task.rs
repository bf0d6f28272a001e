//! Tasks: coding jobs for an agent. The request to runtimed, the view of a task, and its result.

use crate::{Agent, AgentKind, EnvMap, Exit, Hint, Payload, ServiceName, TaskId, Usage};
use serde::{Deserialize, Serialize};

/// A task to run, with the agent that does it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRequest {
    /// Chosen by the client; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    pub prompt: String,
    pub agent: Agent,
    #[serde(default, skip_serializing_if = "EnvMap::is_empty")]
    pub env: EnvMap,
    /// Working directory, absolute or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Time limit from leaving the queue to the end of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds that the agent may print nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Whether processes that the agent started keep running after it ended.
    #[serde(default)]
    pub keep_processes: bool,
    /// Name of an agent that was started in advance; used if it still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm: Option<String>,
    /// Session that the agent continues, where it continues one; absent: its last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Absent: the build of the manifest. An empty command: no build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildSpec>,
    /// Milliseconds to wait for services to become ready afterwards; 0 does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_timeout_ms: Option<u64>,
}

/// A build that checks the agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildSpec {
    /// Shell command, run in the app directory.
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

/// Why a task did not succeed; a closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The agent exited with a status other than 0, was killed (see `exit`), or reported a failure.
    AgentFailed,
    /// The model provider rejected a call permanently, or failed too often; `message` has its error.
    ModelFailed,
    /// The model budget of the task, or of its tenant, is used up.
    BudgetExceeded,
    TimedOut,
    /// The agent printed nothing for too long.
    IdleTimedOut,
    Cancelled,
    /// The agent could not be started; `message` says why.
    SpawnFailed,
    /// The agent succeeded and the build did not.
    BuildFailed,
    /// The sandbox, or the shim of the agent, stopped or died.
    Lost,
    /// The sandbox could not be started; `message` says why.
    SandboxFailed,
    /// An internal error of Slipway; `message` says which.
    Internal,
}

impl FailureReason {
    /// Returns whether the agent itself failed, so that its output may explain why.
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

/// Snapshot of the workspace before the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Checkpoint {
    Taken {
        /// Commit id in the sandbox's private repository.
        id: String,
        /// Number of files left out because they are too large or unreadable.
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

/// A file that the task changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileChange {
    /// Path relative to the app directory; base64 where it is not UTF-8.
    pub path: Payload,
    pub change: ChangeKind,
    /// Number of added lines; absent for binary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_lines: Option<u64>,
    /// Number of deleted lines; absent for binary files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_lines: Option<u64>,
}

/// Files that the task changed: totals, and a list of the first ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Changes {
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    pub files: Vec<FileChange>,
    /// Whether `files` is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BuildStatus {
    Passed,
    Failed,
    /// No build is configured, or the agent did not succeed.
    Skipped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BuildOutcome {
    pub status: BuildStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Last output of a failed build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    pub duration_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// Every service is ready.
    Healthy,
    Unhealthy,
    /// There are no services, or the task did not wait for them.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HealthOutcome {
    pub status: HealthStatus,
    /// Services that were not ready in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unready: Vec<ServiceName>,
}

/// Milliseconds spent in each phase; 0 for a phase that was not reached.
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

/// The result of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskResult {
    pub status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<FailureReason>,
    /// Explanation of a failure as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How the agent process ended; absent where it never ran or its end was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// Last message of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_message: Option<Payload>,
    /// Last output of the agent outside its protocol (standard error, and lines that are no messages); only when it
    /// failed or timed out. `GET …/tasks/{t}/log` has everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_stderr: Option<Payload>,
    /// Absent where the changes could not be determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files_changed: Option<Changes>,
    pub build: BuildOutcome,
    pub health: HealthOutcome,
    /// Model use as measured by hostd's gateway; absent where the task used none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Models that it called, as `provider/name` in order of first use, as seen by hostd's gateway. The agent may use
    /// other names for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The agent's session id, which a later task can continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub durations: Durations,
    pub checkpoint: Checkpoint,
}

/// A task as runtimed reports it.
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
    /// Number of tasks ahead of this one while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// Number of the oldest event that is kept.
    pub oldest_seq: u64,
    /// Number of the newest event.
    pub last_seq: u64,
    /// Present when the task has ended; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}
