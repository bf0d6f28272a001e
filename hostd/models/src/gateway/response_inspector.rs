//! Reads a response while it is relayed: token usage, errors, and whether it is complete. Pure, and its
//! memory is bounded whatever a provider sends. `dialect` knows what the pieces mean.

#[cfg(test)]
mod tests;

use super::{
    dialect::{ApiRules, ModelApi, ResponseFacts},
    estimate_tokens::estimate_tokens,
    limits::JSON_BODY_MAX_BYTES,
    provider_error::ProviderError,
    sse_reader::{SseEvent, SseReader},
};
use crate::TokenUsage;

/// The format of a response body, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// Server-sent events.
    Events,
    /// A single JSON document.
    Json,
    /// A format that cannot be read.
    Unknown,
}

impl BodyFormat {
    pub fn of(content_type: &str) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Self::Events
        } else if kind.eq_ignore_ascii_case("application/json") {
            Self::Json
        } else {
            Self::Unknown
        }
    }
}

pub struct ResponseInspector {
    rules: &'static dyn ApiRules,
    parser: Parser,
    facts: ResponseFacts,
    /// Bytes of the body so far.
    bytes: u64,
    /// The response has ended, and some of it was not read.
    unread: bool,
}

enum Parser {
    Events(SseReader),
    /// A JSON document so far, read when it is whole.
    Json(Vec<u8>),
    /// The body is too long, or of an unknown format.
    Nothing,
}

impl ResponseInspector {
    pub fn new(api: ModelApi, format: BodyFormat) -> Self {
        let parser = match format {
            BodyFormat::Events => Parser::Events(SseReader::default()),
            BodyFormat::Json => Parser::Json(Vec::new()),
            BodyFormat::Unknown => Parser::Nothing,
        };
        Self { rules: api.rules(), parser, facts: ResponseFacts::default(), bytes: 0, unread: false }
    }

    /// Reads a piece of the body.
    pub fn read(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        match &mut self.parser {
            Parser::Events(events) => {
                let (rules, facts) = (self.rules, &mut self.facts);
                events.read(bytes, |event| read_event(rules, facts, &event));
            }
            Parser::Json(json) if json.len() + bytes.len() <= JSON_BODY_MAX_BYTES => {
                json.extend_from_slice(bytes);
            }
            Parser::Json(_) => self.parser = Parser::Nothing,
            Parser::Nothing => {}
        }
    }

    /// Reads what is left: the body has ended.
    pub fn finish(&mut self) {
        let (rules, facts) = (self.rules, &mut self.facts);
        match &mut self.parser {
            Parser::Events(events) => events.finish(|event| read_event(rules, facts, &event)),
            Parser::Json(json) => rules.read_json(facts, &std::mem::take(json)),
            Parser::Nothing => {}
        }
        // The part that was not read may have held the end, so such a response is not called truncated.
        self.unread = match &self.parser {
            Parser::Events(events) => events.skipped,
            Parser::Json(_) => false,
            Parser::Nothing => true,
        };
    }

    /// Whether the end of the response has come, as far as that can be known.
    pub fn is_complete(&self) -> bool {
        self.facts.complete || self.unread
    }

    /// Whether the model wrote text, or the provider reported usage.
    pub fn has_begun(&self) -> bool {
        self.facts.text_bytes > 0 || self.facts.counts.input.is_some()
    }

    pub fn error(&self) -> Option<&ProviderError> {
        self.facts.error.as_ref()
    }

    /// An estimate of the output tokens so far.
    pub fn output_tokens(&self) -> u64 {
        match self.parser {
            Parser::Events(_) => estimate_tokens(self.facts.text_bytes),
            Parser::Json(_) | Parser::Nothing => estimate_tokens(self.bytes),
        }
    }

    /// The tokens that were used: as the provider reported at the end, else an estimate.
    pub fn tokens(&self, estimated_input: u64) -> TokenUsage {
        let counts = self.facts.counts.clamped();
        let Some(input) = counts.input else {
            let output = self.output_tokens().max(counts.output.unwrap_or(0));
            return TokenUsage { input: estimated_input, output, estimated: true, ..TokenUsage::default() };
        };
        // A report before the end covers a part of the response only.
        let final_output = counts.output.filter(|_| self.facts.complete);
        TokenUsage {
            input,
            output: final_output.unwrap_or_else(|| self.output_tokens().max(counts.output.unwrap_or(0))),
            cache_read: counts.cache_read,
            cache_write: counts.cache_write,
            reasoning: counts.reasoning,
            estimated: final_output.is_none(),
        }
    }

    /// The line breaks that must precede another event.
    pub fn event_separator(&self) -> &'static str {
        match &self.parser {
            Parser::Events(events) => events.separator(),
            Parser::Json(_) | Parser::Nothing => "",
        }
    }
}

fn read_event(rules: &dyn ApiRules, facts: &mut ResponseFacts, event: &SseEvent<'_>) {
    rules.read_event(facts, event.data);
    if event.is_error && facts.error.is_none() {
        let message = String::from_utf8_lossy(event.data).into_owned();
        facts.record_error(Some(ProviderError { message, kind: String::new() }));
    }
}
