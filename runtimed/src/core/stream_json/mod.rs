//! Agents that print what happens as lines of JSON. Pure: a line in, what it says out. A line is read value by
//! value and not as a whole, so that a field that nobody foresaw costs that field and not the line; a line that
//! nobody knows is told as it is.

mod claude;
mod claude_tool;
mod codex;
mod conversation;
#[cfg(test)]
mod tests;

pub use conversation::{Conversation, Decoded};
use protocol::{StreamDialect, TaskFact};
use serde_json::Value;

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub enum LineEvent {
    /// More of a message, and of a thought.
    Text(String),
    Thought(String),
    /// The line of it ends here, though the message may go on.
    Pause,
    /// The message ends here.
    End,
    Fact(TaskFact),
    /// A word of the program itself.
    Note(String),
    /// The name of the conversation.
    Session(String),
    /// How it went, in its own opinion. The last one counts.
    Claim {
        good: bool,
        message: Option<String>,
    },
    /// Nothing that anybody knows.
    Raw,
}

/// Reads the lines of one run.
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

    /// What a line says, given without its end.
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
