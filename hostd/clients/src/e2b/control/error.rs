//! Errors as E2B's SDKs read them: `{"code", "message"}` with the status that they turn into an exception, and whether
//! the same request may be sent again.

use super::route::NoRoute;
use crate::{ApiFailure, respond, respond::BodyError};
use axum::response::Response;
use hostd_store::StoreError;
use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue, RETRY_AFTER},
};
use protocol::api::{ApiErrorCode, ProblemCode};
use serde::Serialize;
use tracing::error;

const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

#[derive(Debug)]
pub struct E2bError {
    pub status: StatusCode,
    pub message: String,
    error_code: Option<&'static str>,
    retryable: bool,
    retry_after: Option<HeaderValue>,
}

#[derive(Debug, Serialize)]
pub struct ErrorDocument<'a> {
    pub code: u16,
    pub message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<&'static str>,
}

impl E2bError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message, error_code: None, retryable: false, retry_after: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn no_sandbox(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("sandbox {id} not found"))
    }

    pub fn no_template(message: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND
    }

    pub fn document(&self) -> ErrorDocument<'_> {
        ErrorDocument { code: self.status.as_u16(), message: &self.message, error_code: self.error_code }
    }

    pub fn respond(self) -> Response {
        let mut response = respond::json(self.status, &self.document());
        let headers = response.headers_mut();
        // Always present: without it the SDKs repeat whatever has one of certain statuses.
        let retryable = if self.retryable { "true" } else { "false" };
        headers.insert(SHOULD_RETRY, HeaderValue::from_static(retryable));
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, after);
        }
        response
    }
}

impl From<ApiFailure> for E2bError {
    fn from(failure: ApiFailure) -> Self {
        let ApiFailure { error, mut headers, .. } = failure;
        let mut message = error.message;
        if let Some(field) = &error.detail.field {
            message = format!("{field}: {message}");
        }
        let problem = error.detail.problem;
        let (status, message) = match problem.as_deref() {
            Some(problem) if problem.code == ProblemCode::ImageMissing => {
                (StatusCode::NOT_FOUND, problem.message.clone())
            }
            Some(problem) => (status(error.code), format!("{message}: {}", problem.message)),
            None => (status(error.code), message),
        };
        let mismatch = error.code == ApiErrorCode::IdempotencyMismatch;
        Self {
            status,
            message,
            error_code: mismatch.then_some("idempotency_request_mismatch"),
            retryable: error.retryable,
            retry_after: headers.remove(RETRY_AFTER),
        }
    }
}

impl From<BodyError> for E2bError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::Broken => StatusCode::BAD_REQUEST,
            BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<StoreError> for E2bError {
    fn from(error: StoreError) -> Self {
        error!(%error, "the E2B record of a sandbox cannot be read or written");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; the log of hostd has the cause")
    }
}

impl From<NoRoute> for E2bError {
    fn from(none: NoRoute) -> Self {
        match none {
            NoRoute::UnknownPath => Self::new(StatusCode::NOT_FOUND, "no route with this path"),
            NoRoute::OtherMethod => {
                Self::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not support this method")
            }
        }
    }
}

/// The status by which the SDKs choose an exception. They take 502 for a sandbox that is gone.
fn status(code: ApiErrorCode) -> StatusCode {
    match code {
        ApiErrorCode::InvalidRequest | ApiErrorCode::Unsupported => StatusCode::BAD_REQUEST,
        ApiErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
        ApiErrorCode::Forbidden | ApiErrorCode::AccessDenied => StatusCode::FORBIDDEN,
        ApiErrorCode::NotFound | ApiErrorCode::Gone => StatusCode::NOT_FOUND,
        ApiErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ApiErrorCode::Conflict
        | ApiErrorCode::NoCheckpoint
        | ApiErrorCode::TaskRunning
        | ApiErrorCode::ScopeTaken
        | ApiErrorCode::NameTaken
        | ApiErrorCode::NotRunning
        | ApiErrorCode::Asleep
        | ApiErrorCode::FileExists
        | ApiErrorCode::NotAFile
        | ApiErrorCode::NotADirectory
        | ApiErrorCode::NotEmpty
        | ApiErrorCode::PreconditionFailed
        | ApiErrorCode::HistoryGone
        | ApiErrorCode::CheckpointLost => StatusCode::CONFLICT,
        ApiErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ApiErrorCode::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
        ApiErrorCode::IdempotencyMismatch
        | ApiErrorCode::NoModel
        | ApiErrorCode::KeyRefused
        | ApiErrorCode::GitFailed
        | ApiErrorCode::OutsideWorkspace => StatusCode::UNPROCESSABLE_ENTITY,
        ApiErrorCode::TooMany | ApiErrorCode::BudgetExceeded | ApiErrorCode::QuotaExceeded => {
            StatusCode::TOO_MANY_REQUESTS
        }
        ApiErrorCode::Waking
        | ApiErrorCode::DriverUnavailable
        | ApiErrorCode::Capacity
        | ApiErrorCode::ShuttingDown
        | ApiErrorCode::DiskFull => StatusCode::SERVICE_UNAVAILABLE,
        ApiErrorCode::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        ApiErrorCode::SandboxFailed | ApiErrorCode::PortClosed | ApiErrorCode::Internal => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::Problem;

    #[test]
    fn an_error_of_the_api_becomes_one_that_the_sdks_tell_apart() {
        let table = [
            (ApiErrorCode::Unauthorized, 401, false),
            (ApiErrorCode::Gone, 404, false),
            (ApiErrorCode::NotFound, 404, false),
            (ApiErrorCode::QuotaExceeded, 429, false),
            (ApiErrorCode::TooMany, 429, true),
            (ApiErrorCode::Capacity, 503, true),
            (ApiErrorCode::DiskFull, 503, true),
            (ApiErrorCode::SandboxFailed, 500, false),
            (ApiErrorCode::Unsupported, 400, false),
        ];
        for (code, status, retryable) in table {
            let response = E2bError::from(ApiFailure::new(code, "why")).respond();
            assert_eq!(response.status().as_u16(), status, "{code:?}");
            assert_eq!(response.headers()["should-retry"], retryable.to_string(), "{code:?}");
        }
        // An SDK takes 502 for a sandbox that is gone, whatever was asked.
        assert!(ApiErrorCode::ALL.iter().all(|code| status(*code) != StatusCode::BAD_GATEWAY));
    }

    #[test]
    fn a_missing_image_is_a_missing_template() {
        let mut failure = ApiFailure::new(ApiErrorCode::SandboxFailed, "failed");
        let message = "there is no image x".to_owned();
        let problem = Problem { code: ProblemCode::ImageMissing, message, output: vec![], step: None };
        failure.error.detail.problem = Some(Box::new(problem));
        let error = E2bError::from(failure);
        let text = serde_json::to_string(&error.document()).expect("JSON");
        assert_eq!(text, r#"{"code":404,"message":"there is no image x"}"#);
    }
}
