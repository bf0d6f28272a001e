//! The streams that a connection to a server may be made of.

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// A stream to a server.
pub trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Has the kernel acknowledge at once what came (`TCP_QUICKACK`). Where that fails, or the stream is no TCP
    /// socket, it costs only latency.
    fn acknowledge(&self);
}

impl ClientStream for TcpStream {
    fn acknowledge(&self) {
        let _ = self.set_quickack(true);
    }
}

impl ClientStream for TlsStream<TcpStream> {
    fn acknowledge(&self) {
        self.get_ref().0.acknowledge();
    }
}

impl<A: ClientStream, B: ClientStream> ClientStream for Either<A, B> {
    fn acknowledge(&self) {
        match self {
            Self::Left(stream) => stream.acknowledge(),
            Self::Right(stream) => stream.acknowledge(),
        }
    }
}
