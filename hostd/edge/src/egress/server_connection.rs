//! A connection to an `http://` server. The task that uses it also drives it, and it is kept for the next
//! request.

use super::{limits, metered_body::MeteredBody};
use hostd_net::backpressure::{WindowBody, WindowIo, WriteWindow};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use std::{
    io,
    net::IpAddr,
    sync::Arc,
    task::{Context, Waker},
};
use tokio::net::TcpStream;

pub struct ServerConnection {
    /// The peer: the address that was decided on, and is decided on again for each request.
    pub address: IpAddr,
    sender: SendRequest<WindowBody<MeteredBody>>,
    /// None when it has ended, since it must not be polled then.
    connection: Option<Connection<TokioIo<WindowIo<TcpStream>>, WindowBody<MeteredBody>>>,
    /// The write window of the bodies that are sent on it.
    pub window: Arc<WriteWindow>,
}

impl ServerConnection {
    pub async fn handshake(stream: TcpStream) -> io::Result<Self> {
        let address = stream.peer_addr()?.ip();
        let window = Arc::<WriteWindow>::default();
        let handshake = Builder::new()
            .max_buf_size(limits::HEAD_MAX_BYTES)
            .max_headers(limits::HEADERS_MAX)
            .handshake(TokioIo::new(WindowIo::new(stream, window.clone())));
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        Ok(Self { address, sender, connection: Some(connection), window })
    }

    /// Sends a request. The head of the response arrives only while the connection is driven, and so does its
    /// body.
    pub fn send(
        &mut self,
        request: Request<MeteredBody>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        self.sender.send_request(request.map(|body| WindowBody::to(self.window.clone(), body)))
    }

    pub fn drive(&mut self, cx: &mut Context<'_>) {
        // The future of the response or its body gets the error, if there is one.
        if let Some(connection) = &mut self.connection
            && connection.poll_without_shutdown(cx).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether another request can be sent, as far as that is known without sending one.
    pub fn is_reusable(&mut self) -> bool {
        // Only a check, so nothing is woken.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}
