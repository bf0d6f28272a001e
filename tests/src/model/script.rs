//! The script of the model: turns, selected by the length of the conversation, so that a repeated call gets
//! the same response.

use protocol::Usage;
use std::time::Duration;

/// The responses to one prompt, in order; calls beyond the last repeat it.
#[derive(Debug, Clone, Default)]
pub struct Script {
    pub turns: Vec<Turn>,
}

/// A response, and the faults before it.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Each spoils one try of this turn.
    pub faults: Vec<Fault>,
    /// Spoils every further try.
    pub always: Option<Fault>,
    pub parts: Vec<Part>,
    /// The usage to report; estimated from the length if absent.
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone)]
pub enum Part {
    /// Text, in so many deltas.
    Say {
        text: String,
        deltas: usize,
    },
    Think(String),
    Call(Intent),
}

/// The action of a tool, whatever its name in an agent.
#[derive(Debug, Clone)]
pub enum Intent {
    WriteFile { path: String, content: String },
    EditFile { path: String, old: String, new: String },
    ReadFile { path: String },
    Shell { command: String },
}

/// A fault of the provider.
#[derive(Debug, Clone)]
pub enum Fault {
    Status {
        code: u16,
        message: String,
        retry_after_s: Option<u64>,
    },
    /// The key that was sent stands in the error.
    EchoKey {
        code: u16,
    },
    /// Nothing ever comes, not even a head.
    Hang,
    /// The stream begins, and nothing comes after so many frames.
    Stall {
        after: usize,
    },
    /// The connection ends after so many frames.
    Cut {
        after: usize,
    },
    /// The right answer, a frame at a time.
    Slow {
        every: Duration,
    },
    /// Bytes that are neither JSON nor events.
    Garbage,
    /// The right answer, with a header of so many bytes.
    HugeHeader {
        bytes: usize,
    },
    Redirect {
        location: String,
    },
}

impl Script {
    pub fn new(turns: impl Into<Vec<Turn>>) -> Self {
        Self { turns: turns.into() }
    }

    /// The answer after so many answers.
    pub fn turn(&self, answers: usize) -> Turn {
        self.turns.get(answers).or(self.turns.last()).cloned().unwrap_or_else(|| Turn::say("done"))
    }
}

impl Turn {
    pub fn say(text: &str) -> Self {
        Self::default().and_say(text)
    }

    pub fn think(text: &str) -> Self {
        Self { parts: vec![Part::Think(text.to_owned())], ..Self::default() }
    }

    pub fn call(intent: Intent) -> Self {
        Self::default().and_call(intent)
    }

    pub fn write(path: &str, content: &str) -> Self {
        Self::call(Intent::WriteFile { path: path.to_owned(), content: content.to_owned() })
    }

    pub fn edit(path: &str, old: &str, new: &str) -> Self {
        Self::call(Intent::EditFile { path: path.to_owned(), old: old.to_owned(), new: new.to_owned() })
    }

    pub fn read(path: &str) -> Self {
        Self::call(Intent::ReadFile { path: path.to_owned() })
    }

    pub fn shell(command: &str) -> Self {
        Self::call(Intent::Shell { command: command.to_owned() })
    }

    /// As a turn that only fails.
    pub fn always(fault: Fault) -> Self {
        Self { always: Some(fault), ..Self::default() }
    }

    pub fn and_say(mut self, text: &str) -> Self {
        let deltas = text.split_inclusive(' ').count().max(1);
        self.parts.push(Part::Say { text: text.to_owned(), deltas });
        self
    }

    pub fn and_call(mut self, intent: Intent) -> Self {
        self.parts.push(Part::Call(intent));
        self
    }

    pub fn after(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The fault of this attempt, counted from 0.
    pub fn fault(&self, attempt: usize) -> Option<&Fault> {
        self.faults.get(attempt).or(self.always.as_ref())
    }
}

impl Fault {
    pub fn status(code: u16, message: &str) -> Self {
        Self::Status { code, message: message.to_owned(), retry_after_s: None }
    }

    pub fn busy(retry_after_s: u64) -> Self {
        Self::Status {
            code: 429,
            message: "too many requests".to_owned(),
            retry_after_s: Some(retry_after_s),
        }
    }
}
