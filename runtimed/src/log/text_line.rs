//! Encodes `message` and `log` events by hand: they are nearly all events of a task, and arrive as fast as a
//! program prints. The result equals serde's byte for byte; a test compares them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::log_line::{self, push_number};
use protocol::{Cursor, Stream};

/// Printed bytes: a line, or a piece of one.
#[derive(Debug, Clone, Copy)]
pub struct PrintedText<'a> {
    pub source: TextSource,
    pub bytes: &'a [u8],
    /// The line continues.
    pub partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextSource {
    /// A `message`.
    Agent,
    /// A `log`.
    Stream(Stream),
}

/// Appends the line of the event with this number, with its line feed.
pub fn push(out: &mut Vec<u8>, seq: u64, time_ms: u64, printed: PrintedText<'_>) {
    let (kind, rest): (_, &[u8]) = match printed.source {
        TextSource::Agent => ("message", br#","type":"message","text":""#),
        TextSource::Stream(Stream::Stdout) => ("log", br#","type":"log","stream":"stdout","text":""#),
        TextSource::Stream(Stream::Stderr) => ("log", br#","type":"log","stream":"stderr","text":""#),
        TextSource::Stream(Stream::Pty) => ("log", br#","type":"log","stream":"pty","text":""#),
    };
    let begun = log_line::begin(out, Cursor { epoch: 0, seq }, kind);
    out.extend_from_slice(br#"{"seq":"#);
    push_number(out, seq);
    out.extend_from_slice(br#","time_ms":"#);
    push_number(out, time_ms);
    out.extend_from_slice(rest);
    match std::str::from_utf8(printed.bytes) {
        Ok(text) => {
            push_escaped(out, text);
            out.push(b'"');
        }
        Err(_) => {
            out.extend_from_slice(STANDARD.encode(printed.bytes).as_bytes());
            out.extend_from_slice(br#"","encoding":"base64""#);
        }
    }
    if printed.partial {
        out.extend_from_slice(br#","partial":true"#);
    }
    out.push(b'}');
    begun.end(out);
}

/// How a byte is escaped in a JSON string: 0 as it is, `u` as its number, else this after a backslash.
const ESCAPES: [u8; 256] = {
    let mut escapes = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        escapes[control] = b'u';
        control += 1;
    }
    escapes[0x08] = b'b';
    escapes[b'\t' as usize] = b't';
    escapes[b'\n' as usize] = b'n';
    escapes[0x0c] = b'f';
    escapes[b'\r' as usize] = b'r';
    escapes[b'"' as usize] = b'"';
    escapes[b'\\' as usize] = b'\\';
    escapes
};

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut plain = text.as_bytes();
    while let Some(at) = plain.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        let byte = plain[at];
        out.extend_from_slice(&plain[..at]);
        match ESCAPES[usize::from(byte)] {
            b'u' => {
                let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 0xf)]);
            }
            escape => out.extend_from_slice(&[b'\\', escape]),
        }
        plain = &plain[at + 1..];
    }
    out.extend_from_slice(plain);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::{Encoding, TaskEvent, TaskFact, Text};

    /// The same line encoded by serde.
    fn by_serde(seq: u64, time_ms: u64, printed: PrintedText<'_>) -> Vec<u8> {
        let (text, encoding) = match std::str::from_utf8(printed.bytes) {
            Ok(text) => (text.to_owned(), Encoding::Utf8),
            Err(_) => (STANDARD.encode(printed.bytes), Encoding::Base64),
        };
        let text = Text { text, encoding, partial: printed.partial };
        let fact = match printed.source {
            TextSource::Agent => TaskFact::Message(text),
            TextSource::Stream(stream) => TaskFact::Log { stream, text, lost_events: None },
        };
        let mut line = Vec::new();
        let (kind, event) = (fact.kind(), TaskEvent { seq, time_ms, fact });
        log_line::push(&mut line, Cursor { epoch: 0, seq }, kind, &event).expect("an event is JSON");
        line
    }

    fn source() -> impl Strategy<Value = TextSource> {
        prop_oneof![
            Just(TextSource::Agent),
            Just(TextSource::Stream(Stream::Stdout)),
            Just(TextSource::Stream(Stream::Stderr)),
            Just(TextSource::Stream(Stream::Pty)),
        ]
    }

    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<Vec<u8>>(),
            any::<String>().prop_map(String::into_bytes),
            "[ -~]{0,80}".prop_map(String::into_bytes),
            "[\u{0}-\u{9f}\"\\\\]{0,40}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn the_line_is_what_serde_writes(
            seq: u64, time_ms: u64, source in source(), bytes in any_bytes(), partial: bool,
        ) {
            let printed = PrintedText { source, bytes: &bytes, partial };
            let mut line = b"what was there before\n".to_vec();
            let before = line.len();
            push(&mut line, seq, time_ms, printed);
            prop_assert_eq!(&line[before..], by_serde(seq, time_ms, printed));
        }
    }

    #[test]
    fn every_character_below_256_is_what_serde_writes() {
        for code in 0..=255u8 {
            let text = format!("a{}b", char::from(code));
            let printed = PrintedText { source: TextSource::Agent, bytes: text.as_bytes(), partial: false };
            let mut line = Vec::new();
            push(&mut line, 1, 2, printed);
            assert_eq!(line, by_serde(1, 2, printed), "{code}");
        }
    }
}
