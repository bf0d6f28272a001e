//! Errors of the public API: `{"error":{"code","message","retryable","detail"}}`. Codes are for programs
//! and a closed list; the message is for people and says what to do next.

use super::SandboxId;
use crate::{ListeningPort, ServiceView};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApiErrorCode {
    /// The request is malformed; `detail.field` names the field where one field is wrong.
    InvalidRequest,
    /// No token, or one that is unknown, revoked or expired.
    Unauthorized,
    /// The token does not allow this, the body names another tenant, or Host or Origin is not hostd's.
    Forbidden,
    /// The resource does not exist or belongs to another tenant: `detail.missing`.
    NotFound,
    MethodNotAllowed,
    /// The state of the resource does not allow this operation, or the id belongs to a different request.
    Conflict,
    /// A live sandbox already has this tenant, principal, project and scope: `detail.existing`.
    ScopeTaken,
    /// The sandbox was destroyed.
    Gone,
    /// The requested history was trimmed; `detail.oldest` is where it starts now.
    HistoryGone,
    /// The checkpoint of the task is gone or was changed in the sandbox, or there was none: nothing to compare with.
    CheckpointLost,
    /// The task has no checkpoint: the message has the cause.
    NoCheckpoint,
    /// A task of the sandbox has not ended, and the operation must not run beside one.
    TaskRunning,
    /// A git operation failed: `detail.git` says why.
    GitFailed,
    /// The body, or a field of it, is larger than allowed.
    TooLarge,
    /// The same `Idempotency-Key` was used with another body.
    IdempotencyMismatch,
    /// The driver does not support what the spec requests: `detail.field`, and `detail.supported` where known.
    Unsupported,
    /// No provider has the requested model, or no provider is configured; the message says how to add one.
    NoModel,
    /// The model provider rejects the key, or needs one.
    KeyRefused,
    /// The tenant's model budget is used up.
    BudgetExceeded,
    /// A limit on the number of resources or requests is reached.
    TooMany,
    /// The quota of the tenant or principal has no room: `detail.quota` has the numbers and what uses them.
    QuotaExceeded,
    /// A living sandbox of this owner has the name: `detail.existing`.
    NameTaken,
    /// The exec or service is not running, or the sandbox is not and the request must not wake it.
    NotRunning,
    /// The files of this sandbox are within reach only while it runs: start it first.
    Asleep,
    /// A file or directory with this path exists already.
    FileExists,
    /// The path names a directory, a FIFO, a socket or a device where a regular file is needed.
    NotAFile,
    /// A part of the path, or all of it, is not a directory.
    NotADirectory,
    /// The directory has entries, and the request does not say that they are deleted too.
    NotEmpty,
    /// The path, or a link on it, leads out of the workspace.
    OutsideWorkspace,
    /// The sandbox's user may not do this.
    AccessDenied,
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed,
    /// The file ends before the requested range.
    RangeNotSatisfiable,
    /// The sandbox is in `error`, or failed during this request: `detail.problem`.
    SandboxFailed,
    /// Nothing listens on this port of the sandbox: `detail.listening` has the ports in use.
    PortClosed,
    /// The sandbox, or the service behind the port, is starting.
    Waking,
    /// The backend does not respond, or the sandbox runs in another PID namespace than hostd.
    DriverUnavailable,
    /// The host has not enough free memory: `detail.capacity` has the numbers.
    Capacity,
    /// The disk of the data directory is below its floor or full: free space, then repeat the request.
    DiskFull,
    /// The sandbox did not respond in time.
    TimedOut,
    /// hostd is shutting down.
    ShuttingDown,
    /// An error of hostd itself; its log has the cause.
    Internal,
}

impl ApiErrorCode {
    pub const ALL: [Self; 41] = [
        Self::InvalidRequest,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::ScopeTaken,
        Self::Gone,
        Self::HistoryGone,
        Self::CheckpointLost,
        Self::NoCheckpoint,
        Self::TaskRunning,
        Self::GitFailed,
        Self::TooLarge,
        Self::IdempotencyMismatch,
        Self::Unsupported,
        Self::NoModel,
        Self::KeyRefused,
        Self::BudgetExceeded,
        Self::TooMany,
        Self::QuotaExceeded,
        Self::NameTaken,
        Self::NotRunning,
        Self::Asleep,
        Self::FileExists,
        Self::NotAFile,
        Self::NotADirectory,
        Self::NotEmpty,
        Self::OutsideWorkspace,
        Self::AccessDenied,
        Self::PreconditionFailed,
        Self::RangeNotSatisfiable,
        Self::SandboxFailed,
        Self::PortClosed,
        Self::Waking,
        Self::DriverUnavailable,
        Self::Capacity,
        Self::DiskFull,
        Self::TimedOut,
        Self::ShuttingDown,
        Self::Internal,
    ];

    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden | Self::AccessDenied => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict
            | Self::NoCheckpoint
            | Self::TaskRunning
            | Self::ScopeTaken
            | Self::NameTaken
            | Self::NotRunning
            | Self::Asleep
            | Self::FileExists
            | Self::NotAFile
            | Self::NotADirectory
            | Self::NotEmpty => 409,
            Self::Gone | Self::HistoryGone | Self::CheckpointLost => 410,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::RangeNotSatisfiable => 416,
            Self::IdempotencyMismatch
            | Self::Unsupported
            | Self::NoModel
            | Self::KeyRefused
            | Self::GitFailed
            | Self::OutsideWorkspace => 422,
            Self::TooMany | Self::BudgetExceeded | Self::QuotaExceeded => 429,
            Self::Internal => 500,
            Self::SandboxFailed | Self::PortClosed => 502,
            Self::Waking | Self::DriverUnavailable | Self::Capacity | Self::ShuttingDown => 503,
            Self::TimedOut => 504,
            Self::DiskFull => 507,
        }
    }

    /// Returns whether the same request may succeed later.
    pub fn retryable(self) -> bool {
        match self {
            Self::TooMany
            | Self::PortClosed
            | Self::Waking
            | Self::DriverUnavailable
            | Self::Capacity
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
            | Self::CheckpointLost
            | Self::NoCheckpoint
            | Self::TaskRunning
            | Self::GitFailed
            | Self::TooLarge
            | Self::IdempotencyMismatch
            | Self::Unsupported
            | Self::NoModel
            | Self::KeyRefused
            | Self::BudgetExceeded
            | Self::QuotaExceeded
            | Self::NameTaken
            | Self::NotRunning
            | Self::Asleep
            | Self::FileExists
            | Self::NotAFile
            | Self::NotADirectory
            | Self::NotEmpty
            | Self::OutsideWorkspace
            | Self::AccessDenied
            | Self::PreconditionFailed
            | Self::RangeNotSatisfiable
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
    /// Path of the wrong field in the request, as in `limits.memory_mb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The sandbox that exists already, or that a failed create left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<SandboxId>,
    /// The oldest cursor or sequence number that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// Supported values of the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<String>,
    /// Why the sandbox failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Box<super::Problem>>,
    /// How the sandbox died, where that caused the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<Box<super::PostMortem>>,
    /// Ports of the sandbox that something listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listening: Vec<ListeningPort>,
    /// The service behind the port, with its last lines while it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<ServiceView>>,
    /// The resource that was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Box<super::Missing>>,
    /// What the quota allows and what uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Box<super::QuotaDetail>>,
    /// Why there is no room for the sandbox, in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Box<super::CapacityDetail>>,
    /// Why a git operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<super::GitReason>,
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

    /// Returns the error with a changed detail.
    pub fn with(mut self, change: impl FnOnce(&mut ApiErrorDetail)) -> Self {
        change(&mut self.detail);
        self
    }
}
