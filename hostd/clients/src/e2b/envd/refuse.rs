//! Answers a request whose body was not read. Without reading it, the connection could not be used again, and clients
//! that reuse it fail.

use super::limits::{DRAIN_MAX_MS, DRAINED_MAX_BYTES};
use crate::respond;
use axum::{body::Body, response::Response};
use hyper::header::{CONNECTION, HeaderValue};
use std::time::Duration;

/// Reads what is left of the body, up to a limit; beyond it the connection is closed after the answer.
pub async fn refuse(body: Body, mut response: Response) -> Response {
    let drained = respond::read(body, DRAINED_MAX_BYTES);
    match tokio::time::timeout(Duration::from_millis(DRAIN_MAX_MS), drained).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => closes(&mut response),
    }
    response
}

/// Says that the connection ends with this answer.
pub fn closes(response: &mut Response) {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
}
