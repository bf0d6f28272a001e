//! The one place where errors of hostd become errors of the API. Causes go to the log; a message for callers
//! never contains a path of the host.

use crate::{backup::BackupError, reconcile::FleetError};
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use hostd_core::{QuotaExceeded, TransitionRefused};
use hostd_drivers::{DriverError, control::ControlError};
use hostd_models::ModelsError;
use hostd_store::{SecretError, StoreError};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use protocol::{
    ErrorBody, ErrorCode,
    api::{ApiError, ApiErrorBody, ApiErrorCode, Missing},
    validate::Violation,
};
use std::{error::Error, io};

/// The error of a call.
#[derive(Debug)]
pub struct CallError {
    pub error: Box<ApiError>,
    /// The chain of causes, for the log only.
    pub cause: Option<String>,
    /// The resource exists and belongs to another tenant or principal: not found for the caller, a refusal in
    /// the audit log.
    pub foreign: bool,
    /// A resource was not found, and the message does not yet say which.
    resource_unnamed: bool,
}

/// Response extension with the parts of an error that the audit log needs.
#[derive(Debug, Clone, Copy)]
pub struct ErrorExtension {
    pub code: ApiErrorCode,
    pub foreign: bool,
}

pub type CallResult = Result<Response, CallError>;

impl CallError {
    pub fn new(code: ApiErrorCode, message: impl Into<String>) -> Self {
        ApiError::new(code, message).into()
    }

    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError::invalid(field, message).into()
    }

    /// The resource named in the path does not exist; `with_resource` adds which one it is.
    pub fn not_found() -> Self {
        let message = "no such resource (or it belongs to another tenant)";
        Self { resource_unnamed: true, ..Self::new(ApiErrorCode::NotFound, message) }
    }

    /// Names the missing resource in the message, unless it is already named.
    pub fn with_resource(self, missing: impl FnOnce() -> Option<Missing>) -> Self {
        let (true, Some(missing)) = (self.resource_unnamed, missing()) else { return self };
        let error = ApiError { message: missing.to_string(), ..*self.error };
        let error = error.with(|detail| detail.missing = Some(Box::new(missing)));
        Self { error: Box::new(error), resource_unnamed: false, ..self }
    }

    /// The same message as for a resource that does not exist.
    pub fn foreign() -> Self {
        Self { foreign: true, ..Self::not_found() }
    }

    fn caused(code: ApiErrorCode, message: &str, cause: &dyn Error) -> Self {
        Self { cause: Some(error_chain(cause)), ..Self::new(code, message) }
    }

    pub fn internal(cause: &dyn Error) -> Self {
        Self::caused(
            ApiErrorCode::Internal,
            "hostd failed; its log has the cause under this request's id",
            cause,
        )
    }
}

impl From<Violation> for CallError {
    fn from(violation: Violation) -> Self {
        ApiError::from(violation).into()
    }
}

impl From<ApiError> for CallError {
    fn from(error: ApiError) -> Self {
        Self { error: Box::new(error), cause: None, foreign: false, resource_unnamed: false }
    }
}

impl From<FleetError> for CallError {
    fn from(error: FleetError) -> Self {
        use ApiErrorCode::{NotRunning, ShuttingDown, TimedOut, TooMany};
        let message = error.to_string();
        match error {
            FleetError::NotFound => Self::not_found(),
            FleetError::Refused(refused) => refused.into(),
            FleetError::Failed { sandbox, problem } => ApiError::new(problem.code.as_error(), message)
                .with(|detail| {
                    detail.existing = Some(sandbox);
                    detail.problem = Some(problem);
                })
                .into(),
            FleetError::InProgress => Self::new(TimedOut, message),
            FleetError::NotRunning { .. } => Self::new(NotRunning, message),
            FleetError::TooMany => Self::new(TooMany, message),
            FleetError::QuotaExceeded(refused) => quota_exceeded(&refused),
            FleetError::DiskFull(_) => Self::new(ApiErrorCode::DiskFull, message),
            FleetError::Capacity(detail) => {
                ApiError::new(ApiErrorCode::Capacity, message).with(|to| to.capacity = Some(detail)).into()
            }
            FleetError::InUse | FleetError::Restoring => Self::new(ApiErrorCode::Conflict, message),
            FleetError::ShuttingDown => Self::new(ShuttingDown, message),
            FleetError::Driver(error) => error.into(),
            FleetError::Store(error) => error.into(),
            FleetError::Control(error) => error.into(),
        }
    }
}

impl From<BackupError> for CallError {
    fn from(error: BackupError) -> Self {
        match error {
            BackupError::Fleet(error) => error.into(),
            BackupError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Self::new(ApiErrorCode::DiskFull, "the data disk is full")
            }
            BackupError::Io { .. } | BackupError::Encrypt(_) => Self::internal(&error),
        }
    }
}

impl From<TransitionRefused> for CallError {
    fn from(refused: TransitionRefused) -> Self {
        let code = match refused {
            TransitionRefused::Destroyed | TransitionRefused::Destroying => ApiErrorCode::Gone,
            TransitionRefused::NotRunning => ApiErrorCode::NotRunning,
            TransitionRefused::NoOperation => ApiErrorCode::Conflict,
        };
        Self::new(code, refused.to_string())
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::new(ApiErrorCode::DiskFull, error.to_string()),
            StoreError::Busy => Self::new(ApiErrorCode::TooMany, error.to_string()),
            StoreError::Closed => Self::new(ApiErrorCode::ShuttingDown, "hostd is shutting down"),
            StoreError::Refused(refused) => refused.into(),
            StoreError::NotFound => Self::not_found(),
            StoreError::Exists => Self::new(ApiErrorCode::Conflict, error.to_string()),
            StoreError::ScopeTaken { existing } => ApiError::new(ApiErrorCode::ScopeTaken, error.to_string())
                .with(|detail| detail.existing = Some(existing))
                .into(),
            StoreError::NameTaken { existing, .. } => {
                ApiError::new(ApiErrorCode::NameTaken, error.to_string())
                    .with(|detail| detail.existing = Some(existing))
                    .into()
            }
            StoreError::QuotaExceeded(refused) => quota_exceeded(&refused),
            StoreError::Broken
            | StoreError::Corrupt { .. }
            | StoreError::Row { .. }
            | StoreError::Unfit { .. }
            | StoreError::Sqlite { .. } => Self::internal(&error),
        }
    }
}

fn quota_exceeded(refused: &QuotaExceeded) -> CallError {
    ApiError::new(ApiErrorCode::QuotaExceeded, refused.to_string())
        .with(|to| to.quota = Some(Box::new(refused.detail())))
        .into()
}

impl From<ModelsError> for CallError {
    fn from(error: ModelsError) -> Self {
        use ApiErrorCode::{BudgetExceeded, Conflict, KeyRefused, NoModel, TooMany};
        let message = error.to_string();
        let about_model =
            |code| ApiError::new(code, &*message).with(|to| to.field = Some("model".to_owned()));
        match error {
            ModelsError::NoModel(_) => about_model(NoModel).into(),
            ModelsError::Unknown { available: names, .. } | ModelsError::Ambiguous { named: names, .. } => {
                about_model(NoModel).with(|to| to.supported = names).into()
            }
            ModelsError::DialectMismatch { .. } | ModelsError::Unpriced { .. } => about_model(NoModel).into(),
            ModelsError::BudgetUsedUp(_) => Self::new(BudgetExceeded, message),
            ModelsError::Key { .. } => Self::new(Conflict, message),
            ModelsError::KeyRefused { .. } => {
                ApiError::new(KeyRefused, &*message).with(|to| to.field = Some("key".to_owned())).into()
            }
            ModelsError::Seal(source) => {
                Self { cause: Some(error_chain(&source)), ..Self::new(Conflict, message) }
            }
            ModelsError::InFlight(source) | ModelsError::Random(source) => Self::internal(&source),
            ModelsError::Invalid { field, message } => Self::invalid(field, message),
            ModelsError::TooMany(_) => Self::new(TooMany, message),
            ModelsError::NotFound => Self::not_found(),
            ModelsError::Store(error) => error.into(),
        }
    }
}

impl From<SecretError> for CallError {
    fn from(error: SecretError) -> Self {
        let message = error.to_string();
        match error {
            SecretError::Missing { .. } => Self::not_found(),
            SecretError::Sealed { .. } => Self::new(ApiErrorCode::Conflict, message),
            SecretError::Seal(source) => {
                Self { cause: Some(error_chain(&source)), ..Self::new(ApiErrorCode::Conflict, message) }
            }
            SecretError::TooMany => Self::new(ApiErrorCode::TooMany, message),
            SecretError::Store(error) => error.into(),
        }
    }
}

impl From<DriverError> for CallError {
    fn from(error: DriverError) -> Self {
        use ApiErrorCode::{DiskFull, DriverUnavailable, SandboxFailed, TimedOut, Unsupported};
        match error {
            DriverError::Refused { field, message, supported } => ApiError::new(Unsupported, message)
                .with(|detail| {
                    detail.field = Some(field.to_owned());
                    detail.supported = supported;
                })
                .into(),
            DriverError::ImageMissing { ref why, .. } => {
                let message = match why {
                    Some(_) => error.to_string(),
                    None => format!("{error}; import it, or use one of GET /v1/images"),
                };
                ApiError::new(Unsupported, message).with(|detail| detail.field = Some("image".into())).into()
            }
            DriverError::Unavailable { .. } => {
                Self::caused(DriverUnavailable, "the driver does not answer; try again later", &error)
            }
            DriverError::OtherPidNamespace { .. } => Self::new(DriverUnavailable, error.to_string()),
            DriverError::NameTaken { .. } | DriverError::Conflict { .. } => {
                Self::new(ApiErrorCode::Conflict, error.to_string())
            }
            DriverError::DiskFull | DriverError::NoDiskRoom { .. } => Self::new(DiskFull, error.to_string()),
            DriverError::MemoryInUse { .. } => ApiError::new(ApiErrorCode::Conflict, error.to_string())
                .with(|detail| detail.field = Some("memory_mb".into()))
                .into(),
            DriverError::TimedOut { .. } => {
                Self::caused(TimedOut, "the driver did not answer in time", &error)
            }
            DriverError::Failed { .. } => {
                Self::caused(SandboxFailed, "the driver's operation failed", &error)
            }
            DriverError::Damaged { .. } => {
                let message = "the driver's files of the sandbox are missing or were changed";
                Self::caused(SandboxFailed, message, &error)
            }
            DriverError::Io { .. } => Self::internal(&error),
        }
    }
}

impl From<ControlError> for CallError {
    fn from(error: ControlError) -> Self {
        use ApiErrorCode::{SandboxFailed, TimedOut};
        if let Some(error) = other_pid_namespace(&error) {
            return error.into();
        }
        match error {
            ControlError::Refused(body) => from_runtimed(*body),
            ControlError::TimedOut(_) => Self::new(TimedOut, error.to_string()),
            ControlError::Unreachable(_) | ControlError::Malformed(_) | ControlError::Broken(_) => {
                Self::caused(SandboxFailed, "the sandbox does not respond correctly; see its events", &error)
            }
        }
    }
}

/// The driver's error when the sandbox cannot be reached from hostd's PID namespace.
fn other_pid_namespace(error: &ControlError) -> Option<DriverError> {
    let ControlError::Unreachable(source) = error else { return None };
    match source.get_ref()?.downcast_ref::<DriverError>()? {
        DriverError::OtherPidNamespace { sandbox } => {
            Some(DriverError::OtherPidNamespace { sandbox: *sandbox })
        }
        DriverError::Refused { .. }
        | DriverError::Unavailable { .. }
        | DriverError::ImageMissing { .. }
        | DriverError::NameTaken { .. }
        | DriverError::Conflict { .. }
        | DriverError::DiskFull
        | DriverError::NoDiskRoom { .. }
        | DriverError::MemoryInUse { .. }
        | DriverError::Failed { .. }
        | DriverError::TimedOut { .. }
        | DriverError::Damaged { .. }
        | DriverError::Io { .. } => None,
    }
}

/// Translates an error of runtimed: most codes have the same name.
fn from_runtimed(body: ErrorBody) -> CallError {
    let inner = body.error;
    let code = match inner.code {
        ErrorCode::InvalidRequest => ApiErrorCode::InvalidRequest,
        ErrorCode::NotFound => return CallError::not_found(),
        ErrorCode::MethodNotAllowed => ApiErrorCode::MethodNotAllowed,
        ErrorCode::Conflict => ApiErrorCode::Conflict,
        ErrorCode::HistoryGone => ApiErrorCode::HistoryGone,
        ErrorCode::TooLarge => ApiErrorCode::TooLarge,
        ErrorCode::TooMany | ErrorCode::RateLimited => ApiErrorCode::TooMany,
        ErrorCode::NotRunning => ApiErrorCode::NotRunning,
        ErrorCode::PortClosed | ErrorCode::Internal => ApiErrorCode::SandboxFailed,
        ErrorCode::ShuttingDown => ApiErrorCode::NotRunning,
    };
    let detail = inner.detail;
    ApiError::new(code, inner.message)
        .with(|to| {
            to.field = detail.field;
            to.oldest = detail.oldest;
        })
        .into()
}

/// An error and its causes, in one line.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl IntoResponse for CallError {
    fn into_response(self) -> Response {
        let refusal = ErrorExtension { code: self.error.code, foreign: self.foreign };
        let retry_after_s = self.error.detail.capacity.as_ref().map_or(1, |capacity| capacity.retry_after_s);
        let body = serde_json::to_vec(&ApiErrorBody { error: *self.error }).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(refusal.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if refusal.code == ApiErrorCode::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"slipway\""));
        }
        if refusal.code.retryable() {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        response.extensions_mut().insert(refusal);
        response
    }
}
