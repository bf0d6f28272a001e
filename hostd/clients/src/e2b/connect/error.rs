//! Errors of Connect calls.

use crate::ApiFailure;
use hyper::StatusCode;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};

/// The codes of the protocol that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Code {
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The status of a call with one message; a stream has its error in the last frame.
    pub fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument | Self::FailedPrecondition => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal | Self::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    pub code: Code,
    pub message: String,
}

impl ConnectError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn to_json(&self) -> Value {
        json!({"code": self.code.name(), "message": self.message})
    }
}

impl From<ApiFailure> for ConnectError {
    fn from(failure: ApiFailure) -> Self {
        Self::new(code_of(failure.error.code), failure.error.message)
    }
}

/// The code that a client of E2B takes for an error of ours.
fn code_of(code: ApiErrorCode) -> Code {
    match code {
        ApiErrorCode::InvalidRequest
        | ApiErrorCode::TooLarge
        | ApiErrorCode::NotAFile
        | ApiErrorCode::NotADirectory
        | ApiErrorCode::NotEmpty
        | ApiErrorCode::OutsideWorkspace
        | ApiErrorCode::RangeNotSatisfiable => Code::InvalidArgument,
        ApiErrorCode::Unauthorized => Code::Unauthenticated,
        ApiErrorCode::Forbidden | ApiErrorCode::AccessDenied => Code::PermissionDenied,
        ApiErrorCode::NotFound | ApiErrorCode::NotRunning => Code::NotFound,
        ApiErrorCode::FileExists => Code::AlreadyExists,
        ApiErrorCode::TooMany
        | ApiErrorCode::QuotaExceeded
        | ApiErrorCode::BudgetExceeded
        | ApiErrorCode::Capacity
        | ApiErrorCode::DiskFull => Code::ResourceExhausted,
        ApiErrorCode::MethodNotAllowed
        | ApiErrorCode::Unsupported
        | ApiErrorCode::NoModel
        | ApiErrorCode::KeyRefused => Code::Unimplemented,
        ApiErrorCode::Conflict
        | ApiErrorCode::ScopeTaken
        | ApiErrorCode::CheckpointLost
        | ApiErrorCode::NoCheckpoint
        | ApiErrorCode::TaskRunning
        | ApiErrorCode::GitFailed
        | ApiErrorCode::IdempotencyMismatch
        | ApiErrorCode::NameTaken
        | ApiErrorCode::PreconditionFailed
        | ApiErrorCode::PortClosed => Code::FailedPrecondition,
        ApiErrorCode::HistoryGone => Code::DataLoss,
        ApiErrorCode::Gone
        | ApiErrorCode::Asleep
        | ApiErrorCode::SandboxFailed
        | ApiErrorCode::Waking
        | ApiErrorCode::DriverUnavailable
        | ApiErrorCode::ShuttingDown => Code::Unavailable,
        ApiErrorCode::TimedOut => Code::DeadlineExceeded,
        ApiErrorCode::Internal => Code::Internal,
    }
}
