//! The events of one task: numbered from 1 without a hole; `done` is last, once, and carries the result.

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

/// Text as an agent prints it: base64 where it is not UTF-8, in pieces where it is long. Never lossy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    pub text: String,
    #[serde(default, skip_serializing_if = "is_utf8")]
    pub encoding: Encoding,
    /// The line goes on in the next event of this kind.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

fn is_utf8(encoding: &Encoding) -> bool {
    *encoding == Encoding::Utf8
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TaskFact {
    Status {
        phase: TaskPhase,
        /// With the phase that comes after the checkpoint.
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
    /// A call of a model as hostd saw it, or (with a name alone) what an agent says that it uses.
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
        /// Events before this one that could not be stored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost_events: Option<u64>,
    },
    Done {
        result: Box<TaskResult>,
        /// Which event of the sandbox's log says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        told: Option<Cursor>,
    },
}

/// What an agent does with a tool. Comes several times with one `id`: what is absent is as it was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Tool {
    pub id: String,
    /// For people: `npm install`, `Write index.html`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    pub status: ToolStatus,
    /// What it was given, as the agent has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// What it printed or answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// What is told of `input`, `output` or `diffs` is not all of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<Diff>,
    /// Files that it is about.
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
    /// The task was cancelled while it ran.
    Cancelled,
}

/// A change of a file as the agent tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diff {
    pub path: String,
    /// Absent for a file that is new.
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

/// Something that the agent asked to be allowed: once when somebody is asked, and once when it is decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Permission {
    /// To answer it by.
    pub id: String,
    pub state: PermissionState,
    /// What it is about.
    pub about: Tool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<PermissionOption>,
    /// The option that was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Who decided: `rule`, `default`, `caller`, or `limit` where too many wait already.
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
    /// The task ended, or the agent went on, before anybody decided.
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
#[serde(untagged)]
pub enum ModelFact {
    /// What the agent says.
    Claimed { name: String },
    /// What hostd saw.
    Seen(ModelCall),
}

impl From<FileChange> for TaskFact {
    fn from(file: FileChange) -> Self {
        Self::File { file }
    }
}

impl TaskFact {
    /// The type as it stands in `type` and in the `event:` line of SSE.
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
