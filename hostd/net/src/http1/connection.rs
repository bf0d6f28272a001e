//! A connection to an HTTP/1.1 server, driven by the task that uses it. Without a task of its own, a request costs no
//! more wake-ups than it has packets, and an idle connection costs nothing.

use super::{
    ClientStream, Pooled,
    quick_ack::{AckState, QuickAckIo},
};
use crate::backpressure::{WindowIo, WriteWindow};
use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    client::conn::{
        TrySendError,
        http1::{Builder, Connection, SendRequest},
    },
};
use hyper_util::rt::TokioIo;
use std::{
    error::Error,
    sync::Arc,
    task::{Context, Poll, Waker},
};

type Wire<T> = TokioIo<WindowIo<QuickAckIo<T>>>;

pub struct Http1Connection<T: ClientStream, B: Body + 'static> {
    sender: SendRequest<B>,
    http: Connection<Wire<T>, B>,
    /// `http` must not be polled any more.
    ended: bool,
    /// Bounds the bodies that are sent on this connection.
    window: Arc<WriteWindow>,
    acks: Arc<AckState>,
}

impl<T, B> Http1Connection<T, B>
where
    T: ClientStream,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Sends nothing yet. `builder` has the limits of the heads that the server sends.
    pub async fn handshake(stream: T, builder: &Builder) -> hyper::Result<Self> {
        let (window, acks) = (Arc::<WriteWindow>::default(), Arc::<AckState>::default());
        let wire = TokioIo::new(WindowIo::new(QuickAckIo::new(stream, acks.clone()), window.clone()));
        let (sender, http) = builder.handshake(wire).await?;
        Ok(Self { sender, http, ended: false, window, acks })
    }

    /// The write window of the bodies that are sent on this connection.
    pub fn window(&self) -> &Arc<WriteWindow> {
        &self.window
    }

    /// Queues a request. The head of the response comes only while the connection is driven, and so does its body.
    pub fn queue_request(
        &mut self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<B>>>> + Send + use<T, B> {
        self.sender.try_send_request(request)
    }

    /// Reads and writes what can be moved now.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.ended {
            // The future of the response, or its body, gets the error if there is one.
            self.ended = self.http.poll_without_shutdown(cx).is_ready();
        }
    }

    /// Drives the connection, and polls `response`, which waits for the head of a response or for a part of its body.
    pub fn poll_response<R>(
        &mut self,
        cx: &mut Context<'_>,
        mut response: impl FnMut(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        loop {
            self.drive(cx);
            let polled = response(cx);
            if polled.is_ready() || !self.acks.wait_for_rest() {
                return polled;
            }
        }
    }

    /// Whether the server closed the connection, or HTTP ended on it.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether another request can be sent, as far as that is known without sending one.
    pub fn is_reusable(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        !self.ended && self.sender.is_ready()
    }

    /// The stream, and what was read from it beyond HTTP.
    pub fn into_stream(self) -> (T, Bytes) {
        let parts = self.http.into_parts();
        (parts.io.into_inner().into_inner().into_inner(), parts.read_buf)
    }
}

impl<T, B> Pooled for Box<Http1Connection<T, B>>
where
    T: ClientStream,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn is_reusable(&mut self) -> bool {
        // Only a check, so nothing is woken.
        Http1Connection::is_reusable(self, &mut Context::from_waker(Waker::noop()))
    }
}
