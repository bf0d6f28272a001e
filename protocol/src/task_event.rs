//! Events of a task: numbered from 1 without gaps. `done` comes once, last, and carries the result.

use crate::{
    BuildOutcome, Checkpoint, Cursor, Encoding, FileChange, ModelCall, Stream, TaskPhase, TaskResult, Usage,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskEvent {
    pub seq: u64,
    pub time_ms: u64,
    #[serde(flatten)]
    pub fact: TaskFact,
}

/// Output of an agent: base64 where it is not UTF-8, split where it is long. Never lossy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Text {
    pub text: String,
    #[serde(default, skip_serializing_if = "is_utf8")]
    pub encoding: Encoding,
    /// Whether the line continues in the next event of this kind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

fn is_utf8(encoding: &Encoding) -> bool {
    *encoding == Encoding::Utf8
}

/// The kind of a task event with its fields.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TaskFact {
    Status {
        phase: TaskPhase,
        /// Present with the phase after the checkpoint.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Checkpoint>,
    },
    Message(Text),
    Thought(Text),
    Tool(Box<Tool>),
    File {
        #[serde(flatten)]
        file: FileChange,
    },
    Plan {
        entries: Vec<PlanEntry>,
    },
    Permission(Box<Permission>),
    /// A model call as hostd saw it, or (with a name only) the model that the agent claims to use.
    Model(Box<ModelFact>),
    Build {
        #[serde(flatten)]
        build: BuildOutcome,
    },
    Usage {
        #[serde(flatten)]
        usage: Usage,
    },
    Log {
        stream: Stream,
        #[serde(flatten)]
        text: Text,
        /// Number of events before this one that could not be stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost_events: Option<u64>,
    },
    Done {
        result: Box<TaskResult>,
        /// Cursor of the `task.ended` event in the sandbox's log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        told: Option<Cursor>,
    },
}

/// A tool call of an agent. Sent several times with the same `id`; absent fields are unchanged.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Tool {
    pub id: String,
    /// Display title: `npm install`, `Write index.html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Kind of tool: `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub status: ToolStatus,
    /// Input of the call, in the format of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Output of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether `input`, `output` or `diffs` is incomplete.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<Diff>,
    /// Files that the call refers to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    #[default]
    Pending,
    Running,
    Completed,
    Failed,
    /// The task was cancelled during the call.
    Cancelled,
}

/// A change of a file as the agent reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diff {
    pub path: String,
    /// Old content; absent for a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    pub new: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlanEntry {
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// `high`, `medium` or `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

/// A permission request of the agent. Sent when it waits for an answer, and when it is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Permission {
    /// Id to answer it with.
    pub id: String,
    pub state: PermissionState,
    /// The tool call that needs permission.
    pub about: Tool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PermissionOption>,
    /// Id of the chosen option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// What decided: `rule`, `default`, `caller`, or `limit` when too many requests are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PermissionState {
    Asked,
    Allowed,
    Denied,
    /// The task ended, or the agent continued, before a decision.
    Withdrawn,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PermissionOption {
    pub id: String,
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum ModelFact {
    /// The model that the agent claims to use.
    Claimed { name: String },
    /// A model call as seen by hostd's gateway.
    Seen(ModelCall),
}

impl From<FileChange> for TaskFact {
    fn from(file: FileChange) -> Self {
        Self::File { file }
    }
}

impl TaskFact {
    /// Returns the name of the kind, as in `type` and in the `event:` line of SSE.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status { .. } => "status",
            Self::Message(_) => "message",
            Self::Thought(_) => "thought",
            Self::Tool(_) => "tool",
            Self::File { .. } => "file",
            Self::Plan { .. } => "plan",
            Self::Permission(_) => "permission",
            Self::Model(_) => "model",
            Self::Build { .. } => "build",
            Self::Usage { .. } => "usage",
            Self::Log { .. } => "log",
            Self::Done { .. } => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_object_and_reads_back() {
        let text = Text { text: "hi".to_owned(), ..Text::default() };
        for (fact, json) in [
            (
                TaskFact::Status { phase: TaskPhase::Agent, checkpoint: None },
                r#"{"seq":1,"time_ms":2,"type":"status","phase":"agent"}"#,
            ),
            (TaskFact::Message(text.clone()), r#"{"seq":1,"time_ms":2,"type":"message","text":"hi"}"#),
            (
                TaskFact::Log {
                    stream: Stream::Stderr,
                    text: Text { partial: true, ..text },
                    lost_events: None,
                },
                r#"{"seq":1,"time_ms":2,"type":"log","stream":"stderr","text":"hi","partial":true}"#,
            ),
        ] {
            let kind = fact.kind();
            let event = TaskEvent { seq: 1, time_ms: 2, fact };
            let written = serde_json::to_string(&event).expect("an event is JSON");
            assert_eq!(written, json);
            assert!(written.contains(&format!("\"type\":\"{kind}\"")));
            assert_eq!(serde_json::from_str::<TaskEvent>(json).expect("and back"), event);
        }
    }
}
