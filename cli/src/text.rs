//! Words and text as people may see them.

use crate::sanitize::{LineSanitizer, one_line};
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Characters of one column that are kept: letters with accents and joined emoji have several.
const CHARS_PER_COLUMN: usize = 8;

/// The name that a value of one of our enums has on the wire.
pub fn wire_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// Text from inside a sandbox in one line, without what could steer a terminal.
pub fn plain(text: &str) -> String {
    LineSanitizer::default().push(text).trim_end_matches('\n').replace(['\n', '\t'], " ")
}

/// Columns of a terminal that a text takes.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Text from inside a sandbox in one line of at most so many columns; what is cut off is said by `…`.
pub fn truncate(text: &str, most_columns: usize) -> String {
    let line = one_line(text, most_columns.saturating_mul(CHARS_PER_COLUMN));
    if line.width() <= most_columns {
        return line;
    }
    let room = most_columns.saturating_sub(1);
    let mut shown = String::new();
    for cluster in line.graphemes(true) {
        if shown.width() + cluster.width() > room {
            break;
        }
        shown.push_str(cluster);
    }
    shown + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_as_wide_as_a_terminal_shows_it() {
        let table = [
            ("web", 3),
            ("né", 2),
            ("ne\u{301}", 2),
            ("漢字", 4),
            ("👩\u{200d}👩\u{200d}👧", 2),
            ("ﾊﾝ", 2),
            ("", 0),
        ];
        for (text, expected) in table {
            assert_eq!(columns(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_wide_is_cut_between_characters() {
        let table = [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcde…"),
            ("漢字漢字", 8, "漢字漢字"),
            ("漢字漢字", 7, "漢字漢…"),
            // A wide one that does not fit whole is left out.
            ("漢字漢字", 6, "漢字…"),
            ("ne\u{301}e\u{301}e\u{301}", 3, "ne\u{301}…"),
            ("👩\u{200d}👩\u{200d}👧👩\u{200d}👩\u{200d}👧", 3, "👩\u{200d}👩\u{200d}👧…"),
            ("\u{1b}]0;t\u{7}a\nb\u{1b}[2J", 6, "a b"),
            ("ends with …", 11, "ends with …"),
            ("abc", 0, "…"),
        ];
        for (text, most_columns, expected) in table {
            assert_eq!(truncate(text, most_columns), expected, "{text:?} in {most_columns}");
        }
        let accents = format!("a{}b", "\u{301}".repeat(100_000));
        assert!(truncate(&accents, 10).chars().count() <= 80);
    }

    #[test]
    fn a_field_is_one_line_without_sequences() {
        assert_eq!(plain("a\tb\nc\u{1b}[2J\u{9b}1;1H\r\nd\n"), "a b c d");
    }
}
