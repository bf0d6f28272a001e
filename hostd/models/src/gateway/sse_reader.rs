//! Reads server-sent events from pieces of any size. An event that is too long is skipped.

use crate::gateway::limits::EVENT_MAX_BYTES;

#[derive(Default)]
pub struct SseReader {
    line: PartialLine,
    /// A line ended with CR, so an LF that follows belongs to it.
    after_cr: bool,
    /// The data of the event that is not complete yet.
    data: Vec<u8>,
    event: EventState,
    /// Some event was too long.
    pub skipped: bool,
}

/// The line that is not complete yet.
enum PartialLine {
    Kept(Vec<u8>),
    /// Longer than the limit of an event, so it is not kept.
    TooLong,
}

/// The event that is not complete yet.
#[derive(Clone, Copy, Default)]
enum EventState {
    /// No line since the last empty one.
    #[default]
    Empty,
    Open {
        has_data: bool,
        is_error: bool,
    },
    /// Skipped up to its end.
    TooLong,
}

pub struct SseEvent<'a> {
    pub data: &'a [u8],
    /// Its event type is `error`.
    pub is_error: bool,
}

impl SseReader {
    pub fn read(&mut self, mut bytes: &[u8], mut on: impl FnMut(SseEvent<'_>)) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) else {
                self.line.push(bytes);
                return;
            };
            self.after_cr = bytes[at] == b'\r';
            if self.line.is_empty() && at <= EVENT_MAX_BYTES {
                self.end_line(&bytes[..at], &mut on);
            } else {
                self.line.push(&bytes[..at]);
                match std::mem::take(&mut self.line) {
                    PartialLine::TooLong => self.event = EventState::TooLong,
                    PartialLine::Kept(mut line) => {
                        self.end_line(&line, &mut on);
                        // The allocation is kept for the next line.
                        line.clear();
                        self.line = PartialLine::Kept(line);
                    }
                }
            }
            bytes = &bytes[at + 1..];
        }
    }

    /// Ends the stream. An event without an empty line behind it counts, since some providers leave that out
    /// at the end.
    pub fn finish(&mut self, mut on: impl FnMut(SseEvent<'_>)) {
        match std::mem::take(&mut self.line) {
            PartialLine::TooLong => self.event = EventState::TooLong,
            PartialLine::Kept(line) if line.is_empty() => {}
            PartialLine::Kept(line) => self.end_line(&line, &mut on),
        }
        self.end_line(b"", &mut on);
    }

    /// The line breaks that end the current event, so that another can follow.
    pub fn separator(&self) -> &'static str {
        if !self.line.is_empty() {
            return "\n\n";
        }
        match self.event {
            EventState::Empty => "",
            EventState::Open { .. } | EventState::TooLong => "\n",
        }
    }

    fn end_line(&mut self, line: &[u8], on: &mut impl FnMut(SseEvent<'_>)) {
        if line.is_empty() {
            match std::mem::take(&mut self.event) {
                EventState::TooLong => self.skipped = true,
                EventState::Open { has_data: true, is_error } => on(SseEvent { data: &self.data, is_error }),
                EventState::Open { has_data: false, .. } | EventState::Empty => {}
            }
            self.data.clear();
            return;
        }
        let (mut has_data, mut is_error) = match self.event {
            EventState::TooLong => return,
            EventState::Open { has_data, is_error } => (has_data, is_error),
            EventState::Empty => (false, false),
        };
        if let Some(data) = field(line, b"data") {
            if self.data.len() + usize::from(has_data) + data.len() > EVENT_MAX_BYTES {
                self.event = EventState::TooLong;
                return;
            }
            if has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(data);
            has_data = true;
        } else if let Some(name) = field(line, b"event") {
            is_error = name == b"error";
        }
        self.event = EventState::Open { has_data, is_error };
    }
}

impl Default for PartialLine {
    fn default() -> Self {
        Self::Kept(Vec::new())
    }
}

impl PartialLine {
    fn is_empty(&self) -> bool {
        match self {
            Self::Kept(line) => line.is_empty(),
            Self::TooLong => false,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Kept(line) if line.len() + bytes.len() <= EVENT_MAX_BYTES => line.extend_from_slice(bytes),
            Self::Kept(_) | Self::TooLong => *self = Self::TooLong,
        }
    }
}

fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let mut events = SseReader::default();
        let mut on = |event: SseEvent<'_>| {
            found.push((String::from_utf8_lossy(event.data).into_owned(), event.is_error));
        };
        for piece in pieces {
            events.read(piece, &mut on);
        }
        events.finish(&mut on);
        found
    }

    #[test]
    fn events_are_read_as_they_are_written() {
        let table: [(&str, &[(&str, bool)]); 8] = [
            ("data: a\n\ndata:b\n\n", &[("a", false), ("b", false)]),
            ("event: error\r\ndata: a\r\n\r\n", &[("a", true)]),
            ("data: a\rdata: b\r\r", &[("a\nb", false)]),
            (": ping\n\nid: 1\n\n", &[]),
            ("data: a", &[("a", false)]),
            ("data: [DONE]\n", &[("[DONE]", false)]),
            ("data:  two\n\n", &[(" two", false)]),
            ("datax: a\n\ndata\n\n", &[]),
        ];
        for (text, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(data, error)| ((*data).to_owned(), *error)).collect();
            assert_eq!(read(&[text.as_bytes()]), expected, "{text:?}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_skipped_and_the_rest_is_read() {
        let long = "x".repeat(EVENT_MAX_BYTES);
        let text =
            format!("data: {long}\n\ndata: aaaaaaa\ndata: {}\n\ndata: b\n\n", &long[..EVENT_MAX_BYTES - 6]);
        assert_eq!(read(&[text.as_bytes()]), [("b".to_owned(), false)]);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(4096).collect();
        assert_eq!(read(&pieces), [("b".to_owned(), false)]);
    }

    #[test]
    fn a_separator_ends_the_current_event() {
        let separator = |text: &str| {
            let mut events = SseReader::default();
            events.read(text.as_bytes(), |_| {});
            events.separator()
        };
        assert_eq!(separator(""), "");
        assert_eq!(separator("data: a\n\n"), "");
        assert_eq!(separator("data: a\n"), "\n");
        assert_eq!(separator("data: a"), "\n\n");
    }

    proptest! {
        #[test]
        fn how_the_stream_is_cut_makes_no_difference(
            text in "(data: ?[ab\\r\\n]{0,3}|event: error|:|\\r|\\n|\\r\\n|[a-d:]){0,30}",
            cuts in proptest::collection::vec(0_usize..100, 0..20),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[text.as_bytes()]));
        }
    }
}
