//! Splits the bytes of `multipart/form-data` into parts. No IO: bytes go in, events come out.
//!
//! ```text
//! Preamble ─delimiter─▶ Headers ─empty line─▶ Data ─delimiter─▶ Headers …  ─delimiter "--"─▶ End
//! ```

use crate::e2b::envd::limits::PART_HEADERS_MAX_BYTES;
use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;

/// The longest boundary, as the format says.
const BOUNDARY_MAX_BYTES: usize = 70;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    #[error("the Content-Type has no boundary of 1 to {BOUNDARY_MAX_BYTES} bytes")]
    NoBoundary,
    #[error("the headers of a part have more than {PART_HEADERS_MAX_BYTES} bytes")]
    HeadersTooLarge,
    #[error("a boundary is followed by other bytes than the end of its line")]
    Malformed,
    #[error("the form ended early")]
    Cut,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A part with these headers begins.
    Part(Bytes),
    Data(Bytes),
    PartEnd,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Preamble,
    /// A delimiter was read.
    Delimiter,
    Headers,
    Data,
    End,
}

#[derive(Debug)]
pub struct Multipart {
    /// With the line break before it.
    delimiter: Vec<u8>,
    rest: BytesMut,
    state: State,
}

impl Multipart {
    pub fn new(content_type: &str) -> Result<Self, MultipartError> {
        let boundary = boundary(content_type).ok_or(MultipartError::NoBoundary)?;
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first one has no line break before it.
        Ok(Self { delimiter, rest: BytesMut::from(&b"\r\n"[..]), state: State::Preamble })
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
    }

    /// The next event; `None` where more bytes are needed.
    pub fn take(&mut self) -> Result<Option<Event>, MultipartError> {
        loop {
            match self.state {
                State::Preamble => match memmem::find(&self.rest, &self.delimiter) {
                    Some(at) => self.pass_delimiter(at),
                    None => {
                        self.rest.advance(self.surely_data());
                        return Ok(None);
                    }
                },
                State::Delimiter => match self.after_delimiter()? {
                    Some(State::End) => {
                        self.state = State::End;
                        return Ok(Some(Event::End));
                    }
                    Some(state) => self.state = state,
                    None => return Ok(None),
                },
                State::Headers => return self.headers(),
                State::Data => return Ok(self.data()),
                // What follows the last boundary means nothing.
                State::End => {
                    self.rest.clear();
                    return Ok(None);
                }
            }
        }
    }

    /// Checks that the form ended where its bytes do.
    pub fn finish(&self) -> Result<(), MultipartError> {
        if self.state == State::End { Ok(()) } else { Err(MultipartError::Cut) }
    }

    /// Bytes at the beginning that no delimiter can be a part of.
    fn surely_data(&self) -> usize {
        self.rest.len().saturating_sub(self.delimiter.len() - 1)
    }

    fn pass_delimiter(&mut self, at: usize) {
        self.rest.advance(at + self.delimiter.len());
        self.state = State::Delimiter;
    }

    /// `--` ends the form; else the line ends, after spaces.
    fn after_delimiter(&mut self) -> Result<Option<State>, MultipartError> {
        if self.rest.len() < 2 {
            return Ok(None);
        }
        if self.rest.starts_with(b"--") {
            return Ok(Some(State::End));
        }
        let spaces = self.rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        match self.rest.get(spaces..) {
            _ if spaces > PART_HEADERS_MAX_BYTES => Err(MultipartError::Malformed),
            Some([b'\r', b'\n', ..]) => {
                // The line break stays: headers end with an empty line, also where there are none.
                self.rest.advance(spaces);
                Ok(Some(State::Headers))
            }
            Some([b'\r'] | []) | None => Ok(None),
            Some(_) => Err(MultipartError::Malformed),
        }
    }

    fn headers(&mut self) -> Result<Option<Event>, MultipartError> {
        let Some(end) = memmem::find(&self.rest, b"\r\n\r\n") else {
            let too_large = self.rest.len() > PART_HEADERS_MAX_BYTES;
            return if too_large { Err(MultipartError::HeadersTooLarge) } else { Ok(None) };
        };
        if end > PART_HEADERS_MAX_BYTES {
            return Err(MultipartError::HeadersTooLarge);
        }
        let mut headers = self.rest.split_to(end).freeze();
        // The line break of the line of the boundary.
        headers.advance(headers.len().min(2));
        self.rest.advance(4);
        self.state = State::Data;
        Ok(Some(Event::Part(headers)))
    }

    fn data(&mut self) -> Option<Event> {
        match memmem::find(&self.rest, &self.delimiter) {
            Some(0) => {
                self.pass_delimiter(0);
                Some(Event::PartEnd)
            }
            Some(at) => Some(Event::Data(self.rest.split_to(at).freeze())),
            None => match self.surely_data() {
                0 => None,
                bytes => Some(Event::Data(self.rest.split_to(bytes).freeze())),
            },
        }
    }
}

fn boundary(content_type: &str) -> Option<String> {
    let (_, parameters) = content_type.split_once(';')?;
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    (1..=BOUNDARY_MAX_BYTES).contains(&bare.len()).then(|| bare.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TYPE: &str = "multipart/form-data; boundary=\"b-1\"";

    /// Headers and content.
    type Parts = Vec<(Vec<u8>, Vec<u8>)>;

    fn split(stream: &[u8], piece: usize) -> Result<Parts, MultipartError> {
        let mut form = Multipart::new(TYPE)?;
        let mut parts = Parts::new();
        for bytes in stream.chunks(piece.max(1)) {
            form.push(bytes);
            while let Some(event) = form.take()? {
                match event {
                    Event::Part(headers) => parts.push((headers.to_vec(), Vec::new())),
                    Event::Data(data) => parts.last_mut().expect("a part").1.extend_from_slice(&data),
                    Event::PartEnd | Event::End => {}
                }
            }
        }
        form.finish().map(|()| parts)
    }

    #[test]
    fn a_form_is_split_at_its_boundaries_alone() {
        let part = |headers: &str, content: &str| (headers.as_bytes().to_vec(), content.as_bytes().to_vec());
        let table = [
            ("--b-1\r\nA: 1\r\n\r\nx\r\n--b-1--\r\n", vec![part("A: 1", "x")]),
            ("before\r\n--b-1 \t\r\nA: 1\r\nB: 2\r\n\r\n\r\n--b-1--after", vec![part("A: 1\r\nB: 2", "")]),
            ("--b-1\r\n\r\nno headers\r\n--b-1--", vec![part("", "no headers")]),
            (
                "--b-1\r\nA: 1\r\n\r\n--b-1 is text\r\n--b-\r\n\r\n--b-1\r\nA: 2\r\n\r\n\r\n\r\n--b-1--",
                vec![part("A: 1", "--b-1 is text\r\n--b-\r\n"), part("A: 2", "\r\n")],
            ),
            ("--b-1--", vec![]),
        ];
        for (stream, expected) in table {
            for piece in [1, 3, 1000] {
                assert_eq!(split(stream.as_bytes(), piece), Ok(expected.clone()), "{stream:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_malformed_form_is_refused() {
        let long = format!("--b-1\r\nA: {}", "x".repeat(PART_HEADERS_MAX_BYTES + 1));
        let table = [
            ("", MultipartError::Cut),
            ("--b-1\r\nA: 1\r\n\r\nx", MultipartError::Cut),
            ("--b-1\r\nA: 1", MultipartError::Cut),
            ("--b-1x\r\n", MultipartError::Malformed),
            (&long, MultipartError::HeadersTooLarge),
        ];
        for (stream, expected) in table {
            assert_eq!(split(stream.as_bytes(), 1000), Err(expected), "{stream:?}");
        }
        for wrong in ["multipart/form-data", "multipart/form-data; boundary=", "a; boundary=\"\""] {
            assert!(matches!(Multipart::new(wrong), Err(MultipartError::NoBoundary)), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn content_is_the_same_however_the_bytes_are_cut(
            contents in prop::collection::vec("[-b1\r\n ]{0,30}", 0..5),
            piece in 1_usize..20,
        ) {
            let clean: Vec<String> = contents.iter().map(|text| text.replace("--b-1", "")).collect();
            prop_assume!(clean.iter().all(|text| !text.contains("--b-1")));
            let parts: String = clean.iter().map(|text| format!("--b-1\r\nA: 1\r\n\r\n{text}\r\n")).collect();
            let found = split(format!("{parts}--b-1--\r\n").as_bytes(), piece).expect("a form");
            let found: Vec<String> =
                found.into_iter().map(|(_, content)| String::from_utf8(content).expect("text")).collect();
            prop_assert_eq!(found, clean);
        }

        #[test]
        fn any_bytes_are_parts_or_an_error(bytes in "[-b1\r\n: ]{0,60}", piece in 1_usize..9) {
            let _ = split(bytes.as_bytes(), piece);
        }
    }
}
