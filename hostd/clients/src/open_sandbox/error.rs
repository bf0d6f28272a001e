//! Errors in the form of OpenSandbox: `{"code": code, "message": text}`.

use crate::{
    ApiFailure,
    respond::{self, BodyError},
};
use axum::response::Response;
use hyper::{
    StatusCode,
    header::{HeaderValue, RETRY_AFTER},
};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Serialize)]
pub struct SandboxError {
    #[serde(skip)]
    pub status: StatusCode,
    pub code: String,
    pub message: String,
    #[serde(skip)]
    retry_after: Option<HeaderValue>,
}

impl SandboxError {
    pub fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into(), retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this path")
    }

    pub fn no_such_sandbox() -> Self {
        let message = "no sandbox with this id (or it belongs to another tenant)";
        Self::new(StatusCode::NOT_FOUND, "SANDBOX_NOT_FOUND", message)
    }

    /// What Slipway does not have, and why.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "UNSUPPORTED", message)
    }

    pub fn into_response(self) -> Response {
        let mut response = respond::json(self.status, &self);
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, after);
        }
        response
    }
}

impl From<ApiFailure> for SandboxError {
    fn from(failure: ApiFailure) -> Self {
        // The codes of the API, in the case that clients know.
        let code = match serde_json::to_value(failure.error.code) {
            Ok(Value::String(code)) => code.to_uppercase(),
            Ok(_) | Err(_) => "INTERNAL".to_owned(),
        };
        let retry_after = failure.headers.get(RETRY_AFTER).cloned();
        Self { status: failure.status, code, message: failure.error.message, retry_after }
    }
}

impl From<BodyError> for SandboxError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", error.to_string())
            }
            BodyError::Broken => Self::invalid(error.to_string()),
            BodyError::TimedOut => Self::new(StatusCode::REQUEST_TIMEOUT, "TIMED_OUT", error.to_string()),
        }
    }
}
