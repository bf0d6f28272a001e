//! Acknowledges the first piece of a response at once if the rest is still to come.
//!
//! A kernel that has just written delays its acknowledgement, to send it together with data. A server that writes head
//! and body in two pieces, with Nagle's algorithm (the default), writes the second when the first is acknowledged:
//! 40 ms later. `TCP_QUICKACK` acknowledges at once, and every further piece when it is read, until the next write.
//!
//! ```text
//!          written            read              wait_for_rest            would block: TCP_QUICKACK
//!  Prompt ─────────▶ Delayed ──────▶ Received ───────────────▶ Requested ─────────────────────────▶ Prompt
//!                       ▲              written │ written           │
//!                       └──────────────────────┴───────────────────┘
//! ```
//!
//! So the option costs one system call for each response that comes in pieces, and none for one that comes whole: its
//! acknowledgement goes out with the next request.

use super::ClientStream;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The kernel acknowledges what is read.
const PROMPT: u8 = 0;
/// The kernel may delay its acknowledgements.
const DELAYED: u8 = 1;
/// The same, and bytes were read.
const RECEIVED: u8 = 2;
/// The same, and more are waited for.
const REQUESTED: u8 = 3;

/// Shared by a connection and the stream below it; one task drives both.
#[derive(Debug, Default)]
pub struct AckState(AtomicU8);

impl AckState {
    /// Called when a response is waited for of which nothing can be read now. Returns whether the stream must be read
    /// once more, to set the option.
    pub fn wait_for_rest(&self) -> bool {
        let received = self.0.load(Relaxed) == RECEIVED;
        if received {
            self.0.store(REQUESTED, Relaxed);
        }
        received
    }

    fn on_write(&self, written: &Poll<io::Result<usize>>) {
        if written.is_ready() {
            self.0.store(DELAYED, Relaxed);
        }
    }
}

/// A stream that acknowledges the pieces of a response.
pub struct QuickAckIo<T> {
    stream: T,
    acks: Arc<AckState>,
}

impl<T> QuickAckIo<T> {
    pub fn new(stream: T, acks: Arc<AckState>) -> Self {
        Self { stream, acks }
    }

    pub fn into_inner(self) -> T {
        self.stream
    }
}

impl<T: ClientStream> AsyncRead for QuickAckIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        match (&read, self.acks.0.load(Relaxed)) {
            (Poll::Ready(_), DELAYED) => self.acks.0.store(RECEIVED, Relaxed),
            (Poll::Pending, REQUESTED) => {
                self.stream.acknowledge();
                self.acks.0.store(PROMPT, Relaxed);
            }
            (Poll::Ready(_) | Poll::Pending, _) => {}
        }
        read
    }
}

impl<T: ClientStream> AsyncWrite for QuickAckIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.acks.on_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.acks.on_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Http1Connection,
        two_piece_server::{self, BODY, get_on},
    };
    use super::*;
    use hyper::client::conn::http1::Builder;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        task::yield_now,
    };

    /// Counts how often the option was set.
    struct Counting {
        stream: DuplexStream,
        seen: Arc<Seen>,
    }

    #[derive(Default)]
    struct Seen {
        times_set: AtomicUsize,
        /// The client read everything, and waits for more.
        waits: AtomicBool,
    }

    impl AsyncRead for Counting {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            self.seen.waits.store(read.is_pending(), Relaxed);
            read
        }
    }

    impl AsyncWrite for Counting {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    impl ClientStream for Counting {
        fn acknowledge(&self) {
            self.seen.times_set.fetch_add(1, Relaxed);
        }
    }

    /// Returns how often the option was set for three responses, each of which is sent in these pieces.
    async fn times_set(pieces: &[&str]) -> usize {
        let (near, mut far) = duplex(4096);
        let seen = Arc::<Seen>::default();
        let server = async {
            let mut request = Vec::new();
            while far.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
                if !request.ends_with(b"\r\n\r\n") {
                    continue;
                }
                request.clear();
                for piece in pieces {
                    while !seen.waits.load(Relaxed) {
                        yield_now().await;
                    }
                    seen.waits.store(false, Relaxed);
                    far.write_all(piece.as_bytes()).await.expect("written");
                }
            }
        };
        let stream = Counting { stream: near, seen: seen.clone() };
        let client = async {
            let mut connection = Http1Connection::handshake(stream, &Builder::new()).await.expect("opened");
            for _ in 0..3 {
                assert_eq!(get_on(&mut connection).await, BODY);
            }
        };
        tokio::join!(server, client);
        seen.times_set.load(Relaxed)
    }

    #[tokio::test]
    async fn the_option_is_set_once_for_a_response_in_pieces_and_never_for_a_whole_one() {
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\ntwo pieces\n";
        let table: [(&[&str], usize); 4] = [
            (&[whole], 0),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n", "two pieces\n"], 3),
            (&["HTTP/1.1 200 OK\r\n", "content-length: 11\r\n\r\ntwo pieces\n"], 3),
            (&["HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n", "two", " pie", "ces\n"], 3),
        ];
        for (pieces, expected) in table {
            assert_eq!(times_set(pieces).await, expected, "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn a_response_in_two_pieces_takes_no_longer_on_a_kept_connection() {
        let server = two_piece_server::start().await.expect("a server");
        two_piece_server::check_kept_is_no_slower(async |kept| {
            let mut connection = match kept {
                Some(connection) => connection,
                None => {
                    let stream = two_piece_server::connect(server).await;
                    Http1Connection::handshake(stream, &Builder::new()).await.expect("opened")
                }
            };
            assert_eq!(get_on(&mut connection).await, BODY);
            connection
        })
        .await;
    }
}
