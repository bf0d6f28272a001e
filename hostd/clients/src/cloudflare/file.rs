//! Single files of `/workspace`.

use super::{
    BridgeResult, SandboxCall,
    error::{BridgeCode, BridgeError},
    paths::BridgePath,
};
use crate::{ApiClient, ApiFailure, percent, respond};
use axum::{body::Body, response::Response};
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, RANGE},
};
use protocol::api::ApiErrorCode;
use serde_json::json;

pub async fn read(call: &SandboxCall<'_>, path: &str, headers: &HeaderMap) -> BridgeResult {
    let path = parse(path)?;
    let mut ask = ApiClient::request(Method::GET, &content(call, &path));
    if let Some(range) = headers.get(RANGE) {
        ask.headers_mut().insert(RANGE, range.clone());
    }
    let found = call.api.send(ask).await.map_err(|failure| unreadable(failure, &path))?;
    let (parts, body) = found.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = parts.status;
    // Never a type that a browser would show.
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    for name in [CONTENT_LENGTH, CONTENT_RANGE] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

pub async fn write(call: &SandboxCall<'_>, path: &str, headers: &HeaderMap, body: Body) -> BridgeResult {
    let path = parse(path)?;
    let mut write = ApiClient::request(Method::PUT, &content(call, &path));
    if let Some(length) = headers.get(CONTENT_LENGTH) {
        write.headers_mut().insert(CONTENT_LENGTH, length.clone());
    }
    *write.body_mut() = body;
    let written = call.api.send(write).await;
    written.map_err(|failure| BridgeError::of(failure, BridgeCode::WorkspaceArchiveWriteError))?;
    Ok(respond::json(StatusCode::OK, &json!({"ok": true})))
}

fn parse(path: &str) -> Result<BridgePath, BridgeError> {
    let decoded = percent::decode(path);
    let decoded = decoded.ok_or_else(|| BridgeError::invalid("the path is not percent-encoded"))?;
    if decoded.is_empty() {
        return Err(BridgeError::invalid("file path must not be empty"));
    }
    // The path is absolute; its slash belongs to the URL.
    Ok(BridgePath::parse(&[b"/", &decoded[..]].concat())?)
}

fn content(call: &SandboxCall<'_>, path: &BridgePath) -> String {
    call.path(&format!("/files/content?path={}", path.in_query()))
}

fn unreadable(failure: ApiFailure, path: &BridgePath) -> BridgeError {
    let missing = matches!(failure.error.code, ApiErrorCode::NotFound | ApiErrorCode::NotADirectory);
    let of_file = failure.error.detail.missing.is_none();
    if missing && of_file {
        let message = format!("File not found: {}", path.shown());
        return BridgeError::new(StatusCode::NOT_FOUND, BridgeCode::WorkspaceReadNotFound, message);
    }
    BridgeError::of(failure, BridgeCode::WorkspaceArchiveReadError)
}
