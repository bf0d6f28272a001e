//! Bodies that count their bytes, and end when the connection must be cut.

use super::{
    head_size,
    server_connection::ServerConnection,
    tracked_connection::{CutReason, Direction, TrackedConnection},
};
use crate::upstream::BodyError;
use axum::BoxError;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// A body that counts its bytes. Without an inner body it is empty.
pub struct MeteredBody {
    body: Option<Incoming>,
    tracked: Arc<TrackedConnection>,
    direction: Direction,
}

impl MeteredBody {
    pub fn new(body: Option<Incoming>, tracked: Arc<TrackedConnection>, direction: Direction) -> Self {
        Self { body, tracked, direction }
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = match ready!(Pin::new(body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let error: BoxError = match self.direction {
                    Direction::Up => BodyError::Malformed(error).into(),
                    Direction::Down => error.into(),
                };
                return Poll::Ready(Some(Err(error)));
            }
            None => return Poll::Ready(None),
        };
        let bytes =
            frame.data_ref().map_or(0, Bytes::len) + frame.trailers_ref().map_or(0, head_size::fields_bytes);
        Poll::Ready(Some(self.tracked.count(self.direction, bytes).map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

/// The body of a response with the connection that it comes on, which returns to the pool when all of it has
/// come.
pub struct ServerBody {
    pub connection: Option<Box<ServerConnection>>,
    pub body: MeteredBody,
    pub cut: BoxFuture<'static, CutReason>,
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { connection, body, cut } = &mut *self;
        if let Poll::Ready(cut) = cut.as_mut().poll(cx) {
            return Poll::Ready(Some(Err(cut.into())));
        }
        let mut poll_body = |cx: &mut Context<'_>| Pin::new(&mut *body).poll_frame(cx);
        match connection {
            Some(connection) => connection.http.poll_response(cx, poll_body),
            None => poll_body(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ServerBody {
    fn drop(&mut self) {
        if self.body.is_end_stream()
            && let Some(connection) = self.connection.take()
        {
            self.body.tracked.return_to_pool(connection);
        }
    }
}
