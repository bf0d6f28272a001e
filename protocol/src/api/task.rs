//! Tasks on the public API.

use super::{SandboxId, TaskBudget};
use crate::{EnvMap, FailureReason, Permissions, TaskId, TaskPhase, TaskResult, TaskStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `POST …/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TaskCreate {
    /// Chosen by the caller; repeating it never runs a task twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<TaskId>,
    /// What the agent is to do.
    pub prompt: String,
    /// Who does it: one of `GET /v1/agents`. `command` is meant when only `command` is given, else the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// One of `GET /v1/models`; the default unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the agent may do that asks first; everything unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// What the agent is told before the prompt, in a session that begins: the usual unless given, nothing
    /// when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// From the end of waiting in the queue to the end of the build; an hour unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// How long the agent may print nothing; for ever unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<f64>,
    /// Go on with the last session that the agent had in this sandbox.
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    pub continues: Option<bool>,
    #[serde(skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// For the agent `command`: the program and its arguments. The prompt is its input and `$SLIPWAY_PROMPT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Where the agent starts; the app directory unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A shell line that must succeed afterwards; what `sandbox.yaml` says unless given, none when empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Let processes live on that outlive the agent.
    pub keep_processes: bool,
    /// What it may use of models; what the configuration says unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<TaskBudget>,
}

/// A task as its caller sees it.
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
    /// Empty for one that was recovered.
    pub prompt: String,
    /// The database was lost, and what its sandbox still knew of it was taken over: its prompt, and what it used
    /// of models, are not known any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// Its events, relative to the address of the API.
    pub events_url: String,
    /// Somebody asked for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelling: bool,
    /// Ids of the permissions that its agent waits for, the oldest first: `POST …/tasks/{t}/permissions/{p}` answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_permissions: Vec<String>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// When it is done; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<TaskResult>,
}

/// One event of a task: the `data` of a frame whose `id` is `seq` and whose `event` is `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskEventView {
    /// Its place in the log of hostd: only grows.
    pub seq: u64,
    pub time: String,
    pub sandbox: SandboxId,
    pub task: TaskId,
    /// Its place among those events of the task that its sandbox tells, from 1; absent for what hostd itself saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// `status`, `message`, `thought`, `tool`, `file`, `plan`, `permission`, `model`, `build`, `usage`, `log`
    /// or `done`.
    pub kind: String,
    /// What the kind tells: see docs/api.md.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fact: Map<String, Value>,
}
