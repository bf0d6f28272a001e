//! Errors in the form of the bridge: `{"error": text, "code": code}`.

use super::{endpoint::NoEndpoint, paths::OutsideWorkspace};
use crate::{
    ApiFailure,
    respond::{self, BodyError},
};
use axum::response::Response;
use hyper::{
    StatusCode,
    header::{HeaderValue, RETRY_AFTER},
};
use protocol::api::ApiErrorCode;
use serde::Serialize;

/// The codes that clients know. A code says which operation failed, so it does not follow from the error of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BridgeCode {
    Unauthorized,
    InvalidRequest,
    ExecError,
    ExecTransportError,
    WorkspaceReadNotFound,
    WorkspaceArchiveReadError,
    WorkspaceArchiveWriteError,
    CapacityExceeded,
    PoolError,
    MountError,
    UnmountError,
    SessionError,
    TunnelError,
}

#[derive(Debug, Clone, Serialize)]
pub struct BridgeError {
    #[serde(skip)]
    status: StatusCode,
    error: String,
    code: BridgeCode,
    #[serde(skip)]
    retry_after: Option<HeaderValue>,
}

impl BridgeError {
    pub fn new(status: StatusCode, code: BridgeCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), code, retry_after: None }
    }

    pub fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, BridgeCode::InvalidRequest, error)
    }

    pub fn no_such_sandbox() -> Self {
        let message = "no sandbox with this id (or it belongs to another tenant)";
        Self::new(StatusCode::NOT_FOUND, BridgeCode::InvalidRequest, message)
    }

    /// An error of the API, met by the operation that this code stands for.
    pub fn of(failure: ApiFailure, code: BridgeCode) -> Self {
        let (status, code) = match failure.error.code {
            ApiErrorCode::OutsideWorkspace => (StatusCode::FORBIDDEN, BridgeCode::InvalidRequest),
            ApiErrorCode::QuotaExceeded => (failure.status, BridgeCode::CapacityExceeded),
            _ => match failure.status {
                StatusCode::UNAUTHORIZED => (failure.status, BridgeCode::Unauthorized),
                StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN => {
                    (failure.status, BridgeCode::InvalidRequest)
                }
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                    (StatusCode::SERVICE_UNAVAILABLE, BridgeCode::CapacityExceeded)
                }
                other => (other, code),
            },
        };
        let retry_after = failure.headers.get(RETRY_AFTER).cloned();
        Self { status, error: failure.error.message, code, retry_after }
    }

    pub fn into_response(self) -> Response {
        let mut response = respond::json(self.status, &self);
        if let Some(after) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, after);
        }
        response
    }

    /// The error as the data of an event.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("an error has only text")
    }
}

impl From<NoEndpoint> for BridgeError {
    fn from(error: NoEndpoint) -> Self {
        let status = match error {
            NoEndpoint::NotFound => StatusCode::NOT_FOUND,
            NoEndpoint::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        };
        Self::new(status, BridgeCode::InvalidRequest, error.to_string())
    }
}

impl From<OutsideWorkspace> for BridgeError {
    fn from(error: OutsideWorkspace) -> Self {
        Self::new(StatusCode::FORBIDDEN, BridgeCode::InvalidRequest, error.to_string())
    }
}

impl From<BodyError> for BridgeError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        };
        Self::new(status, BridgeCode::InvalidRequest, error.to_string())
    }
}
