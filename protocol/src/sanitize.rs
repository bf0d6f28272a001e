//! Sanitizes untrusted text from sandboxes for terminals and pages, so that it cannot control them. [`LineSanitizer`]
//! makes plain lines; [`TerminalFilter`] filters a byte stream and keeps its colours. Both drop all other escape
//! sequences and control characters. Pure.

mod escape_sequence;
mod terminal_filter;

pub use terminal_filter::TerminalFilter;

use escape_sequence::{EscapeParser, Token};

/// Makes plain lines of untrusted text: drops colours, and turns a carriage return into a new line instead of
/// overwriting the line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineSanitizer {
    parser: EscapeParser,
    /// Whether the last character was a carriage return, which may belong to CR LF.
    pending_return: bool,
}

impl LineSanitizer {
    /// Sanitizes the next part of a line; escape sequences may be split between parts.
    pub fn push(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        for c in text.chars() {
            match self.parser.push(c) {
                Token::Char(c) => self.visible(c, &mut plain),
                Token::Colour | Token::Consumed => {}
            }
        }
        plain
    }

    /// Resets the state at the end of a line.
    pub fn end_line(&mut self) {
        *self = Self::default();
    }

    fn visible(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.pending_return = false;
            out.push(c);
            return;
        }
        if c == '\r' {
            self.pending_return = true;
            return;
        }
        if controls_terminal(c) {
            return;
        }
        if std::mem::take(&mut self.pending_return) {
            out.push('\n');
        }
        out.push(c);
    }
}

/// Returns whether a character has an effect on a terminal beside being shown. Line ends are left to the caller.
fn controls_terminal(c: char) -> bool {
    (c.is_control() && c != '\t') || is_bidi_control(c)
}

/// Returns whether a character changes the direction of text, so that it is displayed in another order.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Makes one line of at most `most_chars` characters of untrusted text.
pub fn one_line(text: &str, most_chars: usize) -> String {
    let plain = LineSanitizer::default().push(text);
    let mut words = plain.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Text far beyond the limit is not joined.
        if line.len() > most_chars * 4 {
            break;
        }
        line.push(' ');
        line.push_str(word);
    }
    match line.char_indices().nth(most_chars) {
        Some(_) => line.chars().take(most_chars.saturating_sub(1)).chain(['…']).collect(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: [(&str, &str); 23] = [
        ("plain\ttext é 漢", "plain\ttext é 漢"),
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[2J\u{1b}[1;1Hgone", "gone"),
        ("\u{1b}]0;title\u{7}a", "a"),
        ("\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}P1$r0m\u{1b}\\b", "b"),
        ("\u{1b}]52;c;cm0gLXJm", ""),
        ("\u{1b}]never closed\nnext", "\nnext"),
        ("\u{1b}(Bc", "c"),
        ("\u{1b}#8d", "d"),
        ("\u{1b}cf", "f"),
        ("\u{9b}31mg", "g"),
        ("\u{9d}0;t\u{9c}h", "h"),
        ("\u{1b}[31\u{1b}[0mi", "i"),
        ("a\u{8}\u{8}b\u{7f}\u{0}", "ab"),
        ("10%\r20%", "10%\n20%"),
        ("end\r", "end"),
        ("end\r\nnext", "end\nnext"),
        ("\u{202e}txt.exe", "txt.exe"),
        ("\u{1b}", ""),
        ("\u{1b}[é", "é"),
        ("\u{1b}]a\u{1b}b\u{7}c", "c"),
        // CAN ends any sequence.
        ("\u{1b}]a\u{18}b\u{1b}[\u{1a}c", "bc"),
    ];

    #[test]
    fn no_control_sequence_is_left() {
        for (text, expected) in TABLE {
            assert_eq!(LineSanitizer::default().push(text), expected, "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_where_the_text_is_cut() {
        for (text, expected) in TABLE {
            for (cut, _) in text.char_indices() {
                let mut sanitizer = LineSanitizer::default();
                let joined = sanitizer.push(&text[..cut]) + &sanitizer.push(&text[cut..]);
                assert_eq!(joined, expected, "{text:?} at {cut}");
            }
        }
    }

    #[test]
    fn whatever_comes_only_text_goes() {
        // Every special character, in every sequence of four.
        let special =
            ['\u{1b}', '[', ']', '\\', '\u{7}', '\u{9b}', '\u{9d}', '\u{9c}', 'P', '(', ';', 'm', '\r', '\n'];
        let pick = |n: usize| special[n % special.len()];
        let size = special.len();
        for n in 0..size.pow(4) {
            let text: String = [pick(n), pick(n / size), pick(n / size / size), pick(n / size / size / size)]
                .iter()
                .collect();
            let plain = LineSanitizer::default().push(&text);
            assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{text:?} gave {plain:?}");
        }
    }

    #[test]
    fn one_line_is_one_short_line() {
        assert_eq!(one_line("a\n  b\u{1b}[1m\tc\r\nd", 80), "a b c d");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
        assert_eq!(one_line("", 4), "");
    }
}
