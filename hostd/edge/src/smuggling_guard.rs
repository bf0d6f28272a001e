//! Guards against request smuggling: records the bytes of request heads, because hyper silently drops a
//! `Content-Length` beside a `Transfer-Encoding`; such a request is refused.
//!
//! A head that received in the same read as the end of a body is not recorded. That does no harm: hyper reads
//! such a request by its `Transfer-Encoding`, and ends the connection after it.

use super::limits::HEAD_MAX_BYTES;
use crate::delegate_write::delegate_write;
use hyper::Method;
use memchr::memchr_iter;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, ReadBuf};

const LENGTH: &[u8] = b"content-length:";

/// Bytes that were read and not parsed yet.
#[derive(Default)]
pub struct RecordedHeads {
    bytes: Mutex<Vec<u8>>,
    /// A request body is being read: its bytes are not recorded.
    in_body: AtomicBool,
}

impl RecordedHeads {
    /// Called when hyper has parsed a head; returns whether it had a `Content-Length`.
    pub fn on_parsed(&self, method: &Method, has_body: bool) -> bool {
        self.in_body.store(has_body, Ordering::Relaxed);
        let mut bytes = self.bytes();
        let head = Head::first(&bytes, method);
        match head {
            // The bytes behind it are the next head.
            Some(head) if !has_body => drop(bytes.drain(..head.bytes)),
            Some(_) | None => bytes.clear(),
        }
        head.is_some_and(|head| head.has_length)
    }

    /// Called with the response: the bytes read from now on are the next head.
    pub fn on_response(&self) {
        self.in_body.store(false, Ordering::Relaxed);
    }

    fn record(&self, received: &[u8]) {
        if self.in_body.load(Ordering::Relaxed) {
            return;
        }
        let mut bytes = self.bytes();
        let room = HEAD_MAX_BYTES.saturating_sub(bytes.len()).min(received.len());
        bytes.extend_from_slice(&received[..room]);
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    bytes: usize,
    has_length: bool,
}

impl Head {
    /// Finds the head that `bytes` begin with; none where they begin inside another head, or with the end of
    /// a body.
    fn first(bytes: &[u8], method: &Method) -> Option<Self> {
        // Empty lines before a head are skipped by hyper, too.
        let begin = bytes.len() - bytes.trim_ascii_start().len();
        if !bytes[begin..].starts_with(method.as_str().as_bytes()) {
            return None;
        }
        let (mut from, mut has_length) = (begin, false);
        for at in memchr_iter(b'\n', bytes).skip_while(|at| *at < begin) {
            let line = &bytes[from..at];
            if matches!(line, b"" | b"\r") {
                return Some(Self { bytes: at + 1, has_length });
            }
            has_length |= line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH));
            from = at + 1;
        }
        None
    }
}

pub struct HeadRecorder<T> {
    pub stream: T,
    heads: Arc<RecordedHeads>,
}

impl<T> HeadRecorder<T> {
    pub fn new(stream: T, heads: Arc<RecordedHeads>) -> Self {
        Self { stream, heads }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for HeadRecorder<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.heads.record(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

delegate_write!(HeadRecorder<T>);

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET /?content-length: HTTP/1.1\r\nX-Content-Length: 3\r\n\r\n";
    const LONG: &str = "POST / HTTP/1.1\r\nHost: x\r\ncOnTeNt-LENGTH: 3\r\n\r\n";
    const CHUNKED: &str = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";

    #[test]
    fn a_length_is_seen_in_any_case_and_only_in_its_own_head() {
        let twice = format!("{GET}\r\n{LONG}");
        type Row<'a> = (&'a str, &'a [(&'a Method, bool)], bool);
        let table: [Row<'_>; 7] = [
            (LONG, &[(&Method::POST, true)], true),
            ("POST / HTTP/1.1\nContent-Length:3\n\n", &[(&Method::POST, true)], true),
            (GET, &[(&Method::GET, false)], false),
            (&twice, &[(&Method::GET, false), (&Method::POST, true)], true),
            (&format!("{CHUNKED}14\r\nContent-Length: 5\r\n\r\n"), &[(&Method::POST, true)], false),
            (&format!("{CHUNKED}0\r\n\r\n{LONG}"), &[(&Method::POST, true)], false),
            // The rest of a body of unknown length.
            (&format!("abc\r\n{LONG}"), &[(&Method::POST, true)], false),
        ];
        for (received, requests, expected) in table {
            let heads = RecordedHeads::default();
            heads.record(received.as_bytes());
            let seen = requests.iter().map(|(method, body)| heads.on_parsed(method, *body)).last();
            assert_eq!(seen, Some(expected), "{received:?}");
        }
    }

    #[test]
    fn a_body_is_not_kept_and_what_comes_after_it_is() {
        let heads = RecordedHeads::default();
        heads.record(CHUNKED.as_bytes());
        assert!(!heads.on_parsed(&Method::POST, true));
        heads.record(LONG.as_bytes());
        assert!(heads.bytes().is_empty());
        heads.on_response();
        let (first, second) = LONG.split_at(20);
        heads.record(first.as_bytes());
        heads.record(second.as_bytes());
        assert!(heads.on_parsed(&Method::POST, true));
    }

    #[test]
    fn no_more_is_kept_than_a_head_may_have() {
        let heads = RecordedHeads::default();
        heads.record(&[b'x'; 2 * HEAD_MAX_BYTES]);
        assert_eq!(heads.bytes().len(), HEAD_MAX_BYTES);
    }
}
