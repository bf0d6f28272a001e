//! Tasks: what a client submits, how a task is shown, and its events.

use super::{SandboxId, TaskBudget};
use crate::{EnvMap, FailureReason, Permissions, TaskId, TaskPhase, TaskResult, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A task to submit: `POST …/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TaskCreate {
    /// Id of the task, chosen by the client; made up when absent. A request repeated with the same id runs the task once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// Instructions for the agent.
    pub prompt: String,
    /// Agent from `GET /v1/agents`. Default: the agent `command` where the field `command` is given, else the default
    /// agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model from `GET /v1/models`; absent: the default model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Rules for actions that the agent asks permission for; absent: everything is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Instructions before the prompt in a new session. Absent: hostd's own; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// Time limit in seconds, from leaving the queue to the end of the build; default: one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Seconds that the agent may print nothing; absent: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<f64>,
    /// Whether the agent continues its last session in this sandbox.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continues: Option<bool>,
    /// Session that the agent continues, as `result.session` of an earlier task names it; only with `continue`. Default:
    /// its last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Environment variables, added to those of the sandbox and overriding them.
    #[serde(skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Program and arguments of the agent `command`. It gets the prompt on standard input and in `$SLIPWAY_PROMPT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Working directory of the agent; default: the app directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Shell command that must succeed after the agent. Absent: the build of `sandbox.yaml`; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Whether processes that the agent started keep running after it ended.
    pub keep_processes: bool,
    /// Limits on its model use; absent: those of hostd's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TaskBudget>,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskAnswer {
    pub id: TaskId,
    pub sandbox_id: SandboxId,
    pub status: TaskStatus,
    pub phase: TaskPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<FailureReason>,
    pub agent: String,
    /// Principal that submitted it; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// Empty for a recovered task.
    pub prompt: String,
    /// Whether the task was recovered from its sandbox after hostd lost its database: prompt and model use are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// Path of its events on this API.
    pub events_url: String,
    /// Whether its cancellation was requested.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelling: bool,
    /// Ids of the permissions that its agent waits for, oldest first; `POST …/tasks/{t}/permissions/{p}` answers one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_permissions: Vec<String>,
    /// Whether it has ended and has a checkpoint that `POST …/tasks/{t}/revert` restores.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revertible: bool,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Present when the task has ended; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}

/// An event of a task: the `data` of an SSE frame whose `id` is `seq` and whose `event` is `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskEventView {
    /// Position in hostd's event log; increases with every event.
    pub seq: u64,
    pub time: String,
    pub sandbox: SandboxId,
    pub task: TaskId,
    /// Number among the task's events from its sandbox, from 1; absent for events of hostd itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// `status`, `message`, `thought`, `tool`, `file`, `plan`, `permission`, `model`, `build`, `usage`, `log`
    /// or `done`.
    pub kind: String,
    /// Fields of the kind: see docs/api.md.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fact: Map<String, Value>,
}
