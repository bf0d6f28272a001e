//! Bodies of answers.

use super::rouse::rouse;
use crate::{
    backpressure::WriteWindow,
    reconcile::{Fleet, RequestPermit},
    traffic,
    upstream::Line,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

pub enum Answer {
    /// Our own words.
    Whole(Full<Bytes>),
    /// Our own, as they come.
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
    App(AppBody),
}

impl Answer {
    pub fn empty() -> Self {
        Self::Whole(Full::default())
    }

    /// The connection that it comes from.
    pub fn source(&self) -> Option<Arc<WriteWindow>> {
        match self {
            Self::Whole(_) | Self::Events(_) => None,
            Self::App(body) => body.line.as_ref().map(|line| line.window.clone()),
        }
    }
}

impl Body for Answer {
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
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Events(_) => false,
            Self::App(body) => body.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
            Self::App(body) => body.incoming.size_hint(),
        }
    }
}

/// What an app answers. Drives the line it comes on, and gives it back at the end.
pub struct AppBody {
    incoming: Incoming,
    line: Option<Box<Line>>,
    epoch: u64,
    port: u16,
    traffic: traffic::Stream,
    visit: RequestPermit,
    fleet: Fleet,
    /// What is wanted does not come: it is frozen.
    rousing: Option<Rousing>,
}

type Rousing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

impl AppBody {
    pub fn new(incoming: Incoming, line: Box<Line>, port: u16, visit: RequestPermit, fleet: Fleet) -> Self {
        let (traffic, epoch) = (visit.site().traffic.stream(), line.epoch);
        let line = Some(line);
        let mut body = Self { incoming, line, epoch, port, traffic, visit, fleet, rousing: None };
        if body.incoming.is_end_stream() {
            body.give_back(&mut Context::from_waker(std::task::Waker::noop()));
        }
        body
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        // What is there; else what the line has; else what that brought.
        let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
        if next.is_pending()
            && let Some(line) = &mut self.line
        {
            line.drive(cx);
            next = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        match &next {
            Poll::Ready(Some(Ok(frame))) => {
                self.traffic.moved(frame.data_ref().map_or(0, Bytes::len));
                if self.incoming.is_end_stream() {
                    self.give_back(cx);
                }
            }
            Poll::Ready(None) => self.give_back(cx),
            Poll::Ready(Some(Err(_))) => {}
            Poll::Pending => self.rouse(cx),
        }
        next.map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }

    /// Somebody reads on, perhaps after a long time.
    fn rouse(&mut self, cx: &mut Context<'_>) {
        let site = self.visit.site();
        // What is on its way down may still end its answer.
        if self.rousing.is_none() && !site.is_up() && site.record().state.stays_up() {
            let (site, fleet, epoch) = (site.clone(), self.fleet.clone(), self.epoch);
            self.rousing = Some(Box::pin(async move { rouse(&site, &fleet, epoch).await }));
        }
        if let Some(rousing) = &mut self.rousing
            && rousing.as_mut().poll(cx).is_ready()
        {
            // If that failed, the line breaks.
            self.rousing = None;
        }
    }

    fn give_back(&mut self, cx: &mut Context<'_>) {
        if let Some(mut line) = self.line.take()
            && line.is_free(cx)
        {
            self.visit.site().lines.put(self.port, line);
        }
    }
}
