//! The events of one task: numbered from 1 without a hole; `done` is last, once, and carries the result.

use crate::{BuildOutcome, Checkpoint, Cursor, Encoding, FileChange, Stream, TaskPhase, TaskResult, Usage};
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
    Tool {
        id: String,
        name: String,
        status: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<serde_json::Value>,
    },
    File {
        #[serde(flatten)]
        file: FileChange,
    },
    Plan {
        entries: serde_json::Value,
    },
    Permission {
        detail: serde_json::Value,
    },
    Model {
        name: String,
    },
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
            Self::Tool { .. } => "tool",
            Self::File { .. } => "file",
            Self::Plan { .. } => "plan",
            Self::Permission { .. } => "permission",
            Self::Model { .. } => "model",
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
