//! Errors of the Engine API.

use crate::DriverError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No daemon answers on the socket, or the connection broke. A retry may succeed.
    #[error("the container engine at {socket} does not answer: {why}")]
    Unreachable { socket: String, why: String },
    #[error("the container engine did not {what} within {after_ms} ms")]
    TimedOut { what: &'static str, after_ms: u64 },
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    /// The engine rejected the request (4xx).
    #[error("the container engine refuses to {what}: {message}")]
    Refused { what: &'static str, message: String },
    /// The engine failed to carry out the request (5xx).
    #[error("the container engine could not {what}: {message}")]
    Failed { what: &'static str, message: String },
    /// The response cannot be parsed, or is too large.
    #[error("the container engine sent an invalid response ({what}): {why}")]
    InvalidResponse { what: &'static str, why: String },
    /// The engine and hostd have no API version in common.
    #[error("the container engine speaks versions {min} to {max} of its API; needed is {needed}")]
    UnsupportedVersion { min: String, max: String, needed: String },
}

impl From<EngineError> for DriverError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Unreachable { .. }
            | EngineError::TimedOut { .. }
            | EngineError::UnsupportedVersion { .. } => Self::Unavailable { message },
            EngineError::Failed { message: text, .. } if text.contains("no space left on device") => {
                Self::DiskFull
            }
            EngineError::NotFound(_)
            | EngineError::Conflict(_)
            | EngineError::Refused { .. }
            | EngineError::Failed { .. }
            | EngineError::InvalidResponse { .. } => Self::Failed { message, output: vec![] },
        }
    }
}
