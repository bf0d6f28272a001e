//! Body of an SSE response for the parser: in small chunks, with a limit on the length of a frame and on silence. Reads
//! `retry:` lines itself, because the parser drops one that stands alone.

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

pub type SseBody = Pin<Box<dyn Stream<Item = Result<Bytes, ClientError>> + Send>>;

/// Longest line that can be `retry:` and a number.
const RETRY_LINE_MAX_BYTES: usize = 32;

/// State shared by the body and its reader.
#[derive(Debug, Default)]
pub struct SseState {
    /// Reconnect delay in milliseconds; 0: none was sent.
    retry_ms: AtomicU64,
    /// Bytes since the last event.
    unframed_bytes: AtomicUsize,
}

impl SseState {
    /// Returns the reconnect delay that hostd requested.
    pub fn retry_delay(&self) -> Option<Duration> {
        let ms = self.retry_ms.load(Ordering::Relaxed);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// Called when the parser returned an event.
    pub fn on_frame(&self) {
        self.unframed_bytes.store(0, Ordering::Relaxed);
    }

    fn scan_line(&self, line: &[u8]) {
        let number = line.strip_prefix(b"retry:").map(<[u8]>::trim_ascii);
        let digits = number.and_then(|number| std::str::from_utf8(number).ok());
        if let Some(ms) = digits.and_then(|digits| digits.parse().ok()) {
            self.retry_ms.store(ms, Ordering::Relaxed);
        }
    }
}

struct BodyReader {
    body: Incoming,
    rest: Bytes,
    /// Start of the current line.
    line: Vec<u8>,
    state: Arc<SseState>,
}

pub fn sse_body(body: Incoming, state: Arc<SseState>) -> SseBody {
    let reader = BodyReader { body, rest: Bytes::new(), line: Vec::new(), state };
    Box::pin(stream::unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Some((piece, reader))
    }))
}

impl BodyReader {
    async fn next(&mut self) -> Option<Result<Bytes, ClientError>> {
        while self.rest.is_empty() {
            match timeout(limits::EVENT_SILENCE_MAX, self.body.frame()).await {
                Err(_) => return Some(Err(ClientError::TimedOut(limits::EVENT_SILENCE_MAX))),
                Ok(None) => return None,
                Ok(Some(Err(error))) => return Some(Err(ClientError::ConnectionLost(error))),
                Ok(Some(Ok(frame))) => self.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(limits::FRAME_PIECE_BYTES));
        let unframed = self.state.unframed_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        if unframed > limits::FRAME_MAX_BYTES {
            return Some(Err(ClientError::UnexpectedResponse("an event that is too long".to_owned())));
        }
        scan(&mut self.line, &piece, &self.state);
        Some(Ok(piece))
    }
}

/// Scans the lines that end in the chunk, and keeps the start of the last one.
fn scan(line: &mut Vec<u8>, piece: &[u8], state: &SseState) {
    for part in piece.split_inclusive(|byte| *byte == b'\n') {
        // One byte above the limit is kept, so that a line that is too long stays too long.
        let free = (RETRY_LINE_MAX_BYTES + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(free)]);
        if part.ends_with(b"\n") {
            if line.len() <= RETRY_LINE_MAX_BYTES {
                state.scan_line(line);
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
                let (state, mut line) = (SseState::default(), Vec::new());
                scan(&mut line, &text.as_bytes()[..cut], &state);
                scan(&mut line, &text.as_bytes()[cut..], &state);
                assert_eq!(state.retry_delay(), expected.map(Duration::from_millis), "{text:?} cut at {cut}");
            }
        }
    }
}
