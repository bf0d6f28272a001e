//! The bytes of a stream of events on their way to the parser of frames: in small pieces, with a bound, and
//! with an eye on `retry:`, which the parser drops where it stands alone.

use crate::{client::ClientError, limits};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

pub type Wire = Pin<Box<dyn Stream<Item = Result<Bytes, ClientError>> + Send>>;

/// Longest line that may be `retry:` and a number.
const RETRY_LINE_MAX_BYTES: usize = 32;

/// What was seen on the way.
#[derive(Debug, Default)]
pub struct Seen {
    /// In milliseconds; 0 where nothing was said.
    retry_ms: AtomicU64,
    /// Since the last event.
    unframed_bytes: AtomicUsize,
}

impl Seen {
    /// How long hostd wants us to wait before we come back.
    pub fn retry(&self) -> Option<Duration> {
        let ms = self.retry_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The parser found an event.
    pub fn framed(&self) {
        self.unframed_bytes.store(0, Ordering::Relaxed);
    }

    fn note(&self, line: &[u8]) {
        let number = line.strip_prefix(b"retry:").map(<[u8]>::trim_ascii);
        let digits = number.and_then(|number| std::str::from_utf8(number).ok());
        if let Some(ms) = digits.and_then(|digits| digits.parse().ok()) {
            self.retry_ms.store(ms, Ordering::Relaxed);
        }
    }
}

struct Source {
    body: Incoming,
    rest: Bytes,
    /// The beginning of the line that is not finished.
    line: Vec<u8>,
    seen: Arc<Seen>,
}

pub fn wire(body: Incoming, seen: Arc<Seen>) -> Wire {
    let source = Source { body, rest: Bytes::new(), line: Vec::new(), seen };
    Box::pin(stream::unfold(source, |mut source| async move {
        let piece = source.next().await?;
        Some((piece, source))
    }))
}

impl Source {
    async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        while self.rest.is_empty() {
            match timeout(limits::FEED_SILENCE, self.body.frame()).await {
                Err(_) => return Some(Err(ClientError::TimedOut(limits::FEED_SILENCE))),
                Ok(None) => return None,
                Ok(Some(Err(error))) => return Some(Err(ClientError::Cut(error))),
                Ok(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(limits::FRAME_PIECE_BYTES));
        let unframed = self.seen.unframed_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        if unframed > limits::FRAME_MAX_BYTES {
            return Some(Err(ClientError::Strange("an event without an end".to_owned())));
        }
        look(&mut self.line, &piece, &self.seen);
        Some(Ok(piece))
    }
}

/// Notes the lines that end in the piece, and keeps the beginning of the one that does not.
fn look(line: &mut Vec<u8>, piece: &[u8], seen: &Seen) {
    for part in piece.split_inclusive(|byte| *byte == b'\n') {
        // One byte more than may be: what is too long stays too long.
        let room = (RETRY_LINE_MAX_BYTES + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        if part.ends_with(b"\n") {
            if line.len() <= RETRY_LINE_MAX_BYTES {
                seen.note(line);
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_is_found_however_it_is_cut() {
        let long = format!("data: {}\nretry: 2000\n", "x".repeat(100));
        let table = [
            ("retry: 1000\n\n", Some(1000)),
            (": hi\nretry:7\r\n\n", Some(7)),
            ("data: retry: 5\n\n", None),
            ("retry: soon\n\n", None),
            ("retry: 99999999999999999999999999\n", None),
            (long.as_str(), Some(2000)),
        ];
        for (text, expected) in table {
            for cut in 0..=text.len() {
                let (seen, mut line) = (Seen::default(), Vec::new());
                look(&mut line, &text.as_bytes()[..cut], &seen);
                look(&mut line, &text.as_bytes()[cut..], &seen);
                assert_eq!(seen.retry(), expected.map(Duration::from_millis), "{text:?} cut at {cut}");
            }
        }
    }
}
