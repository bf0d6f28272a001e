//! What goes to standard output: lines for people, JSON for programs. Nothing else writes there.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};

/// How to print.
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
        self.bytes(format!("{text}\n").as_bytes())
    }

    pub fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::Output)
    }

    /// One JSON document, as the API gave it.
    pub fn document(self, body: &[u8]) -> Result<(), Failure> {
        let mut line = body.trim_ascii().to_vec();
        line.push(b'\n');
        self.bytes(&line)
    }

    pub fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let body = serde_json::to_vec(value).map_err(|error| Failure::Output(error.into()))?;
        self.document(&body)
    }

    /// A list as the API gives one, all pages in one.
    pub fn items(self, items: &[serde_json::Value]) -> Result<(), Failure> {
        self.json(&serde_json::json!({ "items": items }))
    }

    pub fn paint(self, colour: Colour, text: &str) -> String {
        if self.colour { format!("\x1b[{}m{text}\x1b[0m", colour.code()) } else { text.to_owned() }
    }
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
