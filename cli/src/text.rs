//! Words and text as people may see them.

use serde::Serialize;

/// The name that a value of one of our enums has on the wire.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// Text from inside a sandbox without what could steer a terminal.
pub fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\t').collect()
}
