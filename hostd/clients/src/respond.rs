//! Bodies of requests and responses, as all protocols need them.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::Serialize;
use std::time::Duration;
use tokio::time::timeout;

/// A JSON document.
pub fn json<T: Serialize>(status: StatusCode, document: &T) -> Response {
    let text = serde_json::to_vec(document).expect("documents of ours have only text keys");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the body ended early")]
    Broken,
    #[error("the body was not received in time")]
    TimedOut,
}

/// How long a body may take that is read whole, as for Slipway's own API.
pub const BODY_TIMEOUT: Duration = Duration::from_millis(hostd_core::limits::BODY_TIMEOUT_MS);

/// Reads a body of at most this size, in a bounded time.
pub async fn read(body: Body, max_bytes: usize) -> Result<Bytes, BodyError> {
    match timeout(BODY_TIMEOUT, Limited::new(body, max_bytes).collect()).await {
        Err(_) => Err(BodyError::TimedOut),
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(BodyError::TooLarge(max_bytes))
        }
        Ok(Err(_)) => Err(BodyError::Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::BoxError;
    use futures_util::{StreamExt, stream};

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up() {
        let piece = || stream::once(async { Ok::<_, BoxError>(Bytes::from_static(b"{")) });
        let endless = Body::from_stream(piece().chain(stream::pending()));
        assert_eq!(read(endless, 9).await, Err(BodyError::TimedOut));
        assert_eq!(read(Body::from_stream(piece()), 9).await, Ok(Bytes::from_static(b"{")));
        assert_eq!(read(Body::from_stream(piece()), 0).await, Err(BodyError::TooLarge(0)));
    }
}
