//! Filter for untrusted output on its way to a terminal: text, line ends and colours pass, everything else is dropped.
//! Chunks may be split anywhere, also within a character.

use super::{
    controls_terminal,
    escape_sequence::{EscapeParser, Token},
};

/// Ends every colour.
const RESET: &str = "\u{1b}[0m";
/// Bytes of an incomplete UTF-8 character.
const PARTIAL_MAX_BYTES: usize = 3;

/// Removes what could control a terminal. Carriage returns stay, because progress bars need them.
#[derive(Debug, Default)]
pub struct TerminalFilter {
    parser: EscapeParser,
    /// Start of a character whose remaining bytes have not arrived.
    partial: Vec<u8>,
    /// Whether a colour is active.
    coloured: bool,
}

impl TerminalFilter {
    /// Filters the next bytes. Invalid UTF-8 becomes U+FFFD, because single bytes are control characters to some
    /// terminals.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        let joined;
        let mut rest = if self.partial.is_empty() {
            bytes
        } else {
            joined = [&std::mem::take(&mut self.partial), bytes].concat();
            &joined
        };
        let mut out = String::with_capacity(rest.len());
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.text(text, &mut out);
                    return out;
                }
                Err(error) => error,
            };
            let (text, broken) = rest.split_at(error.valid_up_to());
            self.text(std::str::from_utf8(text).unwrap_or_default(), &mut out);
            let Some(length) = error.error_len() else {
                self.partial = broken[..broken.len().min(PARTIAL_MAX_BYTES)].to_vec();
                return out;
            };
            self.push(char::REPLACEMENT_CHARACTER, &mut out);
            rest = &broken[length..];
        }
    }

    /// Returns what must follow the last byte: the reset of a colour that is still active.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if !std::mem::take(&mut self.partial).is_empty() {
            self.push(char::REPLACEMENT_CHARACTER, &mut out);
        }
        self.parser = EscapeParser::default();
        if std::mem::take(&mut self.coloured) {
            out.push_str(RESET);
        }
        out
    }

    /// Returns whether a colour is active.
    pub fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// Filters a complete text.
    pub fn whole(text: &str) -> String {
        let mut filter = Self::default();
        let mut out = String::with_capacity(text.len());
        filter.text(text, &mut out);
        out + &filter.finish()
    }

    fn text(&mut self, text: &str, out: &mut String) {
        for c in text.chars() {
            self.push(c, out);
        }
    }

    fn push(&mut self, c: char, out: &mut String) {
        match self.parser.push(c) {
            Token::Char(c) if matches!(c, '\n' | '\r') || !controls_terminal(c) => out.push(c),
            Token::Char(_) | Token::Consumed => {}
            Token::Colour => {
                let parameters = self.parser.colour();
                self.coloured = !parameters.bytes().all(|byte| matches!(byte, b'0' | b';'));
                out.push_str("\u{1b}[");
                out.push_str(parameters);
                out.push('m');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Filters everything at once, without the final reset.
    fn filtered(bytes: &[u8]) -> String {
        TerminalFilter::default().feed(bytes)
    }

    #[test]
    fn colours_and_lines_stay_and_the_rest_goes() {
        let table: [(&[u8], &str); 34] = [
            ("plain\ttext é 漢 👩‍👧\r\n".as_bytes(), "plain\ttext é 漢 👩‍👧\r\n"),
            (b"10%\r20%\r", "10%\r20%\r"),
            (b"\x1b[31mred\x1b[0m\x1b[m", "\u{1b}[31mred\u{1b}[0m\u{1b}[m"),
            (b"\x1b[38;2;1;2;3;48:5:7mx", "\u{1b}[38;2;1;2;3;48:5:7mx"),
            // Keyboard, private and intermediate: no colours, though they end in m.
            (b"\x1b[>4;2mx", "x"),
            (b"\x1b[?4mx", "x"),
            (b"\x1b[1 mx", "x"),
            (b"\x1b[=1mx", "x"),
            // Title, clipboard, hyperlink, colours of the terminal itself.
            (b"\x1b]0;title\x07a", "a"),
            (b"\x1b]2;title\x1b\\a", "a"),
            (b"\x1b]52;c;cm0gLXJm\x07a", "a"),
            (b"\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
            (b"\x1b]4;1;?\x07a", "a"),
            // Screen, cursor, modes, reports, reset.
            (b"\x1b[2J\x1b[1;1Ha\x1b[3J", "a"),
            (b"\x1b[A\x1b[2K\x1b[1000Da", "a"),
            (b"\x1b[?1049h\x1b[?25l\x1b[?2004ha", "a"),
            (b"\x1b[6n\x1b[c\x1b[0ca", "a"),
            (b"\x1bc\x1b7\x1b8\x1bDa", "a"),
            (b"\x1b(0a\x1b#8", "a"),
            // DCS, APC, PM, SOS.
            (b"\x1bP1$r0m\x1b\\a", "a"),
            (b"\x1b_Gf=100;AAAA\x1b\\a", "a"),
            (b"\x1b^x\x1b\\a", "a"),
            (b"\x1bXx\x1b\\a", "a"),
            // C1 control characters, as UTF-8 and as single bytes.
            ("\u{9b}31ma\u{9b}2J".as_bytes(), "a"),
            ("\u{9d}0;t\u{9c}a\u{90}q\u{9c}".as_bytes(), "a"),
            (b"\x9b2Ja", "\u{fffd}2Ja"),
            (b"\x9d0;t\x07a", "\u{fffd}0;ta"),
            // Bell, backspace, shifts, feeds, delete.
            (b"a\x07\x08\x0e\x0f\x0b\x0c\x00\x7fb", "ab"),
            ("a\u{202e}b\u{2066}c".as_bytes(), "abc"),
            // Never closed: a line hides no other.
            (b"\x1b]0;open\nnext", "\nnext"),
            (b"\x1b[31\nnext", "\nnext"),
            (b"\x1b]0;open\x18next", "next"),
            (b"\x1b[3\x1b[32mx", "\u{1b}[32mx"),
            (b"\xe6\xbc\xff\xe6\xbc\xa2", "\u{fffd}\u{fffd}漢"),
        ];
        for (bytes, expected) in table {
            assert_eq!(filtered(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_sequence_that_is_never_closed_ends_somewhere() {
        for opened in ["\u{1b}]0;", "\u{1b}P", "\u{1b}_", "\u{1b}^", "\u{1b}X", "\u{1b}[", "\u{9d}"] {
            let long = format!("{opened}{}seen", "1".repeat(1 << 20));
            assert!(filtered(long.as_bytes()).ends_with("1seen"), "{opened:?}");
        }
    }

    #[test]
    fn a_colour_longer_than_any_is_dropped() {
        let long = format!("\u{1b}[{}mx", "1;".repeat(100));
        assert_eq!(filtered(long.as_bytes()), "x");
    }

    #[test]
    fn a_colour_that_was_left_open_is_closed() {
        let table = [
            ("plain", "plain"),
            ("\u{1b}[31mred", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
            ("\u{1b}[31mred\u{1b}[m", "\u{1b}[31mred\u{1b}[m"),
            ("\u{1b}[0;1mbold", "\u{1b}[0;1mbold\u{1b}[0m"),
            ("cut\u{1b}[3", "cut"),
        ];
        for (text, expected) in table {
            assert_eq!(TerminalFilter::whole(text), expected, "{text:?}");
        }
        let mut filter = TerminalFilter::default();
        assert_eq!(filter.feed(b"a\xe6\xbc") + &filter.finish(), "a\u{fffd}");
        assert_eq!(filter.feed(b"\xa2b") + &filter.finish(), "\u{fffd}b", "what was cut is forgotten");
    }

    /// Removes the colours; `None` where an ESC begins anything else.
    fn without_colours(text: &str) -> Option<String> {
        let mut pieces = text.split('\u{1b}');
        let mut plain = pieces.next()?.to_owned();
        for piece in pieces {
            let (parameters, rest) = piece.strip_prefix('[')?.split_once('m')?;
            if parameters.len() > 64 || !parameters.bytes().all(|byte| matches!(byte, b'0'..=b';')) {
                return None;
            }
            plain.push_str(rest);
        }
        Some(plain)
    }

    /// Byte strings with many parts of sequences.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let special: Vec<&'static [u8]> = vec![
            b"\x1b",
            b"[",
            b"]",
            b"\\",
            b"P",
            b"_",
            b"(",
            b"?",
            b">",
            b"0",
            b"31",
            b";",
            b":",
            b"m",
            b"J",
            b"H",
            b"\x07",
            b"\x08",
            b"\r",
            b"\n",
            b"\x18",
            b"\x9b",
            b"\x9d",
            b"\xc2",
            b"\xc2\x9b",
            b"\xc2\x9d",
            b"\xc2\x9c",
            b"\xe2",
            b"\x80\xae",
            b"\xff",
            b"text",
            b"\x1b[1;31m",
            b"\x1b[0m",
            b"\x1b]0;t\x07",
        ];
        let piece = prop_oneof![
            8 => proptest::sample::select(special).prop_map(<[u8]>::to_vec),
            1 => proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn only_text_and_colours_come_out(bytes in hostile()) {
            let mut filter = TerminalFilter::default();
            let shown = filter.feed(&bytes) + &filter.finish();
            let plain = without_colours(&shown);
            let harmless = |c: char| matches!(c, '\n' | '\r' | '\t') || !(c.is_control() || super::super::is_bidi_control(c));
            prop_assert!(plain.is_some_and(|plain| plain.chars().all(harmless)), "{:?} gave {:?}", bytes, shown);
        }

        #[test]
        fn it_does_not_matter_where_output_is_cut(bytes in hostile(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut filter = TerminalFilter::default();
            let pieces: String = at.windows(2).map(|ends| filter.feed(&bytes[ends[0]..ends[1]])).collect();
            let mut whole = TerminalFilter::default();
            prop_assert_eq!(pieces + &filter.finish(), whole.feed(&bytes) + &whole.finish());
        }

        #[test]
        fn plain_text_is_unchanged(text in "[\\PC\n\r\t]{0,200}") {
            let plain: String = text.chars().filter(|c| !super::super::is_bidi_control(*c)).collect();
            prop_assert_eq!(filtered(plain.as_bytes()), plain);
        }
    }
}
