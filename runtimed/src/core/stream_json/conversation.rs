//! One run of an agent that prints lines of JSON: what of it is told, and what it came to.

use super::{Reader, Said};
use crate::core::read::short;
use crate::core::voice::{Joiner, Voice};
use protocol::{Stream, StreamDialect, TaskFact, Text};

#[derive(Debug)]
pub struct Conversation {
    reader: Reader,
    joiner: Joiner,
    session: Option<String>,
    /// Whether it went well, and what it said of that.
    claim: Option<(bool, Option<String>)>,
}

/// What a line comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    Fact(TaskFact),
    /// The line itself is to be told.
    Raw,
}

impl Conversation {
    pub fn new(dialect: StreamDialect) -> Self {
        Self { reader: Reader::new(dialect), joiner: Joiner::new(), session: None, claim: None }
    }

    pub fn line(&mut self, line: &[u8], now_ms: u64) -> Vec<Heard> {
        let mut heard = Vec::new();
        for said in self.reader.line(line) {
            let facts = match said {
                Said::Text(text) => self.joiner.say(Voice::Message, &text, now_ms),
                Said::Thought(text) => self.joiner.say(Voice::Thought, &text, now_ms),
                Said::Pause => self.joiner.pause(),
                Said::End => self.joiner.flush(),
                Said::Fact(fact) => {
                    let mut facts = self.joiner.flush();
                    facts.push(fact);
                    facts
                }
                // Beside what the agent says: its line goes on.
                Said::Note(text) => vec![note(text)],
                Said::Session(session) => {
                    self.session = Some(short(&session));
                    Vec::new()
                }
                Said::Claim { good, message } => {
                    self.claim = Some((good, message));
                    self.joiner.flush()
                }
                Said::Raw => {
                    heard.push(Heard::Raw);
                    Vec::new()
                }
            };
            heard.extend(facts.into_iter().map(Heard::Fact));
        }
        heard
    }

    pub fn tick(&mut self, now_ms: u64) -> Vec<TaskFact> {
        self.joiner.tick(now_ms)
    }

    pub fn next_wake(&self) -> Option<u64> {
        self.joiner.next_wake()
    }

    /// Nothing more comes.
    pub fn finish(&mut self) -> Vec<TaskFact> {
        self.joiner.flush()
    }

    /// Whether the agent says that it went well; nothing where it did not say.
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

fn note(text: String) -> TaskFact {
    TaskFact::Log { stream: Stream::Stdout, text: Text { text, ..Text::default() }, lost_events: None }
}
