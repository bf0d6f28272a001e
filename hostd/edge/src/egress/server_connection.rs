//! A connection to an `http://` server, with the address that was decided on.

use super::{limits, metered_body::MeteredBody};
use hostd_net::{backpressure::WindowBody, http1::Http1Connection};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{TrySendError, http1::Builder},
};
use std::{io, net::IpAddr};
use tokio::net::TcpStream;

pub struct ServerConnection {
    /// The peer: the address that was decided on, and is decided on again for each request.
    pub address: IpAddr,
    pub http: Http1Connection<TcpStream, WindowBody<MeteredBody>>,
}

impl ServerConnection {
    pub async fn handshake(stream: TcpStream) -> io::Result<Self> {
        let address = stream.peer_addr()?.ip();
        let mut builder = Builder::new();
        builder.max_buf_size(limits::HEAD_MAX_BYTES).max_headers(limits::HEADERS_MAX);
        let http = Http1Connection::handshake(stream, &builder).await.map_err(io::Error::other)?;
        Ok(Self { address, http })
    }

    /// Queues a request. The head of the response comes only while the connection is driven.
    pub fn send(
        &mut self,
        request: Request<MeteredBody>,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + Send + use<> {
        let window = self.http.window().clone();
        let sending = self.http.queue_request(request.map(|body| WindowBody::to(window, body)));
        async move { sending.await.map_err(TrySendError::into_error) }
    }
}
