//! Errors of the control protocol. Codes are a closed list for programs; the message is for people and says what to do
//! next.

use crate::TunnelRefusal;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is malformed; `detail.field` names the field where one field is wrong.
    InvalidRequest,
    NotFound,
    MethodNotAllowed,
    /// The id belongs to a different request, or the state does not allow this operation.
    Conflict,
    /// The requested history was trimmed; `detail.oldest` is where it starts now.
    HistoryGone,
    TooLarge,
    /// A limit of this sandbox is reached; retry when something has ended.
    TooMany,
    RateLimited,
    /// The exec or service is not running.
    NotRunning,
    /// Nothing listens on the requested port; `detail.refusal` has the ports in use.
    PortClosed,
    /// runtimed is shutting down.
    ShuttingDown,
    /// A system call failed; the message names it.
    Internal,
}

impl ErrorCode {
    pub const ALL: [Self; 12] = [
        Self::InvalidRequest,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::HistoryGone,
        Self::TooLarge,
        Self::TooMany,
        Self::RateLimited,
        Self::NotRunning,
        Self::PortClosed,
        Self::ShuttingDown,
        Self::Internal,
    ];

    /// Returns the HTTP status of the code.
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict | Self::NotRunning => 409,
            Self::HistoryGone => 410,
            Self::TooLarge => 413,
            Self::TooMany | Self::RateLimited => 429,
            Self::Internal => 500,
            Self::PortClosed => 502,
            Self::ShuttingDown => 503,
        }
    }

    /// Returns whether the same request may succeed later.
    pub fn retryable(self) -> bool {
        match self {
            Self::TooMany | Self::RateLimited | Self::PortClosed | Self::ShuttingDown => true,
            Self::InvalidRequest
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Conflict
            | Self::HistoryGone
            | Self::TooLarge
            | Self::NotRunning
            | Self::Internal => false,
        }
    }
}

/// `{"error":{"code","message","retryable","detail"}}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorInner,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorInner {
    pub code: ErrorCode,
    pub message: String,
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "ErrorDetail::is_empty")]
    pub detail: ErrorDetail,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Path of the wrong field in the request (`env.PATH`, `services.web.port`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The wrong line of the document, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The oldest cursor that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<TunnelRefusal>,
}

impl ErrorDetail {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ErrorBody {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let inner = ErrorInner {
            code,
            message: message.into(),
            retryable: code.retryable(),
            detail: ErrorDetail::default(),
        };
        Self { error: inner }
    }

    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message).with(|d| d.field = Some(field.into()))
    }

    /// Returns the error with a changed detail.
    pub fn with(mut self, change: impl FnOnce(&mut ErrorDetail)) -> Self {
        change(&mut self.error.detail);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_codes_is_closed() {
        let table: Vec<String> = ErrorCode::ALL
            .iter()
            .map(|code| {
                let name = serde_json::to_string(code).expect("a unit variant");
                format!("{} {} {}", name.trim_matches('"'), code.http_status(), code.retryable())
            })
            .collect();
        let expected = [
            "invalid_request 400 false",
            "not_found 404 false",
            "method_not_allowed 405 false",
            "conflict 409 false",
            "history_gone 410 false",
            "too_large 413 false",
            "too_many 429 true",
            "rate_limited 429 true",
            "not_running 409 false",
            "port_closed 502 true",
            "shutting_down 503 true",
            "internal 500 false",
        ];
        assert_eq!(table, expected);
    }
}
