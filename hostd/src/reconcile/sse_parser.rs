//! Parses server-sent events of runtimed from bytes that come in pieces. Knows nothing of sockets.

use bytes::BytesMut;
use hostd_core::limits;

/// Collects bytes and returns the `data` of whole events.
#[derive(Default)]
pub(super) struct SseParser {
    buffer: BytesMut,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {} bytes", limits::EVENT_MAX_BYTES)]
pub(super) struct EventTooLong;

impl SseParser {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The data of the next whole event; comments and other fields are skipped.
    pub(super) fn next(&mut self) -> Result<Option<String>, EventTooLong> {
        while let Some(end) = find(&self.buffer, b"\n\n") {
            let frame = self.buffer.split_to(end + 2);
            let text = String::from_utf8_lossy(&frame);
            let lines = text.lines().filter_map(|line| line.strip_prefix("data:"));
            let data: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            if !data.is_empty() {
                return Ok(Some(data.join("\n")));
            }
        }
        if self.buffer.len() > limits::EVENT_MAX_BYTES { Err(EventTooLong) } else { Ok(None) }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_the_bytes_come() {
        let wire = b": hello\n\nid: 1\nevent: x\ndata: {\"a\":1}\n\ndata: two\ndata: lines\n\n";
        for step in 1..wire.len() {
            let (mut events, mut seen) = (SseParser::default(), Vec::new());
            for piece in wire.chunks(step) {
                events.push(piece);
                while let Some(data) = events.next().expect("short enough") {
                    seen.push(data);
                }
            }
            assert_eq!(seen, ["{\"a\":1}", "two\nlines"], "in pieces of {step}");
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut events = SseParser::default();
        events.push(&vec![b'x'; limits::EVENT_MAX_BYTES + 1]);
        assert_eq!(events.next(), Err(EventTooLong));
    }
}
