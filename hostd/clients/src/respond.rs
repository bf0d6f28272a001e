//! Bodies of requests and responses, as all protocols need them.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::Serialize;

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
}

/// Reads a body of at most this size.
pub async fn read(body: Body, max_bytes: usize) -> Result<Bytes, BodyError> {
    match Limited::new(body, max_bytes).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(BodyError::TooLarge(max_bytes)),
        Err(_) => Err(BodyError::Broken),
    }
}
