//! Parser of terminal escape sequences (ECMA-48), character by character. A line feed ends every sequence, and so does
//! `SEQUENCE_MAX_CHARS`, so that an unclosed sequence hides a bounded amount of text.

/// Characters of one sequence, after which it counts as closed.
const SEQUENCE_MAX_CHARS: u32 = 64 << 10;
/// Bytes of colour parameters; a longer sequence is dropped. Two true colours and a few attributes have 45.
const COLOUR_MAX_BYTES: usize = 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EscapeParser {
    state: State,
    /// Characters of the current sequence.
    length: u32,
    colour: Parameters,
}

/// The result of one character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// A character outside sequences; possibly a control character.
    Char(char),
    /// The last character of a colour sequence (SGR); [`EscapeParser::colour`] has its parameters.
    Colour,
    /// Part of a sequence.
    Consumed,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte (`ESC ( B`).
    OneMore,
    /// After `ESC [`, while it may be a colour (SGR).
    Colour,
    /// After `ESC [`, until the final byte.
    Control,
    /// After `ESC ]`, `ESC P`, `ESC X`, `ESC ^` or `ESC _`, until BEL or `ESC \`.
    String,
    /// After ESC within a string sequence.
    StringEscape,
}

/// Parameters of a possible colour: digits, `;` and `:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parameters {
    bytes: [u8; COLOUR_MAX_BYTES],
    length: usize,
}

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// CAN and SUB end any sequence.
const CANCELS: [char; 2] = ['\u{18}', '\u{1a}'];
/// C1 control characters: one-character forms of `ESC [`, `ESC ]` and so on that some terminals still accept.
const CONTROL: char = '\u{9b}';
const STRING_END: char = '\u{9c}';
const STRINGS: [char; 5] = ['\u{90}', '\u{98}', '\u{9d}', '\u{9e}', '\u{9f}'];

impl Default for EscapeParser {
    fn default() -> Self {
        let colour = Parameters { bytes: [0; COLOUR_MAX_BYTES], length: 0 };
        Self { state: State::Text, length: 0, colour }
    }
}

impl EscapeParser {
    pub fn push(&mut self, c: char) -> Token {
        if c == '\n' {
            self.state = State::Text;
            return Token::Char(c);
        }
        let before = self.state;
        let piece = self.step(c);
        self.length = if before == State::Text { 0 } else { self.length + 1 };
        if self.length >= SEQUENCE_MAX_CHARS {
            self.state = State::Text;
        }
        piece
    }

    /// Returns the parameters of the colour sequence that just ended.
    pub fn colour(&self) -> &str {
        self.colour.text()
    }

    fn step(&mut self, c: char) -> Token {
        let (state, piece) = match (self.state, c) {
            (_, c) if CANCELS.contains(&c) => (State::Text, Token::Consumed),
            (State::Text | State::Escape | State::OneMore | State::Colour | State::Control, ESCAPE) => {
                (State::Escape, Token::Consumed)
            }
            (State::Text, CONTROL) => (State::Control, Token::Consumed),
            (State::Text, c) if STRINGS.contains(&c) => (State::String, Token::Consumed),
            (State::Text, c) => (State::Text, Token::Char(c)),
            (State::Escape, '[') => {
                self.colour.length = 0;
                (State::Colour, Token::Consumed)
            }
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => (State::String, Token::Consumed),
            (State::Escape | State::OneMore, ' '..='/') => (State::OneMore, Token::Consumed),
            (State::Escape | State::OneMore, _) => (State::Text, Token::Consumed),
            (State::Colour, 'm') => (State::Text, Token::Colour),
            (State::Colour, '0'..=';') if self.colour.push(c) => (State::Colour, Token::Consumed),
            (State::Colour | State::Control, '@'..='~') => (State::Text, Token::Consumed),
            (State::Colour | State::Control, ' '..='?') => (State::Control, Token::Consumed),
            // Not a valid sequence: the character is text.
            (State::Colour | State::Control, c) => (State::Text, Token::Char(c)),
            (State::String | State::StringEscape, BELL | STRING_END) | (State::StringEscape, '\\') => {
                (State::Text, Token::Consumed)
            }
            (State::String | State::StringEscape, ESCAPE) => (State::StringEscape, Token::Consumed),
            (State::String | State::StringEscape, _) => (State::String, Token::Consumed),
        };
        self.state = state;
        piece
    }
}

impl Parameters {
    /// Appends a parameter byte; returns false when full.
    fn push(&mut self, c: char) -> bool {
        let (Some(free), Ok(byte)) = (self.bytes.get_mut(self.length), u8::try_from(c)) else { return false };
        *free = byte;
        self.length += 1;
        true
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}
