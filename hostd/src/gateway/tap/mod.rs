//! Reads what an answer says about itself while it is passed on: what was used, errors, and whether it came to
//! its end. Pure, and bounded whatever a provider sends. One file per kind of call.

mod chat;
mod events;
mod generate;
mod messages;
mod responses;
mod seen;
#[cfg(test)]
mod tests;

pub use seen::Trouble;

use super::{limits::WHOLE_MAX_BYTES, reckon::reckoned_tokens};
use crate::models::{ModelApi, TokenUsage};
use events::Events;
use seen::Seen;

/// How an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Server-sent events.
    Events,
    /// JSON in one piece.
    Whole,
    /// Something that cannot be read.
    Other,
}

impl Form {
    pub fn of(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if kind.eq_ignore_ascii_case("application/json") {
            Self::Whole
        } else {
            Self::Other
        }
    }
}

pub struct Tap {
    speech: ModelApi,
    reading: Reading,
    seen: Seen,
    /// All that was passed on.
    bytes: u64,
    /// Nothing more comes, and not all was read.
    unread: bool,
}

enum Reading {
    Events(Events),
    Whole(Vec<u8>),
    /// It is too long, or of a kind we do not know.
    Nothing,
}

impl Tap {
    pub fn new(speech: ModelApi, form: Form) -> Self {
        let reading = match form {
            Form::Events => Reading::Events(Events::default()),
            Form::Whole => Reading::Whole(Vec::new()),
            Form::Other => Reading::Nothing,
        };
        Self { speech, reading, seen: Seen::default(), bytes: 0, unread: false }
    }

    /// So much is passed on.
    pub fn read(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        match &mut self.reading {
            Reading::Events(events) => {
                let (speech, seen) = (self.speech, &mut self.seen);
                events.read(bytes, |event| event_of(speech, seen, &event));
            }
            Reading::Whole(whole) if whole.len() + bytes.len() <= WHOLE_MAX_BYTES => {
                whole.extend_from_slice(bytes);
            }
            Reading::Whole(_) => self.reading = Reading::Nothing,
            Reading::Nothing => {}
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        let (speech, seen) = (self.speech, &mut self.seen);
        match &mut self.reading {
            Reading::Events(events) => events.finish(|event| event_of(speech, seen, &event)),
            Reading::Whole(whole) => {
                let whole = std::mem::take(whole);
                match speech {
                    ModelApi::Messages => messages::whole(seen, &whole),
                    ModelApi::Chat => chat::whole(seen, &whole),
                    ModelApi::Responses => responses::whole(seen, &whole),
                    ModelApi::Generate => generate::whole(seen, &whole),
                }
            }
            Reading::Nothing => {}
        }
        // What was not read may have been the end: it is not known to be cut.
        self.unread = match &self.reading {
            Reading::Events(events) => events.left_out,
            Reading::Whole(_) => false,
            Reading::Nothing => true,
        };
    }

    /// It said what is said at the end of one.
    pub fn is_complete(&self) -> bool {
        self.seen.complete || self.unread
    }

    /// The model said something, or the provider what it used.
    pub fn has_begun(&self) -> bool {
        self.seen.said_bytes > 0 || self.seen.counts.input.is_some()
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        self.seen.trouble.as_ref()
    }

    /// What was answered so far, reckoned.
    pub fn output_tokens(&self) -> u64 {
        match self.reading {
            Reading::Events(_) => reckoned_tokens(self.seen.said_bytes),
            Reading::Whole(_) | Reading::Nothing => reckoned_tokens(self.bytes),
        }
    }

    /// What was used, as far as one knows: told at the end, else reckoned.
    pub fn tokens(&self, input_reckoned: u64) -> TokenUsage {
        let told = self.seen.counts.bounded();
        let Some(input) = told.input else {
            let output = self.output_tokens().max(told.output.unwrap_or(0));
            return TokenUsage { input: input_reckoned, output, estimated: true, ..TokenUsage::default() };
        };
        // What is told before the end is told of a part.
        let told_all = told.output.filter(|_| self.seen.complete);
        TokenUsage {
            input,
            output: told_all.unwrap_or_else(|| self.output_tokens().max(told.output.unwrap_or(0))),
            cache_read: told.cache_read,
            cache_write: told.cache_write,
            reasoning: told.reasoning,
            estimated: told_all.is_none(),
        }
    }

    /// What must be said before another event can be.
    pub fn gap(&self) -> &'static str {
        match &self.reading {
            Reading::Events(events) => events.gap(),
            Reading::Whole(_) | Reading::Nothing => "",
        }
    }
}

fn event_of(speech: ModelApi, seen: &mut Seen, event: &events::Event<'_>) {
    match speech {
        ModelApi::Messages => messages::event(seen, event.data),
        ModelApi::Chat => chat::event(seen, event.data),
        ModelApi::Responses => responses::event(seen, event.data),
        ModelApi::Generate => generate::event(seen, event.data),
    }
    if event.is_error && seen.trouble.is_none() {
        let words = String::from_utf8_lossy(event.data).into_owned();
        seen.trouble(Some((words, String::new())));
    }
}
