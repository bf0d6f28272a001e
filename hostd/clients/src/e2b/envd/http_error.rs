//! Errors of plain HTTP: `{"code": status, "message"}`.

use crate::{ApiFailure, respond};
use axum::response::Response;
use hyper::StatusCode;
use protocol::api::{ApiErrorCode, SandboxId};
use serde_json::json;

#[derive(Debug, Clone)]
pub struct HttpError {
    pub status: StatusCode,
    pub message: String,
}

impl HttpError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, message)
    }

    pub fn respond(&self) -> Response {
        let document = json!({"code": self.status.as_u16(), "message": self.message});
        respond::json(self.status, &document)
    }
}

impl From<ApiFailure> for HttpError {
    fn from(failure: ApiFailure) -> Self {
        let status = match failure.error.code {
            ApiErrorCode::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            ApiErrorCode::NotAFile
            | ApiErrorCode::NotADirectory
            | ApiErrorCode::NotEmpty
            | ApiErrorCode::FileExists
            | ApiErrorCode::OutsideWorkspace => StatusCode::BAD_REQUEST,
            ApiErrorCode::Asleep | ApiErrorCode::Gone => StatusCode::BAD_GATEWAY,
            _ => failure.status,
        };
        Self::new(status, failure.error.message)
    }
}

/// A sandbox that does not exist, or does not run until a client connects to it again. The SDKs look for this text.
pub fn sandbox_gone(sandbox: &str) -> Response {
    let document = json!({"sandboxId": sandbox, "message": "The sandbox was not found", "code": 502});
    respond::json(StatusCode::BAD_GATEWAY, &document)
}

/// A port of the sandbox that is not served. The SDKs look for this text, too.
pub fn port_closed(sandbox: &SandboxId, port: u16) -> Response {
    let message = "The sandbox is running but port is not open";
    let document = json!({"sandboxId": sandbox, "message": message, "port": port, "code": 502});
    respond::json(StatusCode::BAD_GATEWAY, &document)
}
