//! An answer before it is put into a dialect.

use super::conversation::Conversation;
use super::script::{Part, Turn};
use super::tools;
use protocol::Usage;
use serde_json::Value;

/// Tokens of everything that is said without a script.
const SMALL: u64 = 7;

#[derive(Debug, Clone)]
pub struct Completion {
    /// Makes ids differ from those of other answers.
    pub number: u64,
    pub model: String,
    pub said: Vec<Content>,
    pub usage: Usage,
}

#[derive(Debug, Clone)]
pub enum Content {
    Text(Vec<String>),
    Thought(String),
    Call { id: String, name: String, input: Input },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Object(Value),
    Text(String),
}

impl Input {
    pub fn text(&self) -> String {
        match self {
            Self::Object(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Completion {
    pub fn of(turn: &Turn, asked: &Conversation, number: u64) -> Self {
        let mut said = Vec::new();
        for (at, part) in turn.parts.iter().enumerate() {
            said.push(match part {
                Part::Say { text, deltas } => Content::Text(pieces(text, *deltas)),
                Part::Think(text) => Content::Thought(text.clone()),
                Part::Call(intent) => match tools::call(intent, &asked.offers) {
                    Some((name, input)) => Content::Call { id: format!("call_{number}_{at}"), name, input },
                    None => Content::Text(vec![format!("no tool for {intent:?}")]),
                },
            });
        }
        let usage = turn.usage.unwrap_or_else(|| reckoned(&said, asked));
        Self { number, model: asked.model.clone(), said, usage }
    }

    /// For calls that offer no tools: titles and the like.
    pub fn small(asked: &Conversation, number: u64) -> Self {
        let text = if asked.wants_json { r#"{"title":"A small job"}"# } else { "A small job" };
        let usage = Usage { input_tokens: SMALL, output_tokens: SMALL, ..Usage::default() };
        let said = vec![Content::Text(vec![text.to_owned()])];
        Self { number, model: asked.model.clone(), said, usage }
    }

    pub fn calls(&self) -> bool {
        self.said.iter().any(|said| matches!(said, Content::Call { .. }))
    }
}

fn reckoned(said: &[Content], asked: &Conversation) -> Usage {
    let output = said.iter().map(|said| match said {
        Content::Text(pieces) => pieces.len() as u64,
        Content::Thought(_) => 3,
        Content::Call { .. } => 11,
    });
    let thoughts = said.iter().filter(|said| matches!(said, Content::Thought(_))).count() as u64;
    Usage {
        input_tokens: 100 + 10 * asked.items.len() as u64,
        output_tokens: output.sum::<u64>().max(1),
        reasoning_tokens: 3 * thoughts,
        ..Usage::default()
    }
}

/// The text in about so many pieces, cut between words.
fn pieces(text: &str, count: usize) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let each = words.len().div_ceil(count.max(1)).max(1);
    words.chunks(each).map(<[&str]>::concat).collect()
}

/// Formats an event of a stream.
pub fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// The same for dialects whose events have no names.
pub fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}
