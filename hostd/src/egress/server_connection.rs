//! One connection to a server that `http://` is asked of: driven by whoever uses it, and kept for the next request.

use super::{limits, metered_body::MeteredBody};
use crate::backpressure::{WindowBody, WindowIo, WriteWindow};
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
    /// Who is there: what was judged, and is judged again for each request.
    pub address: IpAddr,
    sender: SendRequest<WindowBody<MeteredBody>>,
    /// None when it has ended: it must not be polled then.
    connection: Option<Connection<TokioIo<WindowIo<TcpStream>>, WindowBody<MeteredBody>>>,
    /// Of the bodies that are sent on it.
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

    /// The head of the answer comes only while the line is driven, and so does its body.
    pub fn send(
        &mut self,
        request: Request<MeteredBody>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        self.sender.send_request(request.map(|body| WindowBody::to(self.window.clone(), body)))
    }

    pub fn drive(&mut self, cx: &mut Context<'_>) {
        // How it ended is told to whoever waits for the answer or its body.
        if let Some(connection) = &mut self.connection
            && connection.poll_without_shutdown(cx).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether another request can be sent on it, as far as one can tell without sending one.
    pub fn is_free(&mut self) -> bool {
        // Nobody is to be woken: it is only asked.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.sender.is_ready()
    }
}
