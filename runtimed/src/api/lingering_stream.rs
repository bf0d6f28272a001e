//! The stream of a connection whose client may still be sending when it is answered. If the socket were closed
//! then, the next write of the client would fail, and it might never read the answer:
//!
//! ```text
//!  answer sent ──▶ our direction closed ──▶ the rest of the body read and dropped ──▶ closed
//!                                            until the client closes, or LINGER_MAX_MS
//! ```

use crate::limits::LINGER_MAX_MS;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::time::{Sleep, sleep};

const DROPPED_AT_ONCE_BYTES: usize = 8 << 10;

/// Whether the last request of a connection has a body, which need not have come completely.
#[derive(Clone, Default)]
pub struct BodyExpected(Arc<AtomicBool>);

impl BodyExpected {
    pub fn set(&self, expected: bool) {
        self.0.store(expected, Relaxed);
    }
}

pub struct LingeringStream {
    stream: UnixStream,
    body: BodyExpected,
    /// Our direction is closed; the other one is read until then.
    lingers_until: Option<Pin<Box<Sleep>>>,
}

impl LingeringStream {
    pub fn new(stream: UnixStream, body: BodyExpected) -> Self {
        Self { stream, body, lingers_until: None }
    }

    pub fn into_inner(self) -> UnixStream {
        self.stream
    }

    /// Drops what comes, until the client closes or fails.
    fn poll_drop_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut space = [MaybeUninit::uninit(); DROPPED_AT_ONCE_BYTES];
            let mut dropped = ReadBuf::uninit(&mut space);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut dropped));
            if read.is_err() || dropped.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl AsyncRead for LingeringStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LingeringStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Hyper calls this when the connection is over, and drops the stream afterwards.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers_until.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.body.0.load(Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        let until =
            self.lingers_until.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(LINGER_MAX_MS))));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_drop_rest(cx).map(Ok)
    }
}
