//! Text of sandboxed code on terminals and pages: nothing that it prints may steer them. `LineSanitizer` makes plain lines of
//! it; `TerminalFilter` passes output on as it comes, with its colours. Both drop every other escape sequence whole
//! and other control characters singly. Pure.

mod escape_sequence;
mod terminal_filter;

pub use terminal_filter::TerminalFilter;

use escape_sequence::{EscapeParser, Token};

/// Plain lines: without colours, and a carriage return begins a new line instead of writing over the old one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineSanitizer {
    parser: EscapeParser,
    /// A carriage return that may be the end of the line.
    pending_return: bool,
}

impl LineSanitizer {
    /// A part of a line; sequences may be cut anywhere between parts.
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

    /// The line is over.
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

/// Whether a character does something else than to be shown; ends of lines are the caller's to judge.
fn controls_terminal(c: char) -> bool {
    (c.is_control() && c != '\t') || is_bidi_control(c)
}

/// Characters that make text read in another order than it is written.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Text of strangers as one line of at most so many characters, for anyone's screen or file.
pub fn one_line(text: &str, most_chars: usize) -> String {
    let plain = LineSanitizer::default().push(text);
    let mut words = plain.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        // Far more than is shown needs not be joined.
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
        // CAN ends whatever was begun.
        ("\u{1b}]a\u{18}b\u{1b}[\u{1a}c", "bc"),
    ];

    #[test]
    fn nothing_steers_a_terminal() {
        for (text, expected) in TABLE {
            assert_eq!(LineSanitizer::default().push(text), expected, "{text:?}");
        }
    }

    #[test]
    fn it_does_not_matter_where_the_text_is_cut() {
        for (text, expected) in TABLE {
            for (cut, _) in text.char_indices() {
                let mut plain = LineSanitizer::default();
                let joined = plain.push(&text[..cut]) + &plain.push(&text[cut..]);
                assert_eq!(joined, expected, "{text:?} at {cut}");
            }
        }
    }

    #[test]
    fn whatever_comes_only_text_goes() {
        // Every character that is special here, in every order of four.
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
