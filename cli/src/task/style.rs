//! Formatting shared by task output, for a terminal or for a file or pipe. Pure.

use crate::output::{Colour, Output};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use protocol::{ChangeKind, Encoding, FileChange, Payload};

/// Characters of a path that are shown.
const PATH_CHARS: usize = 200;

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub output: Output,
    /// Whether output goes to a terminal, so that untrusted text is sanitized.
    pub terminal: bool,
}

impl Style {
    pub fn dim(self, text: &str) -> String {
        self.paint(Colour::Dim, text)
    }

    pub fn paint(self, colour: Colour, text: &str) -> String {
        self.output.paint(colour, text)
    }

    /// Formats a changed file, as in `M src/main.rs +3 -1`.
    pub fn file(self, file: &FileChange) -> String {
        let (letter, colour) = match file.change {
            ChangeKind::Added => ("A", Colour::Green),
            ChangeKind::Modified => ("M", Colour::Yellow),
            ChangeKind::Deleted => ("D", Colour::Red),
        };
        let path = crate::sanitize::one_line(&payload_text(&file.path), PATH_CHARS);
        let counts = counts(file.added_lines.unwrap_or(0), file.deleted_lines.unwrap_or(0));
        format!("{} {path}{counts}", self.paint(colour, letter))
    }
}

/// Formats line counts as ` +3 -1`; empty where both are 0.
pub fn counts(added: u64, deleted: u64) -> String {
    let one = |sign: char, count: u64| if count > 0 { format!(" {sign}{count}") } else { String::new() };
    one('+', added) + &one('-', deleted)
}

/// Decodes a text; returns the text itself where it is not valid base64.
pub fn decoded(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Base64 => STANDARD.decode(text).unwrap_or_else(|_| text.as_bytes().to_vec()),
    }
}

/// Decodes a payload to text, with U+FFFD for invalid UTF-8.
pub fn payload_text(payload: &Payload) -> String {
    String::from_utf8_lossy(&decoded(&payload.data, payload.encoding)).into_owned()
}

/// Formats a duration with a precision that fits its length.
pub fn elapsed(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..=59 => format!("{seconds}.{}s", ms % 1000 / 100),
        60..=3_599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let table = [
            (0, "0ms"),
            (999, "999ms"),
            (1_250, "1.2s"),
            (59_999, "59.9s"),
            (65_000, "1m 05s"),
            (3_720_000, "1h 02m"),
        ];
        for (ms, expected) in table {
            assert_eq!(elapsed(ms), expected);
        }
    }

    #[test]
    fn a_file_is_a_letter_a_path_and_counts() {
        let style = Style { output: Output { json: false, colour: false }, terminal: true };
        let table = [
            (r#"{"path":{"data":"a.rs"},"change":"added","added_lines":3,"deleted_lines":0}"#, "A a.rs +3"),
            (
                r#"{"path":{"data":"a b"},"change":"modified","added_lines":3,"deleted_lines":1}"#,
                "M a b +3 -1",
            ),
            (r#"{"path":{"data":"/w==","encoding":"base64"},"change":"deleted"}"#, "D \u{fffd}"),
            (
                r#"{"path":{"data":"x\nA \u001b[1mforged"},"change":"deleted","deleted_lines":9}"#,
                "D x A forged -9",
            ),
        ];
        for (json, expected) in table {
            assert_eq!(style.file(&serde_json::from_str(json).expect("a change")), expected);
        }
    }
}
