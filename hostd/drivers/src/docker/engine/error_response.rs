//! Error responses of the engine: mapped to `EngineError`, their messages sanitized for display.

use super::{EngineError, limits::MESSAGE_MAX_CHARS};
use hyper::StatusCode;
use serde::Deserialize;

/// Makes a message of the engine safe to show: one line, no control characters, a limited length.
pub fn sanitize(text: &str) -> String {
    let clean: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_MAX_CHARS).collect();
    clean.trim().to_owned()
}

#[derive(Deserialize)]
struct ErrorMessage {
    message: String,
}

/// The message of an error body: `{"message":…}`, with more fields from Podman; old daemons send plain text.
pub fn message_of(body: &[u8]) -> String {
    match serde_json::from_slice::<ErrorMessage>(body) {
        Ok(ErrorMessage { message }) => sanitize(&message),
        Err(_) => sanitize(&String::from_utf8_lossy(body)),
    }
}

/// Maps an unsuccessful response to an error.
pub fn error_of(what: &'static str, status: StatusCode, body: &[u8]) -> EngineError {
    let message = match message_of(body) {
        silence if silence.is_empty() => status.to_string(),
        message => message,
    };
    match status.as_u16() {
        404 => EngineError::NotFound(message),
        409 => EngineError::Conflict(message),
        _ if is_conflict(&message) => EngineError::Conflict(message),
        // Podman 4 says this of a container that is being removed.
        500 if message.contains("no such container") => EngineError::NotFound(message),
        400..500 => EngineError::Refused { what, message },
        500..600 => EngineError::Failed { what, message },
        _ => EngineError::InvalidResponse { what, why: format!("status {status}") },
    }
}

/// Recognizes conflicts that Docker sends as 403 and Podman 4 as 500.
fn is_conflict(message: &str) -> bool {
    [
        "is not paused",
        "container state improper",
        "that name is already in use",
        "network already exists",
        "network is being used",
        "has active endpoints",
    ]
    .iter()
    .any(|known| message.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_responses_of_both_engines_map_to_the_same_errors() {
        let name = |status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            match error_of("do it", status, body.as_bytes()) {
                EngineError::NotFound(message) => ("not found", message),
                EngineError::Conflict(message) => ("conflict", message),
                EngineError::Refused { message, .. } => ("refused", message),
                EngineError::Failed { message, .. } => ("failed", message),
                EngineError::InvalidResponse { why, .. } => ("garbled", why),
                error @ (EngineError::Unreachable { .. }
                | EngineError::TimedOut { .. }
                | EngineError::UnsupportedVersion { .. }) => panic!("{error:?}"),
            }
        };
        let cases = [
            (404, r#"{"message":"No such container: x"}"#, "not found", "No such container: x"),
            (409, r#"{"message":"Conflict."}"#, "conflict", "Conflict."),
            (
                500,
                r#"{"cause":"no such container","message":"c1 does not exist in database: no such container","response":500}"#,
                "not found",
                "c1 does not exist in database: no such container",
            ),
            (
                500,
                r#"{"cause":"that name is already in use","message":"c1: that name is already in use","response":500}"#,
                "conflict",
                "c1: that name is already in use",
            ),
            (500, r#"{"message":"Container 1 is not paused"}"#, "conflict", "Container 1 is not paused"),
            (400, "client version 1.11 is too old\n", "refused", "client version 1.11 is too old"),
            (500, "", "failed", "500 Internal Server Error"),
            (503, "<html>\u{1b}[31mno", "failed", "<html> [31mno"),
            (301, "", "garbled", "status 301 Moved Permanently"),
        ];
        for (status, body, kind, text) in cases {
            assert_eq!(name(status, body), (kind, text.to_owned()), "{status} {body}");
        }
    }

    #[test]
    fn error_messages_are_cut() {
        assert_eq!(message_of(&b"x".repeat(1_000_000)).len(), MESSAGE_MAX_CHARS);
    }
}
