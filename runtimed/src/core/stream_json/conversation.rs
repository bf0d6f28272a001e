//! One run of an agent that prints lines of JSON: decoded facts, the session and the claimed outcome.

use super::{LineEvent, Reader};
use crate::core::json_fields::short;
use crate::core::line_joiner::{LineJoiner, TextKind};
use protocol::{Stream, StreamDialect, TaskFact, Text};

#[derive(Debug)]
pub struct Conversation {
    reader: Reader,
    joiner: LineJoiner,
    session: Option<String>,
    /// Whether the run succeeded, and the message, as the agent claims.
    claim: Option<(bool, Option<String>)>,
}

/// The result of decoding a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    Fact(TaskFact),
    /// The line is of no known type.
    Raw,
}

impl Conversation {
    pub fn new(dialect: StreamDialect) -> Self {
        Self { reader: Reader::new(dialect), joiner: LineJoiner::new(), session: None, claim: None }
    }

    pub fn line(&mut self, line: &[u8], now_ms: u64) -> Vec<Decoded> {
        let mut decoded = Vec::new();
        for events in self.reader.line(line) {
            let facts = match events {
                LineEvent::Text(text) => self.joiner.push(TextKind::Message, &text, now_ms),
                LineEvent::Thought(text) => self.joiner.push(TextKind::Thought, &text, now_ms),
                LineEvent::Pause => self.joiner.pause(),
                LineEvent::End => self.joiner.flush(),
                LineEvent::Fact(fact) => {
                    let mut facts = self.joiner.flush();
                    facts.push(fact);
                    facts
                }
                // Notes interleave with the agent's open line of text.
                LineEvent::Note(text) => vec![log_fact(text)],
                LineEvent::Session(session) => {
                    self.session = Some(short(&session));
                    Vec::new()
                }
                LineEvent::Claim { good, message } => {
                    self.claim = Some((good, message));
                    self.joiner.flush()
                }
                LineEvent::Raw => {
                    decoded.push(Decoded::Raw);
                    Vec::new()
                }
            };
            decoded.extend(facts.into_iter().map(Decoded::Fact));
        }
        decoded
    }

    pub fn tick(&mut self, now_ms: u64) -> Vec<TaskFact> {
        self.joiner.tick(now_ms)
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.joiner.next_wake()
    }

    /// Ends the open line of text.
    pub fn finish(&mut self) -> Vec<TaskFact> {
        self.joiner.flush()
    }

    /// Whether the agent claims success; `None` where it did not say.
    pub fn claim(&self) -> Option<(bool, Option<&str>)> {
        self.claim.as_ref().map(|(good, message)| (*good, message.as_deref()))
    }

    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    pub fn final_message(&self) -> Option<String> {
        self.joiner.final_message()
    }
}

fn log_fact(text: String) -> TaskFact {
    TaskFact::Log { stream: Stream::Stdout, text: Text { text, ..Text::default() }, lost_events: None }
}
