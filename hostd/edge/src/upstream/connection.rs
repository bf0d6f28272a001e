//! A connection to a port of a sandbox: tells whether a request was delivered, and gives the stream back when the app
//! speaks something other than HTTP.

use super::{
    delivery::{DeliveryMeter, HEAD_MAX_BYTES},
    protocol_sniffer::ProtocolSniffer,
    request_body::RequestBody,
    socket_limit::SocketPermit,
};
use bytes::Bytes;
use hostd_net::{backpressure::WriteWindow, http1::Http1Connection};
use hyper::{Request, Response, body::Incoming, client::conn::http1::Builder};
use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    thread::{self, ThreadId},
};

pub struct UpstreamConnection {
    http: Http1Connection<ProtocolSniffer, RequestBody>,
    /// How often the sandbox had stopped when the connection was opened.
    pub epoch: u64,
    pub(super) permit: SocketPermit,
    meter: Arc<DeliveryMeter>,
    /// The thread that opened the socket. Another thread would have to be woken for each of its packets.
    pub(super) thread: ThreadId,
}

/// Why a request got no response.
pub enum SendError {
    /// None of the request was sent.
    NotSent(Box<Request<RequestBody>>, hyper::Error),
    /// The head of the response, with all interim responses before it, is too large.
    HeadTooLarge,
    Broken {
        error: hyper::Error,
        received_bytes: bool,
    },
}

/// The stream of a connection that does not speak HTTP any more.
pub struct UpgradedConnection {
    pub stream: Box<dyn hostd_drivers::Stream>,
    /// Bytes that were read from it already.
    pub read_ahead: Bytes,
    pub epoch: u64,
    /// Held as long as the stream is open.
    pub permit: SocketPermit,
}

impl UpstreamConnection {
    pub async fn handshake(
        stream: Box<dyn hostd_drivers::Stream>,
        permit: SocketPermit,
        epoch: u64,
    ) -> hyper::Result<Self> {
        let meter = Arc::<DeliveryMeter>::default();
        let sniffer = ProtocolSniffer::new(stream, meter.clone());
        let http =
            Http1Connection::handshake(sniffer, Builder::new().max_header_size(HEAD_MAX_BYTES)).await?;
        Ok(Self { http, epoch, permit, meter, thread: thread::current().id() })
    }

    /// The write window of the bodies that are sent on this connection.
    pub fn window(&self) -> &Arc<WriteWindow> {
        self.http.window()
    }

    /// Sends a request and returns the head of the response. The body comes only while the connection is driven.
    pub fn send(
        &mut self,
        mut request: Request<RequestBody>,
    ) -> (impl Future<Output = Result<Response<Incoming>, SendError>> + Send, &DeliveryMeter) {
        let Self { http, meter, .. } = self;
        let meter: &DeliveryMeter = {
            request.body_mut().attach(meter, http.window());
            meter
        };
        meter.on_request();
        let sending = http.queue_request(request);
        let sent = async move {
            let mut sending = pin!(sending);
            let response = poll_fn(|cx| {
                http.poll_response(cx, |cx| match sending.as_mut().poll(cx) {
                    Poll::Ready(response) => Poll::Ready(Some(response)),
                    Poll::Pending if meter.is_head_too_large() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                })
            });
            let mut failed = match response.await {
                Some(Ok(response)) => {
                    meter.on_response();
                    return Ok(response);
                }
                Some(Err(failed)) => failed,
                None => return Err(SendError::HeadTooLarge),
            };
            let request = failed.take_message();
            let (error, received_bytes) = (failed.into_error(), !meter.has_received_nothing());
            Err(match request {
                Some(request) => SendError::NotSent(Box::new(request), error),
                None => SendError::Broken { error, received_bytes },
            })
        };
        (sent, meter)
    }

    /// Drives the connection, and polls `response`, which waits for a part of the response.
    pub fn poll_response<R>(
        &mut self,
        cx: &mut Context<'_>,
        response: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        self.http.poll_response(cx, response)
    }

    /// Whether another request can be sent, as far as one can tell without sending one.
    pub fn is_reusable(&mut self, cx: &mut Context<'_>) -> bool {
        self.http.is_reusable(cx)
    }

    /// The stream of a connection without a response, if the app sent something other than HTTP.
    pub fn into_non_http(self) -> Option<UpgradedConnection> {
        let (sniffer, _) = self.http.into_stream();
        let (stream, non_http) = sniffer.into_inner();
        let (epoch, permit) = (self.epoch, self.permit);
        non_http.map(|read_ahead| UpgradedConnection { stream, read_ahead, epoch, permit })
    }

    /// The stream after a response of 101, once the whole head was read.
    pub async fn into_upgraded(mut self) -> UpgradedConnection {
        poll_fn(|cx| {
            self.http.drive(cx);
            if self.http.has_ended() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let (sniffer, read_ahead) = self.http.into_stream();
        let (stream, _) = sniffer.into_inner();
        UpgradedConnection { stream, read_ahead, epoch: self.epoch, permit: self.permit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::SocketLimit;
    use hostd_net::http1::two_piece_server::{self, BODY, check_kept_is_no_slower, connect};
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_response_in_two_pieces_takes_no_longer_on_a_kept_connection() {
        let sockets: &'static SocketLimit = Box::leak(Box::new(SocketLimit::new(10)));
        let server = two_piece_server::start().await.expect("a server");
        check_kept_is_no_slower(async |kept: Option<UpstreamConnection>| {
            let mut connection = match kept {
                Some(connection) => connection,
                None => {
                    let permit = sockets.acquire().expect("a permit");
                    UpstreamConnection::handshake(Box::new(connect(server).await), permit, 0)
                        .await
                        .expect("a connection")
                }
            };
            let request =
                Request::get("/").header("host", "app").body(RequestBody::empty()).expect("a request");
            let Ok(response) = connection.send(request).0.await else { panic!("no response") };
            let mut body = pin!(response.into_body().collect());
            let whole = poll_fn(|cx| connection.poll_response(cx, |cx| body.as_mut().poll(cx)));
            assert_eq!(whole.await.expect("a body").to_bytes(), BODY);
            connection
        })
        .await;
    }
}
