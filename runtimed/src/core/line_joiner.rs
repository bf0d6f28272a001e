//! Joins an agent's text, which arrives a few characters at a time, into lines. A line is emitted when it
//! ends, and in pieces when it takes long. No character is lost, repeated or moved.
//!
//! ```text
//! push("Hel") push("lo\nwor") tick(100 ms) push("ld") flush
//!                │               │                     │
//!                Hello           wor…                  ld
//! ```

use crate::limits::{FINAL_MESSAGE_MAX_BYTES, TASK_LINE_MAX_BYTES};
use protocol::{Encoding, TaskFact, Text};

/// How long, and up to which length, the beginning of a line is held back.
const PIECE_AFTER_MS: u64 = 100;
const PIECE_BYTES: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Message,
    Thought,
}

#[derive(Debug)]
pub struct LineJoiner {
    /// Kind of the open line.
    kind: TextKind,
    /// Text of the open line that was not emitted yet.
    open: String,
    /// A piece of this line was emitted already.
    begun: bool,
    /// When the oldest text of `open` arrived.
    since_ms: u64,
    last_message: LastMessage,
}

impl Default for LineJoiner {
    fn default() -> Self {
        Self::new()
    }
}

impl LineJoiner {
    pub fn new() -> Self {
        Self {
            kind: TextKind::Message,
            open: String::new(),
            begun: false,
            since_ms: 0,
            last_message: LastMessage::default(),
        }
    }

    /// Takes more text. Another kind of text ends the open line.
    pub fn push(&mut self, kind: TextKind, text: &str, now_ms: u64) -> Vec<TaskFact> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut facts = Vec::new();
        if kind != self.kind {
            self.end_line(&mut facts);
            self.kind = kind;
        }
        if kind == TextKind::Message {
            self.last_message.add(text);
        }
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(rest) => {
                    self.add(rest, now_ms, &mut facts);
                    self.emit(false, &mut facts);
                }
                None => {
                    self.add(piece, now_ms, &mut facts);
                    if self.open.len() >= PIECE_BYTES {
                        self.emit(true, &mut facts);
                    }
                }
            }
        }
        facts
    }

    /// Emits text that was held back long enough.
    pub fn tick(&mut self, now_ms: u64) -> Vec<TaskFact> {
        let mut facts = Vec::new();
        if self.next_wake().is_some_and(|at| at <= now_ms) {
            self.emit(true, &mut facts);
        }
        facts
    }

    pub fn next_wake(&self) -> Option<u64> {
        (!self.open.is_empty()).then(|| self.since_ms.saturating_add(PIECE_AFTER_MS))
    }

    /// Ends the line; the message may continue in another.
    pub fn pause(&mut self) -> Vec<TaskFact> {
        let mut facts = Vec::new();
        self.end_line(&mut facts);
        facts
    }

    /// Ends the line and the message.
    pub fn flush(&mut self) -> Vec<TaskFact> {
        let mut facts = Vec::new();
        self.end_line(&mut facts);
        self.last_message.ended = true;
        facts
    }

    /// The end of the last message that is not blank.
    pub fn final_message(&self) -> Option<String> {
        self.last_message.get()
    }

    fn end_line(&mut self, facts: &mut Vec<TaskFact>) {
        if self.open.is_empty() && !self.begun {
            return;
        }
        if self.kind == TextKind::Message {
            self.last_message.add("\n");
        }
        // May be empty: the event still marks the end of the line.
        self.emit(false, facts);
    }

    /// Adds to the open line, and emits a piece where it reaches the limit of an event.
    fn add(&mut self, text: &str, now_ms: u64, facts: &mut Vec<TaskFact>) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.open.is_empty() {
                self.since_ms = now_ms;
            }
            let fits = rest.floor_char_boundary(TASK_LINE_MAX_BYTES - self.open.len());
            self.open.push_str(&rest[..fits]);
            rest = &rest[fits..];
            if !rest.is_empty() {
                self.emit(true, facts);
            }
        }
    }

    fn emit(&mut self, partial: bool, facts: &mut Vec<TaskFact>) {
        let text = Text { text: std::mem::take(&mut self.open), encoding: Encoding::Utf8, partial };
        self.begun = partial;
        facts.push(match self.kind {
            TextKind::Message => TaskFact::Message(text),
            TextKind::Thought => TaskFact::Thought(text),
        });
    }
}

/// The end of the current message, and of the one before as long as the current one is blank.
#[derive(Debug, Default)]
struct LastMessage {
    text: String,
    before: String,
    ended: bool,
}

impl LastMessage {
    fn add(&mut self, text: &str) {
        if std::mem::take(&mut self.ended) {
            let ended = std::mem::take(&mut self.text);
            if !ended.trim().is_empty() {
                self.before = ended;
            }
        }
        self.text.push_str(text);
        if self.text.len() > 2 * FINAL_MESSAGE_MAX_BYTES {
            self.text = last_bytes(&self.text).to_owned();
        }
    }

    fn get(&self) -> Option<String> {
        let said = [&self.text, &self.before].map(|text| last_bytes(text.trim()));
        said.into_iter().find(|text| !text.is_empty()).map(str::to_owned)
    }
}

/// The end of a text, which is the part that is kept.
fn last_bytes(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(FINAL_MESSAGE_MAX_BYTES))..]
}

#[cfg(test)]
mod tests;
