//! A connection that breaks off when its session is dropped. The SSH library drives a connection in a task of its own,
//! which would otherwise wait for a server that does not answer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

pub struct CutStream {
    stream: TcpStream,
    /// Reads and writes wait in different halves of the library, so each has a future that wakes it.
    cut_read: Pin<Box<WaitForCancellationFutureOwned>>,
    cut_write: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl CutStream {
    pub fn new(stream: TcpStream, cut: &CancellationToken) -> Self {
        let future = || Box::pin(cut.clone().cancelled_owned());
        Self { stream, cut_read: future(), cut_write: future() }
    }
}

fn check(cut: &mut Pin<Box<WaitForCancellationFutureOwned>>, cx: &mut Context<'_>) -> io::Result<()> {
    match cut.as_mut().poll(cx) {
        Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
        Poll::Pending => Ok(()),
    }
}

impl AsyncRead for CutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        check(&mut self.cut_read, cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for CutStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        check(&mut self.cut_write, cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
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
    use super::*;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    #[tokio::test]
    async fn a_read_that_waits_ends_when_the_session_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (cut, _server) = (CancellationToken::new(), accepted.expect("accepted"));
        let mut stream = CutStream::new(stream.expect("connected"), &cut);
        let mut byte = [0];
        let ((), read) = tokio::join!(async { cut.cancel() }, stream.read(&mut byte));
        assert_eq!(read.expect_err("cut").kind(), io::ErrorKind::ConnectionAborted);
    }
}
