//! Reads bounded text from JSON values of untrusted programs.

use super::tool_limits::TITLE_MAX_BYTES;
use serde_json::Value;

/// The beginning of a text, in whole characters.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// The end of a text, in whole characters.
pub fn tail(text: &str, max_bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max_bytes))..]
}

/// Text cut to the length of a title.
pub fn short(text: &str) -> String {
    cut(text, TITLE_MAX_BYTES).to_owned()
}

/// The first line that is not blank, trimmed.
pub fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

/// A field that is text.
pub fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// The first of these fields that is text and not empty.
pub fn first_text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().filter_map(|name| text(value, name)).find(|text| !text.is_empty())
}

/// The elements of a field that is a list.
pub fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_in_whole_characters() {
        assert_eq!((cut("äöü", 3), tail("äöü", 3)), ("ä", "ü"));
        assert_eq!((cut("abc", 9), tail("abc", 9)), ("abc", "abc"));
    }
}
