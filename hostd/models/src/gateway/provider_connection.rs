//! A connection to a provider. The task that uses it also drives it: without a task of its own, a piece of a
//! response costs no more wake-ups than it has packets.

use super::{base_url::Origin, limits::HEAD_MAX_BYTES};
use bytes::Bytes;
use hostd_net::{
    backpressure::WindowIo,
    outbound::{OutboundConnector, OutboundError},
};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

type Wire = TokioIo<WindowIo<Either<TcpStream, TlsStream<TcpStream>>>>;

pub struct ProviderConnection {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<Wire, Full<Bytes>>,
    /// The connection must not be polled any more.
    ended: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    OutboundConnector(#[from] OutboundError),
    #[error("{}", cause(.0))]
    Http(#[from] hyper::Error),
    #[error("the connection was closed")]
    Closed,
}

impl ProviderConnection {
    pub async fn open(connector: &OutboundConnector, origin: &Origin) -> Result<Self, ConnectionError> {
        let stream = connector.connect(&origin.host, origin.port, |_| true).await?;
        let wire = if origin.secure {
            Either::Right(connector.connect_tls(&origin.host, stream).await?)
        } else {
            Either::Left(stream)
        };
        // Requests are in memory whole, so nothing waits for the write window.
        let wire = TokioIo::new(WindowIo::new(wire, Arc::default()));
        let (sender, connection) = Builder::new().max_header_size(HEAD_MAX_BYTES).handshake(wire).await?;
        Ok(Self { sender, connection, ended: false })
    }

    /// Returns the head of the response. The body arrives only while the connection is driven.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ConnectionError> {
        let Self { sender, connection, ended } = self;
        let mut response = pin!(sender.send_request(request));
        let response = poll_fn(|cx| {
            drive(connection, ended, cx);
            let response = response.as_mut().poll(cx);
            // Nothing would wake the task any more.
            if response.is_pending() && *ended {
                return Poll::Ready(Err(ConnectionError::Closed));
            }
            response.map_err(ConnectionError::from)
        });
        response.await
    }

    /// Reads and writes as much as is possible now.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, &mut self.ended, cx);
    }

    /// Whether the connection is closed.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether another request can be sent, as far as that is known without sending one.
    pub fn is_reusable(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.ended && self.sender.is_ready()
    }
}

fn drive(connection: &mut Connection<Wire, Full<Bytes>>, ended: &mut bool, cx: &mut Context<'_>) {
    if !*ended {
        // The future of the response gets the error, if there is one.
        *ended = matches!(connection.poll_without_shutdown(cx), Poll::Ready(_));
    }
}

/// hyper's message with its source.
fn cause(error: &hyper::Error) -> String {
    let inner = std::error::Error::source(error).map(|inner| format!(": {inner}")).unwrap_or_default();
    format!("{error}{inner}")
}
