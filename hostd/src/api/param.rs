//! Query and header parameters: their constraints are defined once, for validation and for the document.

use super::limits as api;
use hostd_core::{limits, parse_duration_ms};
use protocol::{
    ExecId,
    api::{Label, SandboxId},
};
use serde_json::{Value, json};

/// A parameter: its name, description and constraints.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub kind: ParamKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// `true` or `1`, `false` or `0`.
    Flag,
    Number {
        least: u64,
        most: u64,
    },
    /// A duration, or 0.
    Wait {
        most_ms: u64,
    },
    OneOf(&'static [&'static str]),
    /// The id of a sandbox, token or link. A malformed one is not found rather than invalid.
    Id,
    /// The id that a page continues after.
    PageId,
    /// The name of an exec or a task.
    Name,
    Label,
    /// The value of an `Idempotency-Key` header.
    Key,
    /// Comma-separated kinds of events.
    Kinds,
    /// A path of a workspace: bytes, percent-encoded.
    Path,
    /// Permissions in octal.
    Mode,
    /// Any text of at most this many characters.
    Text {
        most_chars: usize,
    },
}

pub const ID_PATTERN: &str = "^[0-7][0-9a-hjkmnp-tv-zA-HJKMNP-TV-Z]{25}$";
pub const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
pub const LABEL_PATTERN: &str = "^[!-~]{1,128}$";
pub const MODE_PATTERN: &str = "^0?[0-7]{3}$";
/// Bytes of a path of a workspace.
pub const PATH_MAX_BYTES: usize = ::files::limits::PATH_MAX_BYTES;
/// The largest number accepted anywhere: the maximum of an SQLite integer.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

impl ParamKind {
    /// Event numbers and positions in output.
    pub const POSITION: Self = Self::Number { least: 0, most: NUMBER_MAX };
    pub const LIMIT: Self = Self::Number { least: 1, most: limits::PAGE_MAX as u64 };
    pub const WAIT: Self = Self::Wait { most_ms: api::WAIT_MAX_MS };

    /// Validates a value; the error says what it must be.
    pub fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Flag => flag(text).map(drop),
            Self::Number { least, most } => number(text, least, most).map(drop),
            Self::Wait { most_ms } => wait_ms(text, most_ms).map(drop),
            Self::OneOf(words) if words.contains(&text) => Ok(()),
            Self::OneOf(words) => Err(format!("must be {}", words.join(" or "))),
            Self::PageId => text.parse::<SandboxId>().map(drop).map_err(|error| error.to_string()),
            Self::Name => ExecId::parse(text).map(drop).map_err(|error| error.to_string()),
            Self::Label => Label::parse(text).map(drop).map_err(|error| error.to_string()),
            Self::Text { most_chars } if text.chars().count() > most_chars => {
                Err(format!("must be at most {most_chars} characters"))
            }
            Self::Kinds if text.split(',').count() > api::KINDS_MAX => {
                Err(format!("must be at most {} kinds", api::KINDS_MAX))
            }
            Self::Mode => mode(text).map(drop),
            // Its bytes are checked where they are read.
            Self::Path | Self::Id | Self::Key | Self::Kinds | Self::Text { .. } => Ok(()),
        }
    }

    pub fn schema(self) -> Value {
        match self {
            Self::Flag => {
                json!({"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 1}]})
            }
            Self::Number { least, most } => {
                json!({"type": "integer", "format": "int64", "minimum": least, "maximum": most})
            }
            Self::Wait { most_ms } => {
                json!({"type": "string", "pattern": format!("^(0s?|{})$", duration_pattern(most_ms))})
            }
            Self::OneOf(words) => json!({"type": "string", "enum": words}),
            Self::Id | Self::PageId => json!({"type": "string", "pattern": ID_PATTERN}),
            Self::Name => json!({"type": "string", "pattern": NAME_PATTERN}),
            Self::Label => json!({"type": "string", "pattern": LABEL_PATTERN}),
            Self::Key => json!({"type": "string", "pattern": format!("^[!-~]{{1,{}}}$", api::KEY_MAX_BYTES)}),
            Self::Kinds => {
                json!({"type": "string", "pattern": format!("^[^,]*(,[^,]*){{0,{}}}$", api::KINDS_MAX - 1)})
            }
            Self::Path => json!({"type": "string", "maxLength": PATH_MAX_BYTES}),
            Self::Mode => json!({"type": "string", "pattern": MODE_PATTERN}),
            Self::Text { most_chars } => json!({"type": "string", "maxLength": most_chars}),
        }
    }
}

pub fn flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" => Ok(true),
        "0" | "false" => Ok(false),
        _ => Err("must be true, false, 1 or 0".to_owned()),
    }
}

/// Permissions without set-id and sticky bits.
pub fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(text);
    let parsed =
        u32::from_str_radix(digits, 8).ok().filter(|_| digits.len() == 3 && !digits.starts_with('+'));
    parsed.ok_or_else(|| "must be three octal digits, as in 644 or 0755".to_owned())
}

pub fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| plain && (least..=most).contains(number));
    number.ok_or_else(|| format!("must be a whole number from {least} to {most}"))
}

pub fn wait_ms(text: &str, most_ms: u64) -> Result<u64, String> {
    let ms = match text {
        "0" | "0s" => 0,
        text => parse_duration_ms(text).map_err(|message| format!("{message}, or 0"))?,
    };
    if ms <= most_ms { Ok(ms) } else { Err(format!("must be at most {}s", most_ms / 1000)) }
}

/// A pattern for durations up to a maximum, as `core::duration` parses them.
pub fn duration_pattern(most_ms: u64) -> String {
    let units = [('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];
    let fits = units.into_iter().filter(|(_, unit_ms)| *unit_ms <= most_ms);
    let parts: Vec<String> =
        fits.map(|(unit, unit_ms)| format!("({}){unit}", up_to(most_ms / unit_ms))).collect();
    format!("({})", parts.join("|"))
}

/// A pattern for the whole numbers from 1 to `most`, without leading zeros.
fn up_to(most: u64) -> String {
    let digits = most.to_string();
    let mut parts = Vec::new();
    if digits.len() > 1 {
        parts.push(format!("[1-9][0-9]{{0,{}}}", digits.len() - 2));
    }
    for (at, digit) in digits.bytes().enumerate() {
        let (least, rest) = (if at == 0 { b'1' } else { b'0' }, digits.len() - at - 1);
        if digit > least {
            let last = char::from(digit - 1);
            let rest = if rest == 0 { String::new() } else { format!("[0-9]{{{rest}}}") };
            parts.push(format!("{}[{}-{last}]{rest}", &digits[..at], char::from(least)));
        }
    }
    parts.push(digits);
    parts.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_plain_and_within_its_bounds() {
        for (text, expected) in [("1", Some(1)), ("1000", Some(1000)), ("007", Some(7))] {
            assert_eq!(number(text, 1, 1000).ok(), expected, "{text}");
        }
        for invalid in ["", "0", "1001", "-1", "+1", "1.0", " 1", "18446744073709551616", "one"] {
            assert_eq!(
                number(invalid, 1, 1000),
                Err("must be a whole number from 1 to 1000".into()),
                "{invalid}"
            );
        }
    }

    #[test]
    fn a_flag_is_a_word_or_a_digit() {
        for (text, expected) in
            [("1", Some(true)), ("true", Some(true)), ("0", Some(false)), ("false", Some(false))]
        {
            assert_eq!(flag(text).ok(), expected);
        }
        for invalid in ["", "yes", "TRUE", "2"] {
            assert!(flag(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_pattern_matches_all_numbers_up_to_the_maximum() {
        let table = [
            (1, "1"),
            (5, "[1-4]|5"),
            (10, "[1-9][0-9]{0,0}|10"),
            (365, "[1-9][0-9]{0,1}|[1-2][0-9]{2}|3[0-5][0-9]{1}|36[0-4]|365"),
            (1800, "[1-9][0-9]{0,2}|1[0-7][0-9]{2}|1800"),
        ];
        for (most, expected) in table {
            assert_eq!(up_to(most), expected, "{most}");
        }
        assert_eq!(duration_pattern(600_000), "(([1-9][0-9]{0,1}|[1-5][0-9]{2}|600)s|([1-9][0-9]{0,0}|10)m)");
    }
}
