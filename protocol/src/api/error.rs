//! Errors of the public API: `{"error":{"code","message","retryable","detail"}}`. Codes are for programs
//! and a closed list; the message is for people and says what to do next.

use super::SandboxId;
use crate::{ListeningPort, ServiceView};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApiErrorCode {
    /// The request is malformed; `detail.field` names what is wrong where one field is.
    InvalidRequest,
    /// No token, or one that is unknown, revoked or expired.
    Unauthorized,
    /// The token does not allow this, the body names another owner, or Host or Origin is not ours.
    Forbidden,
    /// No such thing, or not yours.
    NotFound,
    MethodNotAllowed,
    /// The state does not allow the verb, or the id belongs to another request.
    Conflict,
    /// A live sandbox has this owner and scope already: `detail.existing`.
    ScopeTaken,
    /// The sandbox was destroyed.
    Gone,
    /// The history asked for was trimmed; `detail.oldest` is where it starts now.
    HistoryGone,
    TooLarge,
    /// The same `Idempotency-Key` came with another body before.
    IdempotencyMismatch,
    /// The driver cannot do what the spec asks for: `detail.field`, and `detail.supported` where listed.
    Unsupported,
    /// No provider has the model that was asked for, or there is none at all; the message says how to add one.
    NoModel,
    /// The provider of models that was to be added does not take its key, or wants one.
    KeyRefused,
    /// The tenant has used up what it may use of models.
    BudgetExceeded,
    /// A limit of number is reached.
    TooMany,
    /// The exec or service does not run any more, or the sandbox does not and waking was not wanted.
    NotRunning,
    /// The sandbox is in `error`, or went there while this was asked: `detail.problem`.
    SandboxFailed,
    /// Nothing answers on this port of the sandbox: `detail.listening` says where something does.
    PortClosed,
    /// The sandbox, or what it is to serve, is on its way up.
    Waking,
    /// The backend does not answer, or the sandbox lives in another PID namespace than hostd.
    DriverUnavailable,
    /// The memory of the host is full.
    NoCapacity,
    /// The disk of the data directory is below its floor, or full: make room, then the same may succeed.
    DiskFull,
    /// The sandbox did not answer in time.
    TimedOut,
    /// hostd is shutting down.
    ShuttingDown,
    Internal,
}

impl ApiErrorCode {
    pub const ALL: [Self; 26] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::ScopeTaken,
        Self::Gone,
        Self::HistoryGone,
        Self::TooLarge,
        Self::IdempotencyMismatch,
        Self::Unsupported,
        Self::NoModel,
        Self::KeyRefused,
        Self::BudgetExceeded,
        Self::TooMany,
        Self::NotRunning,
        Self::SandboxFailed,
        Self::PortClosed,
        Self::Waking,
        Self::DriverUnavailable,
        Self::NoCapacity,
        Self::DiskFull,
        Self::TimedOut,
        Self::ShuttingDown,
        Self::Internal,
    ];

    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict | Self::ScopeTaken | Self::NotRunning => 409,
            Self::Gone | Self::HistoryGone => 410,
            Self::TooLarge => 413,
            Self::IdempotencyMismatch | Self::Unsupported | Self::NoModel | Self::KeyRefused => 422,
            Self::TooMany | Self::BudgetExceeded => 429,
            Self::Internal => 500,
            Self::SandboxFailed | Self::PortClosed => 502,
            Self::Waking | Self::DriverUnavailable | Self::ShuttingDown => 503,
            Self::TimedOut => 504,
            Self::NoCapacity | Self::DiskFull => 507,
        }
    }

    /// Whether the same request may succeed later without a change.
    pub fn retryable(self) -> bool {
        match self {
            Self::TooMany
            | Self::PortClosed
            | Self::Waking
            | Self::DriverUnavailable
            | Self::NoCapacity
            | Self::DiskFull
            | Self::TimedOut
            | Self::ShuttingDown => true,
            Self::InvalidRequest
            | Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Conflict
            | Self::ScopeTaken
            | Self::Gone
            | Self::HistoryGone
            | Self::TooLarge
            | Self::IdempotencyMismatch
            | Self::Unsupported
            | Self::NoModel
            | Self::KeyRefused
            | Self::BudgetExceeded
            | Self::NotRunning
            | Self::SandboxFailed
            | Self::Internal => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiErrorBody {
    pub error: ApiError,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiError {
    pub code: ApiErrorCode,
    pub message: String,
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "ApiErrorDetail::is_empty")]
    pub detail: ApiErrorDetail,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiErrorDetail {
    /// The field of the request that is wrong, as a path (`limits.memory_mb`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<SandboxId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// What could have been asked for instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<super::Problem>,
    /// How the sandbox ended, when that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<Box<super::PostMortem>>,
    /// Where something in the sandbox does listen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<ListeningPort>,
    /// The service that should answer, with its last lines while it is not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<ServiceView>>,
    /// What was asked for and is not there for this caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Box<super::Missing>>,
}

impl ApiErrorDetail {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ApiError {
    pub fn new(code: ApiErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: code.retryable(), detail: ApiErrorDetail::default() }
    }

    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ApiErrorCode::InvalidRequest, message).with(|d| d.field = Some(field.into()))
    }

    /// The same error with more detail.
    pub fn with(mut self, change: impl FnOnce(&mut ApiErrorDetail)) -> Self {
        change(&mut self.detail);
        self
    }
}
