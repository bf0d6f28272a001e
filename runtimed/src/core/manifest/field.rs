//! A value of the document with its path, read as the expected type. Decides nothing about services: reports
//! what the value is, or what it must be instead.

use super::error::Invalid;
use super::syntax::{duration_ms, nearest, segment};
use super::yaml_node::{Kind, Node};

pub(super) struct Field<'a> {
    source: &'a str,
    path: String,
    node: &'a Node,
}

impl<'a> Field<'a> {
    pub fn root(source: &'a str, node: &'a Node) -> Self {
        Self { source, path: String::new(), node }
    }

    pub fn refuse(&self, message: impl Into<String>) -> Invalid {
        Invalid::new(&self.path, message)
    }

    /// Rejects a missing key of this map.
    pub fn refuse_inside(&self, key: &str, message: impl Into<String>) -> Invalid {
        Invalid::new(self.path_of(key), message)
    }

    /// `key:` with an empty value counts as a missing key.
    pub fn is_null(&self) -> bool {
        matches!(self.node.kind, Kind::Null)
    }

    pub fn is_text(&self) -> bool {
        matches!(self.node.kind, Kind::Text(_))
    }

    pub fn is_list(&self) -> bool {
        matches!(self.node.kind, Kind::List(_))
    }

    /// The text of a string, or of a number or flag as it is written.
    pub fn text(&self) -> Result<String, Invalid> {
        let refusal = if self.is_null() {
            "must have a value; empty text is \"\""
        } else {
            "must be text, a number, true or false"
        };
        self.node.scalar(self.source).ok_or_else(|| self.refuse(refusal))
    }

    pub fn flag(&self) -> Result<bool, Invalid> {
        match self.node.kind {
            Kind::Bool(value) => Ok(value),
            Kind::Null | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => {
                Err(self.refuse("must be true or false"))
            }
        }
    }

    pub fn port(&self) -> Result<u16, Invalid> {
        let number = self.number().and_then(|number| u16::try_from(number).ok()).filter(|port| *port != 0);
        number.ok_or_else(|| self.refuse("must be a number from 1 to 65535, without quotes"))
    }

    pub fn duration_ms(&self) -> Result<u64, Invalid> {
        let seconds = self.number().and_then(|seconds| seconds.checked_mul(1_000));
        let time = match &self.node.kind {
            Kind::Text(text) => duration_ms(text),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => None,
        };
        let refusal = "must be a time such as 500ms, 10s or 2m, or a number of seconds";
        seconds.or(time).ok_or_else(|| self.refuse(refusal))
    }

    pub fn number(&self) -> Option<u64> {
        match self.node.kind {
            Kind::Number(value) => value,
            Kind::Null | Kind::Bool(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The items of a list. `what` names the items in the error message.
    pub fn list(&self, what: &str) -> Result<Vec<Field<'a>>, Invalid> {
        let Kind::List(items) = &self.node.kind else {
            return Err(self.refuse(format!("must be a list of {what}")));
        };
        let field =
            |(index, node)| Self { source: self.source, path: format!("{}[{index}]", self.path), node };
        Ok(items.iter().enumerate().map(field).collect())
    }

    /// The entries of a map in their order. `what` names the entries in the error message.
    pub fn map(&self, what: &str) -> Result<Vec<(&'a str, Field<'a>)>, Invalid> {
        let Kind::Map(entries) = &self.node.kind else {
            return Err(self.refuse(format!("must be a map {what}")));
        };
        let fields = entries.iter().map(|entry| {
            let path = self.path_of(&entry.key);
            (entry.key.as_str(), Self { source: self.source, path, node: &entry.value })
        });
        Ok(fields.collect())
    }

    /// The error for an unknown key, with the nearest known one.
    pub fn unknown(&self, key: &str, known: &[&str]) -> Invalid {
        match nearest(key, known) {
            Some(meant) => self.refuse(format!("no such key; did you mean {meant}?")),
            None => self.refuse(format!("no such key; there are {}", known.join(", "))),
        }
    }

    fn path_of(&self, key: &str) -> String {
        let key = segment(key);
        if self.path.is_empty() { key.into_owned() } else { format!("{}.{key}", self.path) }
    }
}
