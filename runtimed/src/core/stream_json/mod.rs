//! Agents that print their progress as lines of JSON. Pure: a line in, events out. A line is read field by
//! field and not as a whole, so that an unexpected field costs that field and not the line; a line of an
//! unknown type is passed on as it is.

mod claude;
mod claude_tool;
mod codex;
mod conversation;
#[cfg(test)]
mod tests;

pub use conversation::{Conversation, Decoded};
use protocol::{StreamDialect, TaskFact};
use serde_json::Value;

/// One event decoded from a line.
#[derive(Debug, Clone, PartialEq)]
pub enum LineEvent {
    /// Increments of a message and of a thought.
    Text(String),
    Thought(String),
    /// End of a text line; the message may continue.
    Pause,
    /// End of the message.
    End,
    Fact(TaskFact),
    /// A message of the program itself.
    Note(String),
    /// Id of the session.
    Session(String),
    /// The claimed outcome. The last one counts.
    Claim {
        good: bool,
        message: Option<String>,
    },
    /// A line of an unknown type.
    Raw,
}

/// Decodes the lines of one run.
#[derive(Debug)]
pub enum Reader {
    Claude(Box<claude::Reader>),
    Codex(codex::Reader),
}

impl Reader {
    pub fn new(dialect: StreamDialect) -> Self {
        match dialect {
            StreamDialect::Claude => Self::Claude(Box::default()),
            StreamDialect::Codex => Self::Codex(codex::Reader),
        }
    }

    /// Decodes a line, given without its line feed.
    pub fn line(&mut self, line: &[u8]) -> Vec<LineEvent> {
        if line.trim_ascii().is_empty() {
            return Vec::new();
        }
        let Ok(value @ Value::Object(_)) = serde_json::from_slice(line) else { return vec![LineEvent::Raw] };
        match self {
            Self::Claude(reader) => reader.line(&value),
            Self::Codex(reader) => reader.line(&value),
        }
        .unwrap_or_else(|| vec![LineEvent::Raw])
    }
}
