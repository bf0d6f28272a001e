//! Bounds the bytes that one HTTP/1 connection holds of a body on its way.
//!
//! Left alone, hyper reads as much as the source gives (buffers grow to 400 KB) and queues as much again for
//! writing before it looks whether the other end reads. A [`WriteWindow`] closes when enough bytes wait, and opens
//! when the socket has taken all of them, so a peer that reads nothing costs about one read's worth of memory:
//!
//! ```text
//!  socket ── WindowIo, bounded reads ──▶ body ── WindowBody ──▶ hyper's queue ── WindowIo ──▶ socket
//!                                         waits while closed ◀─── WriteWindow ◀─── flushed: open
//! ```
//!
//! Small reads and writes cost time where much flows. So a few bodies at a time, of those that are long, may have
//! large ones: `LARGE_BODIES_MAX` of them for the whole process, which bounds what all of them hold.

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Frame, SizeHint};
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take},
    sync::{Semaphore, SemaphorePermit},
};

/// Bytes of one read, and bytes of a body that wait for the socket before no more are taken. A read is one
/// byte less than hyper's buffer of that size: hyper doubles a buffer that is filled.
pub const READ_MAX_BYTES: usize = (16 << 10) - 1;
pub const WINDOW_BYTES: usize = 12 << 10;
/// The same for a large body.
pub const LARGE_READ_MAX_BYTES: usize = (128 << 10) - 1;
pub const LARGE_WINDOW_BYTES: usize = 256 << 10;
/// Large bodies of the process at a time, and how long a body must be to count as one.
pub const LARGE_BODIES_MAX: usize = 24;
const LARGE_BODY_MIN_BYTES: u64 = 256 << 10;
/// A chunk below this is copied while others wait before it, so that it does not hold a whole read buffer.
const COPIED_MAX_BYTES: usize = 8 << 10;
/// Bytes of one read where no HTTP is spoken.
pub const CHUNK_BYTES: usize = 16 << 10;

static LARGE_BODIES: Semaphore = Semaphore::const_new(LARGE_BODIES_MAX);

/// Reads the next bytes; none at the end. Reads to the stack: a wait holds no buffer.
pub async fn read_chunk(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Bytes> {
    poll_fn(|cx| {
        let mut space = [MaybeUninit::uninit(); CHUNK_BYTES];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *from).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(Bytes::copy_from_slice(buffer.filled())))
    })
    .await
}

/// Counts the bytes of a body that HTTP has taken and the socket has not. Shared by a connection and its
/// bodies.
#[derive(Debug, Default)]
pub struct WriteWindow {
    waiting_bytes: AtomicUsize,
    /// A large body comes from this connection or goes to it.
    is_large: AtomicBool,
    /// Held until the socket has all of the large body that goes to this connection.
    permit: Mutex<Option<SemaphorePermit<'static>>>,
    /// That body was taken whole: the next flush releases its permit.
    is_taken: AtomicBool,
    body: AtomicWaker,
}

impl WriteWindow {
    fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        let most = if self.is_large.load(Relaxed) { LARGE_WINDOW_BYTES } else { WINDOW_BYTES };
        if self.waiting_bytes.load(Relaxed) < most {
            return Poll::Ready(());
        }
        self.body.register(cx.waker());
        Poll::Pending
    }

    /// Counts a chunk that is about to be queued.
    fn count(&self, piece: Bytes) -> Bytes {
        let waiting = self.waiting_bytes.fetch_add(piece.len(), Relaxed);
        if waiting > 0 && piece.len() < COPIED_MAX_BYTES { Bytes::copy_from_slice(&piece) } else { piece }
    }

    fn flushed(&self) {
        if self.waiting_bytes.swap(0, Relaxed) >= WINDOW_BYTES {
            self.body.wake();
        }
        if self.is_taken.swap(false, Relaxed) {
            self.permit().take();
        }
    }

    fn read_max_bytes(&self) -> u64 {
        let most = if self.is_large.load(Relaxed) { LARGE_READ_MAX_BYTES } else { READ_MAX_BYTES };
        most as u64
    }

    fn permit(&self) -> MutexGuard<'_, Option<SemaphorePermit<'static>>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The window of the connection that a body comes from; an extension of the request or response.
#[derive(Clone)]
pub struct SourceWindow(pub Arc<WriteWindow>);

impl SourceWindow {
    /// Large reads of the body, while this lives. Without a permit they stay small.
    pub fn enlarge(&self) -> Option<LargeReads> {
        let permit = LARGE_BODIES.try_acquire().ok()?;
        self.0.is_large.store(true, Relaxed);
        Some(LargeReads { window: self.0.clone(), _permit: permit })
    }
}

/// A body that hostd itself takes from a connection, in large reads.
pub struct LargeReads {
    window: Arc<WriteWindow>,
    _permit: SemaphorePermit<'static>,
}

impl Drop for LargeReads {
    fn drop(&mut self) {
        self.window.is_large.store(false, Relaxed);
    }
}

/// Accounts for one body on its way to a connection.
pub struct Transfer {
    /// The window of the connection that the body comes from.
    source: Option<Arc<WriteWindow>>,
    sink: Arc<WriteWindow>,
    moved_bytes: u64,
    is_large: bool,
}

impl Transfer {
    pub fn new(source: Option<Arc<WriteWindow>>, sink: Arc<WriteWindow>) -> Self {
        Self { source, sink, moved_bytes: 0, is_large: false }
    }

    /// Ready while a further chunk may be taken from a body with `left` to come.
    pub fn poll_open(&mut self, left: &SizeHint, cx: &Context<'_>) -> Poll<()> {
        if !self.is_large && self.source.is_some() && self.moved_bytes + left.lower() >= LARGE_BODY_MIN_BYTES
        {
            self.enlarge();
        }
        self.sink.poll_open(cx)
    }

    /// Counts a frame that is about to be queued.
    pub fn count(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        self.moved_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        frame.map_data(|piece| self.sink.count(piece))
    }

    fn enlarge(&mut self) {
        // Without a permit the body goes on in small chunks, and tries again.
        let mut held = self.sink.permit();
        if held.is_none() {
            *held = LARGE_BODIES.try_acquire().ok();
        }
        self.is_large = held.is_some();
        drop(held);
        self.sink.is_taken.store(false, Relaxed);
        self.set_large(self.is_large);
    }

    fn set_large(&self, large: bool) {
        self.sink.is_large.store(large, Relaxed);
        if let Some(source) = &self.source {
            source.is_large.store(large, Relaxed);
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.is_large {
            return;
        }
        self.set_large(false);
        if self.sink.waiting_bytes.load(Relaxed) == 0 {
            self.sink.permit().take();
        } else {
            self.sink.is_taken.store(true, Relaxed);
        }
    }
}

/// A stream below HTTP/1: reads are bounded, and a flush opens the window. hyper flushes only when its own
/// queue is empty.
pub struct WindowIo<T> {
    stream: Take<T>,
    window: Arc<WriteWindow>,
}

impl<T: AsyncRead> WindowIo<T> {
    pub fn new(stream: T, window: Arc<WriteWindow>) -> Self {
        Self { stream: stream.take(0), window }
    }

    pub fn into_inner(self) -> T {
        self.stream.into_inner()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WindowIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The limit is for one read, not for all of them.
        let most = self.window.read_max_bytes();
        self.stream.set_limit(most);
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WindowIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(self.stream.get_mut()).poll_flush(cx))?;
        self.window.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }
}

/// A body whose chunks are taken only while the window of its connection is open.
pub struct WindowBody<B> {
    body: B,
    transfer: Transfer,
}

impl<B> WindowBody<B> {
    pub fn new(body: B, transfer: Transfer) -> Self {
        Self { body, transfer }
    }

    /// A body that hostd makes itself, and that comes from no connection.
    pub fn to(sink: Arc<WriteWindow>, body: B) -> Self {
        Self::new(body, Transfer::new(None, sink))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for WindowBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        ready!(this.transfer.poll_open(&this.body.size_hint(), cx));
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map(|frame| this.transfer.count(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "backpressure_tests.rs"]
mod tests;
