//! Failures of verbs as errors of the API.

use super::super::error::CallError;
use protocol::{
    api::{ApiError, ApiErrorCode},
    files::{FilesErrorCode, FilesFailure},
    sanitize::one_line,
};
use std::error::Error;

/// Characters of a path in a message.
const PATH_MAX_CHARS: usize = 200;

pub fn to_call_error(failure: FilesFailure) -> CallError {
    let code = match failure.code {
        FilesErrorCode::InvalidRequest | FilesErrorCode::BodyCut => ApiErrorCode::InvalidRequest,
        FilesErrorCode::NotFound => ApiErrorCode::NotFound,
        FilesErrorCode::Exists => ApiErrorCode::FileExists,
        FilesErrorCode::NotAFile => ApiErrorCode::NotAFile,
        FilesErrorCode::NotADirectory => ApiErrorCode::NotADirectory,
        FilesErrorCode::NotEmpty => ApiErrorCode::NotEmpty,
        FilesErrorCode::Outside => ApiErrorCode::OutsideWorkspace,
        FilesErrorCode::AccessDenied => ApiErrorCode::AccessDenied,
        FilesErrorCode::PreconditionFailed => ApiErrorCode::PreconditionFailed,
        FilesErrorCode::RangeNotSatisfiable => ApiErrorCode::RangeNotSatisfiable,
        FilesErrorCode::TooLarge => ApiErrorCode::TooLarge,
        FilesErrorCode::TooMany => ApiErrorCode::TooMany,
        FilesErrorCode::DiskFull => ApiErrorCode::DiskFull,
        FilesErrorCode::TimedOut => ApiErrorCode::TimedOut,
        FilesErrorCode::Unsupported => ApiErrorCode::Unsupported,
        FilesErrorCode::Internal => ApiErrorCode::SandboxFailed,
    };
    // Both come from a sandbox where runtimed performs the verb.
    let message = one_line(&failure.message, PATH_MAX_CHARS);
    let message = match failure.path {
        Some(path) => format!("{}: {message}", one_line(&path.lossy(), PATH_MAX_CHARS)),
        None => message,
    };
    ApiError::new(code, message).into()
}

/// A failure of hostd before the verb began.
pub fn internal(error: &dyn Error) -> FilesFailure {
    tracing::error!(%error, "file operation failed");
    FilesFailure {
        code: FilesErrorCode::Internal,
        message: "hostd could not become the user of the workspace".to_owned(),
        path: None,
    }
}
