//! One request and its response on a connection that nothing else drives.

use super::{ClientStream, Http1Connection};
use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
};
use std::{
    error::Error,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
};

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error("{}", cause(.0))]
    Http(#[from] hyper::Error),
    #[error("the connection was closed")]
    Closed,
}

impl<T, B> Http1Connection<T, B>
where
    T: ClientStream,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Sends a request and returns the head of the response. The body arrives only while the connection is driven.
    pub async fn send(&mut self, request: Request<B>) -> Result<Response<Incoming>, ExchangeError> {
        let mut response = pin!(self.queue_request(request));
        let head = poll_fn(|cx| {
            let head = self.poll_response(cx, |cx| response.as_mut().poll(cx));
            // Nothing would wake the task any more.
            if head.is_pending() && self.has_ended() {
                return Poll::Ready(Err(ExchangeError::Closed));
            }
            head.map_err(|failed| ExchangeError::Http(failed.into_error()))
        });
        head.await
    }
}

/// The body of a response, with the connection that it comes on.
pub struct ResponseBody<T: ClientStream, B: Body + 'static> {
    incoming: Incoming,
    connection: Option<Box<Http1Connection<T, B>>>,
}

impl<T, B> ResponseBody<T, B>
where
    T: ClientStream,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    pub fn new(incoming: Incoming, connection: Box<Http1Connection<T, B>>) -> Self {
        Self { incoming, connection: Some(connection) }
    }

    /// Returns the next piece, and drives the connection that it comes on.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            // hyper may hold a piece already; if not, driving the connection may bring one.
            let mut next = Pin::new(&mut self.incoming).poll_frame(cx);
            if next.is_pending()
                && let Some(connection) = &mut self.connection
            {
                next = connection.poll_response(cx, |cx| Pin::new(&mut self.incoming).poll_frame(cx));
            }
            match next {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    // Empty pieces and trailers are not returned.
                    Ok(_) | Err(_) => {}
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                // hyper reports the end of a body that was cut off only when its connection is dropped.
                Poll::Pending
                    if self.connection.as_ref().is_some_and(|connection| connection.has_ended()) =>
                {
                    self.connection = None;
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Takes the connection, which is reusable only after the end of the body.
    pub fn take_connection(&mut self) -> Option<Box<Http1Connection<T, B>>> {
        self.connection.take()
    }
}

/// hyper's message with its source.
fn cause(error: &hyper::Error) -> String {
    let inner = error.source().map(|inner| format!(": {inner}")).unwrap_or_default();
    format!("{error}{inner}")
}
