//! Errors of the older routes: one text, and for retryable errors a code.

use super::super::{
    error::{CallError, ErrorExtension},
    host::memory_available_percent,
    views,
};
use axum::response::Response;
use hyper::{
    StatusCode,
    header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use protocol::api::ApiErrorCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Seconds a client waits before it retries.
const RETRY_AFTER_S: &str = "30";

#[derive(Debug, Serialize, ToSchema)]
pub struct OlderError {
    /// A text; with 503 one of low_memory, wakes_refused, start_failed, shutting_down.
    pub error: String,
    /// With 503: what happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_available_percent: Option<u64>,
}

/// Turns an error into a response, with the extension that the audit log reads.
pub fn respond(failure: CallError) -> Response {
    let code = failure.error.code;
    let (status, word) = status_of(code);
    let error = match (word, failure.error.detail.field) {
        (Some(word), _) => word.to_owned(),
        (None, Some(field)) => format!("{field}: {}", failure.error.message),
        (None, None) => failure.error.message.clone(),
    };
    let later = status == StatusCode::SERVICE_UNAVAILABLE;
    let body = OlderError {
        error,
        message: later.then_some(failure.error.message),
        mem_available_percent: later.then(memory_available_percent),
    };
    let mut response = views::json(status, &body);
    let headers = response.headers_mut();
    if later {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"slipway\""));
    }
    response.extensions_mut().insert(ErrorExtension { code, foreign: failure.foreign });
    response
}

/// The status, and the code where clients of these routes expect one.
fn status_of(code: ApiErrorCode) -> (StatusCode, Option<&'static str>) {
    use ApiErrorCode as Code;
    match code {
        Code::InvalidRequest
        | Code::Unsupported
        | Code::NoModel
        | Code::KeyRefused
        | Code::GitFailed
        | Code::OutsideWorkspace
        | Code::PreconditionFailed
        | Code::RangeNotSatisfiable
        | Code::IdempotencyMismatch => (StatusCode::BAD_REQUEST, None),
        Code::Unauthorized => (StatusCode::UNAUTHORIZED, Some("unauthorized")),
        Code::Forbidden | Code::AccessDenied | Code::BudgetExceeded => (StatusCode::FORBIDDEN, None),
        Code::QuotaExceeded => (StatusCode::TOO_MANY_REQUESTS, Some("quota_exceeded")),
        // Destroyed sandboxes do not exist for these routes.
        Code::NotFound | Code::Gone | Code::HistoryGone | Code::CheckpointLost => {
            (StatusCode::NOT_FOUND, Some("not found"))
        }
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, None),
        Code::Conflict
        | Code::NoCheckpoint
        | Code::TaskRunning
        | Code::ScopeTaken
        | Code::NameTaken
        | Code::Asleep
        | Code::FileExists
        | Code::NotAFile
        | Code::NotADirectory
        | Code::NotEmpty => (StatusCode::CONFLICT, None),
        Code::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, None),
        Code::Capacity => (StatusCode::SERVICE_UNAVAILABLE, Some("low_memory")),
        Code::DiskFull => (StatusCode::SERVICE_UNAVAILABLE, Some("disk_full")),
        Code::TooMany => (StatusCode::SERVICE_UNAVAILABLE, Some("wakes_refused")),
        Code::NotRunning
        | Code::SandboxFailed
        | Code::PortClosed
        | Code::Waking
        | Code::DriverUnavailable
        | Code::TimedOut => (StatusCode::SERVICE_UNAVAILABLE, Some("start_failed")),
        Code::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, Some("shutting_down")),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, None),
    }
}
