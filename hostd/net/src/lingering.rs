//! The end of an HTTP/1 connection whose client is answered while it still sends. If the socket were closed then,
//! the kernel would reset the connection, and the client might never read the answer:
//!
//! ```text
//!  answer sent ──▶ our direction closed ──▶ the rest of the body read and dropped ──▶ closed
//!                                            until the client closes, or LINGER_MAX
//! ```

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// How long a client that is answered while it still sends may take to read the answer and close.
pub const LINGER_MAX: Duration = Duration::from_secs(10);
const DROPPED_AT_ONCE_BYTES: usize = 16 << 10;

/// Whether a part of the last request's body is still to come. Shared by a connection and its bodies.
#[derive(Debug, Clone, Default)]
pub struct UnreadBody(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    requests: AtomicU64,
    /// The number of the request that has one, or 0. The body of an earlier request may end later.
    unread: AtomicU64,
}

impl UnreadBody {
    /// The body of the next request.
    pub fn watch<B: Body>(&self, body: B) -> WatchedBody<B> {
        let number = self.0.requests.fetch_add(1, Relaxed) + 1;
        self.0.unread.store(if body.is_end_stream() { 0 } else { number }, Relaxed);
        WatchedBody { body, number, unread: self.clone() }
    }

    /// The connection carries no HTTP from here on.
    pub fn upgraded(&self) {
        self.0.unread.store(0, Relaxed);
    }

    fn ended(&self, number: u64) {
        let _ = self.0.unread.compare_exchange(number, 0, Relaxed, Relaxed);
    }

    fn is_any(&self) -> bool {
        self.0.unread.load(Relaxed) > 0
    }
}

/// A body that notes its end.
pub struct WatchedBody<B> {
    body: B,
    number: u64,
    unread: UnreadBody,
}

impl<B: Body<Data = Bytes> + Unpin> Body for WatchedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.unread.ended(self.number);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream of a connection; to be shut down before it is dropped, which hyper does.
pub struct LingeringStream<T> {
    stream: T,
    unread: UnreadBody,
    /// Our direction is closed; the other one is read until then.
    lingers_until: Option<Pin<Box<Sleep>>>,
}

impl<T: AsyncRead + Unpin> LingeringStream<T> {
    pub fn new(stream: T, unread: UnreadBody) -> Self {
        Self { stream, unread, lingers_until: None }
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

impl<T: AsyncRead + Unpin> AsyncRead for LingeringStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingers_until.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            if !self.unread.is_any() {
                return Poll::Ready(Ok(()));
            }
        }
        let until = self.lingers_until.get_or_insert_with(|| Box::pin(sleep(LINGER_MAX)));
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.poll_drop_rest(cx).map(Ok)
    }
}

#[cfg(test)]
#[path = "lingering_tests.rs"]
mod tests;
