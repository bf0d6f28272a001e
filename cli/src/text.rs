//! Text for display: names of enum values, sanitized lines, and widths in terminal columns.

use crate::sanitize::{LineSanitizer, one_line};
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Characters kept per column: accented letters and joined emoji have several.
const CHARS_PER_COLUMN: usize = 8;

/// Returns the name of an enum value on the wire.
pub fn wire_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// Makes one sanitized line of text from a sandbox.
pub fn plain(text: &str) -> String {
    LineSanitizer::default().push(text).trim_end_matches('\n').replace(['\n', '\t'], " ")
}

/// Returns the width of a text in terminal columns.
pub fn columns(text: &str) -> usize {
    text.width()
}

/// Makes one sanitized line of at most `most_columns` columns; a cut is marked by `…`.
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
            // A wide character that does not fit is left out.
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
