//! A request, as far as a script has to know it, the same for all dialects.

use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub struct Conversation {
    pub model: String,
    pub items: Vec<Item>,
    pub offers: Vec<Offer>,
    /// The answer must be JSON.
    pub wants_json: bool,
}

/// An item of the conversation so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    User(String),
    Assistant,
    /// The result of a tool call.
    Result(String),
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub name: String,
    pub takes: ParameterShape,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ParameterShape {
    /// An object of this JSON schema.
    Object(Value),
    /// Text.
    Text,
}

impl Conversation {
    /// Answers since whatever was said last that has the mark. Pieces of one answer in a row are one answer.
    pub fn answers_since(&self, mark: &str) -> usize {
        let marked = |item: &Item| matches!(item, Item::User(text) if text.contains(mark));
        let from = self.items.iter().rposition(marked).map_or(0, |at| if mark.is_empty() { 0 } else { at });
        let mut answers = 0;
        let mut before = None;
        for item in &self.items[from..] {
            if *item == Item::Assistant && before != Some(&Item::Assistant) {
                answers += 1;
            }
            before = Some(item);
        }
        answers
    }

    /// Where a mark was said last.
    pub fn last_said(&self, mark: &str) -> Option<usize> {
        self.items.iter().rposition(|item| matches!(item, Item::User(text) if text.contains(mark)))
    }
}

/// Returns a user message. Some agents add notices in the user's name in the middle of a turn; those are
/// skipped.
pub fn user(text: &str) -> Option<Item> {
    let own = match (text.find("<info-msg>"), text.find("</info-msg>")) {
        (Some(from), Some(to)) if from < to => [&text[..from], &text[to + "</info-msg>".len()..]].concat(),
        _ => text.to_owned(),
    };
    (!own.trim().is_empty()).then_some(Item::User(own))
}

/// The text in what may be a text, a list of parts with texts, or something else.
pub fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub fn name_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
