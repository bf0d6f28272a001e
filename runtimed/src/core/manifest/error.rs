//! Errors of a manifest or a spec, with their position. Messages say what is allowed and never repeat a value,
//! which may be a secret.

use std::fmt;

/// Why a document was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// Counted from 1.
    pub line: Option<u32>,
    /// A path such as `services.web.port`.
    pub field: Option<String>,
    pub message: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.message;
        match (self.line, &self.field) {
            (Some(line), Some(field)) => write!(f, "line {line}, {field}: {message}"),
            (Some(line), None) => write!(f, "line {line}: {message}"),
            (None, Some(field)) => write!(f, "{field}: {message}"),
            (None, None) => f.write_str(message),
        }
    }
}

impl std::error::Error for ManifestError {}

/// Why a value was rejected, where there are no lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    pub field: String,
    pub message: String,
}

impl From<protocol::validate::Violation> for Invalid {
    fn from(violation: protocol::validate::Violation) -> Self {
        Self { field: violation.field, message: violation.message }
    }
}

impl Invalid {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// The same error with the field path prefixed by `parent`.
    pub(super) fn within(self, parent: &str) -> Self {
        Self { field: format!("{parent}.{}", self.field), ..self }
    }
}
