//! Standard output: text for people, JSON for programs. No other module writes to it.

use crate::{
    failure::Failure,
    sanitize::{TerminalFilter, is_bidi_control},
};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};

/// Output format of a command.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    pub json: bool,
    pub colour: bool,
}

impl Output {
    pub fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { json, colour: wanted && !json && io::stdout().is_terminal() }
    }

    pub fn line(self, text: &str) -> Result<(), Failure> {
        self.text(&format!("{text}\n"))
    }

    /// Prints text, sanitized because parts of it may come from a sandbox.
    pub fn text(self, text: &str) -> Result<(), Failure> {
        self.bytes(TerminalFilter::whole(text).as_bytes())
    }

    /// Prints bytes unchanged; the caller sanitizes them where needed.
    pub fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Output)
    }

    /// Prints a JSON document of the API.
    pub fn document(self, body: &[u8]) -> Result<(), Failure> {
        let body = body.trim_ascii();
        let shown = if io::stdout().is_terminal() { escape_json(body) } else { body.to_vec() };
        self.bytes(&[&shown, b"\n".as_slice()].concat())
    }

    pub fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let body = serde_json::to_vec(value).map_err(|error| Failure::Output(error.into()))?;
        self.document(&body)
    }

    /// Prints a list in the format of the API, all pages in one.
    pub fn items(self, items: &[serde_json::Value]) -> Result<(), Failure> {
        self.json(&serde_json::json!({ "items": items }))
    }

    pub fn paint(self, colour: Colour, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", colour.code()) } else { text.to_owned() }
    }
}

/// Escapes control characters in JSON, so that it is safe on a terminal and parses to the same value.
pub fn escape_json(json: &[u8]) -> Vec<u8> {
    let mut shown = String::with_capacity(json.len());
    for c in String::from_utf8_lossy(json).chars() {
        if (c.is_control() && !c.is_ascii_whitespace()) || is_bidi_control(c) {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown.into_bytes()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

impl Colour {
    pub fn code(self) -> u8 {
        match self {
            Self::Bold => 1,
            Self::Dim => 2,
            Self::Red => 31,
            Self::Green => 32,
            Self::Yellow => 33,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_on_a_terminal_means_the_same_without_control_characters() {
        let value = serde_json::json!({"text": "\u{1b}[2J\u{9b}2J\u{7f}\u{202e}é\n漢"});
        let shown = escape_json(&serde_json::to_vec(&value).expect("JSON"));
        insta::assert_snapshot!(String::from_utf8_lossy(&shown), @r#"{"text":"\u001b[2J\u009b2J\u007f\u202eé\n漢"}"#);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&shown).expect("JSON"), value);
    }
}
