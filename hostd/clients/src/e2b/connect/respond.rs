//! Responses of calls.

use super::{
    CallKind, CallOptions, Code, ConnectError,
    body::{Sink, StreamBody},
    frame,
};
use crate::respond;
use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Serialize;
use serde_json::json;

const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// The message of a call with one, or its error.
pub fn unary<T: Serialize>(answer: Result<T, ConnectError>) -> Response {
    match answer {
        Ok(message) => respond::json(StatusCode::OK, &message),
        Err(error) => respond::json(error.code.status(), &error.to_json()),
    }
}

/// A stream of the messages that `work` sends.
pub fn server_stream<F>(
    options: CallOptions,
    keepalive: &'static str,
    work: impl FnOnce(Sink) -> F,
) -> Response
where
    F: Future<Output = Result<(), ConnectError>> + Send + 'static,
{
    stream(Body::new(StreamBody::new(options, keepalive, work)))
}

/// The response to a stream of the client, once `work` has read it: over HTTP/1.1 clients stop sending when a response
/// begins.
pub async fn client_stream(
    options: CallOptions,
    work: impl Future<Output = Result<(), ConnectError>>,
) -> Result<Response, ConnectError> {
    match options.timeout {
        Some(timeout) => tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
            Err(ConnectError::new(Code::DeadlineExceeded, "the timeout of the call has passed"))
        })?,
        None => work.await?,
    }
    let frames = [frame::message(b"{}"), frame::end(b"{}")].concat();
    Ok(stream(Body::from(frames)))
}

/// The failure of a call of this kind.
pub fn failed(kind: CallKind, error: &ConnectError) -> Response {
    match kind {
        CallKind::Unary => unary::<()>(Err(error.clone())),
        CallKind::ServerStream | CallKind::ClientStream => {
            let text = json!({"error": error.to_json()}).to_string();
            stream(Body::from(frame::end(text.as_bytes())))
        }
    }
}

fn stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/connect+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub fn unsupported_media_type(kind: CallKind) -> Response {
    let mut response = respond::empty(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    response.headers_mut().insert(ACCEPT_POST, HeaderValue::from_static(kind.content_type()));
    response
}
