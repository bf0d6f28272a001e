//! Bodies of responses: error pages, the events of a page that waits, and what apps send.

use super::{auth::AccessEnded, wake::thaw_same_epoch};
use crate::{preview_target::RequestPermit, traffic, upstream::UpstreamConnection, waker::Waker};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hostd_net::backpressure::WriteWindow;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

pub enum ResponseBody {
    /// An error page, or nothing.
    Whole(Full<Bytes>),
    /// Events for a page that waits.
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    App(AppBody),
    /// A response of a protocol of other clients.
    Client(axum::body::Body),
}

impl ResponseBody {
    pub fn empty() -> Self {
        Self::Whole(Full::default())
    }

    /// The window of the connection that the body comes from.
    pub fn source(&self) -> Option<Arc<WriteWindow>> {
        match self {
            Self::Whole(_) | Self::Events(_) | Self::Client(_) => None,
            Self::App(body) => body.connection.as_ref().map(|connection| connection.window().clone()),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Whole(whole) => Pin::new(whole)
                .poll_frame(cx)
                .map(|next| next.map(|frame| frame.map_err(|never| match never {}))),
            Self::Events(events) => {
                events.poll_next_unpin(cx).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
            }
            Self::App(body) => body.poll(cx),
            Self::Client(body) => {
                Pin::new(body).poll_frame(cx).map(|next| next.map(|frame| frame.map_err(io::Error::other)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Events(_) => false,
            Self::App(body) => body.incoming.is_end_stream(),
            Self::Client(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
            Self::App(body) => body.incoming.size_hint(),
            Self::Client(body) => body.size_hint(),
        }
    }
}

/// The body of an app's response. Drives the connection it comes on, and returns that to the pool at the end.
pub struct AppBody {
    incoming: Incoming,
    connection: Option<Box<UpstreamConnection>>,
    epoch: u64,
    port: u16,
    traffic: traffic::PreviewStream,
    visit: RequestPermit,
    waker: Arc<dyn Waker>,
    /// Runs while a frozen sandbox is thawed for the rest of the body.
    thawing: Option<Thawing>,
    /// Set where a token opened the response.
    ended: Option<AccessEnded>,
}

type Thawing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl AppBody {
    pub fn new(
        incoming: Incoming,
        connection: Box<UpstreamConnection>,
        port: u16,
        visit: RequestPermit,
        waker: Arc<dyn Waker>,
    ) -> Self {
        let (traffic, epoch) = (visit.target().traffic.stream(), connection.epoch);
        let connection = Some(connection);
        let mut body =
            Self { incoming, connection, epoch, port, traffic, visit, waker, thawing: None, ended: None };
        if body.incoming.is_end_stream() {
            body.return_to_pool(&mut Context::from_waker(std::task::Waker::noop()));
        }
        body
    }

    /// Aborts the body when the access ends: its reader must not take a part for the whole.
    pub fn until(self, ended: Option<AccessEnded>) -> Self {
        Self { ended, ..self }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(ended) = &mut self.ended
            && let Poll::Ready(end) = ended.as_mut().poll(cx)
        {
            // Polled again, it would panic.
            self.ended = None;
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::PermissionDenied, end.reason()))));
        }
        // Takes a frame that was read already; else drives the connection and looks again.
        let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
        if next.is_pending()
            && let Some(connection) = &mut self.connection
        {
            next = connection.poll_response(cx, |cx| Pin::new(&mut self.incoming).poll_frame(cx));
        }
        match &next {
            Poll::Ready(Some(Ok(frame))) => {
                self.traffic.record_bytes(frame.data_ref().map_or(0, Bytes::len));
                if self.incoming.is_end_stream() {
                    self.return_to_pool(cx);
                }
            }
            Poll::Ready(None) => self.return_to_pool(cx),
            Poll::Ready(Some(Err(_))) => {}
            Poll::Pending => self.thaw(cx),
        }
        next.map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }

    /// The browser reads on, perhaps after a long time: thaws the sandbox if it was frozen meanwhile.
    fn thaw(&mut self, cx: &mut Context<'_>) {
        let target = self.visit.target();
        // A sandbox that is being stopped may still end its response.
        if self.thawing.is_none() && !target.is_up() && target.record().state.stays_up() {
            let (target, waker, epoch) = (target.clone(), self.waker.clone(), self.epoch);
            self.thawing = Some(Box::pin(async move { thaw_same_epoch(&target, &*waker, epoch).await }));
        }
        if let Some(thawing) = &mut self.thawing
            && thawing.as_mut().poll(cx).is_ready()
        {
            // If that failed, the connection breaks by itself.
            self.thawing = None;
        }
    }

    fn return_to_pool(&mut self, cx: &mut Context<'_>) {
        if let Some(mut connection) = self.connection.take()
            && connection.is_reusable(cx)
        {
            self.visit.target().connections.put(self.port, connection);
        }
    }
}
