//! HTTP responses: the one place where values and errors become HTTP.

use super::response_body::ResponseBody;
use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use protocol::{ErrorBody, ErrorCode};
use serde::Serialize;

pub type HttpResponse = Response<ResponseBody>;
pub type Refusal = Box<ErrorBody>;

pub fn json(status: StatusCode, value: &impl Serialize) -> HttpResponse {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(status, "application/json", ResponseBody::full(Bytes::from(bytes))),
        Err(error) => error_response(&ErrorBody::new(
            ErrorCode::Internal,
            format!("could not encode the answer: {error}"),
        )),
    }
}

pub fn ok(value: &impl Serialize) -> HttpResponse {
    json(StatusCode::OK, value)
}

pub fn no_content() -> HttpResponse {
    let mut answer = Response::new(ResponseBody::empty());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer
}

pub fn with_type(status: StatusCode, kind: &'static str, body: ResponseBody) -> HttpResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

pub fn error_response(error: &ErrorBody) -> HttpResponse {
    let status =
        StatusCode::from_u16(error.error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let bytes = serde_json::to_vec(error).unwrap_or_default();
    with_type(status, "application/json", ResponseBody::full(Bytes::from(bytes)))
}

pub fn refuse(code: ErrorCode, message: impl Into<String>) -> Refusal {
    Box::new(ErrorBody::new(code, message))
}
