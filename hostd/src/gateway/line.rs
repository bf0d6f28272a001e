//! One connection to a provider, driven by whoever uses it: no task of its own, so a piece of an answer costs no
//! more wake-ups than it has packets.

use super::{limits::HEAD_MAX_BYTES, origin::Origin};
use crate::{
    backpressure::WindowIo,
    outside::{Outside, OutsideError},
};
use bytes::Bytes;
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

pub struct Line {
    sender: SendRequest<Full<Bytes>>,
    connection: Connection<Wire, Full<Bytes>>,
    /// It must not be polled any more.
    ended: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error(transparent)]
    Outside(#[from] OutsideError),
    #[error("{}", cause(.0))]
    Http(#[from] hyper::Error),
    #[error("the connection was closed")]
    Closed,
}

impl Line {
    pub async fn open(outside: &Outside, origin: &Origin) -> Result<Self, LineError> {
        let stream = outside.connect(&origin.host, origin.port, |_| true).await?;
        let wire = if origin.secure {
            Either::Right(outside.secure(&origin.host, stream).await?)
        } else {
            Either::Left(stream)
        };
        // Requests are held whole anyway: nothing of them waits for the window.
        let wire = TokioIo::new(WindowIo::new(wire, Arc::default()));
        let (sender, connection) = Builder::new().max_header_size(HEAD_MAX_BYTES).handshake(wire).await?;
        Ok(Self { sender, connection, ended: false })
    }

    /// The head of the answer. Its body comes only while the line is driven.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, LineError> {
        let Self { sender, connection, ended } = self;
        let mut answer = pin!(sender.send_request(request));
        let answer = poll_fn(|cx| {
            drive(connection, ended, cx);
            match answer.as_mut().poll(cx) {
                // Nobody would tell.
                Poll::Pending if *ended => Poll::Ready(Err(LineError::Closed)),
                answered => answered.map_err(LineError::from),
            }
        });
        answer.await
    }

    /// Moves what can be moved.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.connection, &mut self.ended, cx);
    }

    /// Nothing moves on it any more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether another request can be sent on it, as far as one can tell without sending one.
    pub fn is_free(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.ended && self.sender.is_ready()
    }
}

fn drive(connection: &mut Connection<Wire, Full<Bytes>>, ended: &mut bool, cx: &mut Context<'_>) {
    if !*ended {
        // How it ended is told to whoever waits for the answer.
        *ended = matches!(connection.poll_without_shutdown(cx), Poll::Ready(_));
    }
}

/// hyper's own words with what is behind them.
fn cause(error: &hyper::Error) -> String {
    let inner = std::error::Error::source(error).map(|inner| format!(": {inner}")).unwrap_or_default();
    format!("{error}{inner}")
}
