//! A connection to a port, driven by the request that uses it: no task of its own, so a request costs no more
//! wake-ups than it has packets, and an idle connection costs nothing.

use super::{
    delivery::{DeliveryMeter, HEAD_MAX_BYTES},
    protocol_sniffer::ProtocolSniffer,
    request_body::RequestBody,
    socket_limit::SocketPermit,
};
use bytes::Bytes;
use hostd_net::backpressure::{WindowIo, WriteWindow};
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
    thread::{self, ThreadId},
};

type Wire = TokioIo<WindowIo<ProtocolSniffer>>;

pub struct UpstreamConnection {
    sender: SendRequest<RequestBody>,
    http: Connection<Wire, RequestBody>,
    /// `http` must not be polled any more.
    ended: bool,
    /// How often the sandbox had stopped when the connection was opened.
    pub epoch: u64,
    pub(super) permit: SocketPermit,
    meter: Arc<DeliveryMeter>,
    /// Bounds the bodies that are sent on this connection.
    pub window: Arc<WriteWindow>,
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
        let window = Arc::<WriteWindow>::default();
        let io = TokioIo::new(WindowIo::new(ProtocolSniffer::new(stream, meter.clone()), window.clone()));
        let (sender, http) = Builder::new().max_header_size(HEAD_MAX_BYTES).handshake(io).await?;
        let thread = thread::current().id();
        Ok(Self { sender, http, ended: false, epoch, permit, meter, window, thread })
    }

    /// Sends a request and returns the head of the response. The body comes only while the connection is driven.
    pub fn send(
        &mut self,
        mut request: Request<RequestBody>,
    ) -> (impl Future<Output = Result<Response<Incoming>, SendError>> + Send, &DeliveryMeter) {
        let Self { sender, http, ended, meter, window, .. } = self;
        let meter: &DeliveryMeter = {
            request.body_mut().attach(meter, window);
            meter
        };
        meter.on_request();
        let sending = sender.try_send_request(request);
        let sent = async move {
            let mut sending = pin!(sending);
            let response = poll_fn(|cx| {
                drive(http, ended, cx);
                match sending.as_mut().poll(cx) {
                    Poll::Ready(response) => Poll::Ready(Some(response)),
                    Poll::Pending if meter.is_head_too_large() => Poll::Ready(None),
                    Poll::Pending => Poll::Pending,
                }
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

    /// Reads and writes what can be moved now.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.http, &mut self.ended, cx);
    }

    /// Whether another request can be sent, as far as one can tell without sending one.
    pub fn is_reusable(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.ended && self.sender.is_ready()
    }

    /// The stream of a connection without a response, if the app sent something other than HTTP.
    pub fn into_non_http(self) -> Option<UpgradedConnection> {
        let (stream, non_http) = self.http.into_parts().io.into_inner().into_inner().into_inner();
        let (epoch, permit) = (self.epoch, self.permit);
        non_http.map(|read_ahead| UpgradedConnection { stream, read_ahead, epoch, permit })
    }

    /// The stream after a response of 101, once the whole head was read.
    pub async fn into_upgraded(mut self) -> UpgradedConnection {
        poll_fn(|cx| {
            self.drive(cx);
            if self.ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let parts = self.http.into_parts();
        let (stream, _) = parts.io.into_inner().into_inner().into_inner();
        let (epoch, permit) = (self.epoch, self.permit);
        UpgradedConnection { stream, read_ahead: parts.read_buf, epoch, permit }
    }
}

fn drive(http: &mut Connection<Wire, RequestBody>, ended: &mut bool, cx: &mut Context<'_>) {
    if !*ended {
        // How it ended is reported to the future that waits for the response.
        *ended = http.poll_without_shutdown(cx).is_ready();
    }
}
