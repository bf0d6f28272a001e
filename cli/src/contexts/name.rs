//! The name of a context. It is also the beginning of a file name and a word of a shell, so it is plain.

use crate::limits::CONTEXT_NAME_MAX_BYTES;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The reserved name of the hostd of this machine, by its socket.
pub const LOCAL: &str = "local";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContextName(String);

impl ContextName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ContextName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let begins_plain = text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
        if text == LOCAL {
            return Err(format!("{LOCAL} is reserved: it is the hostd of this machine"));
        }
        if !begins_plain || text.len() > CONTEXT_NAME_MAX_BYTES || !text.bytes().all(plain) {
            return Err(format!(
                "must be 1 to {CONTEXT_NAME_MAX_BYTES} letters, digits, dots, dashes or underscores, and begin with a letter or digit"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ContextName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for ContextName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContextName> for String {
    fn from(name: ContextName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_word() {
        for good in ["prod", "a", "build-1.example_com", "9", &"x".repeat(64)] {
            assert!(good.parse::<ContextName>().is_ok(), "{good}");
        }
        for bad in ["", "local", ".prod", "-prod", "a/b", "../x", "a b", "é", "a\n", &"x".repeat(65)] {
            assert!(bad.parse::<ContextName>().is_err(), "{bad}");
        }
    }
}
