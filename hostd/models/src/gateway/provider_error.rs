//! Errors as providers write them in JSON. Pure.

use super::json::{members, parse_small, text};
use serde_json::Value;

/// The error message of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    /// As it came: it may contain the key.
    pub message: String,
    /// The provider's own name for the kind of error; may be empty.
    pub kind: String,
}

impl ProviderError {
    pub fn without_message() -> Self {
        Self { message: "an error without a message".to_owned(), kind: String::new() }
    }

    /// Reads the body of an error response.
    pub fn parse_body(body: &[u8]) -> Option<Self> {
        // Some providers wrap the error in a list of one.
        let body = body.trim_ascii();
        let body = body.strip_prefix(b"[").and_then(|list| list.strip_suffix(b"]")).unwrap_or(body);
        let [error, message, detail] = members(body, ["error", "message", "detail"]).ok()?;
        if let Some(message) = text(error).or_else(|| text(message)).or_else(|| text(detail)) {
            return Some(Self { message, kind: String::new() });
        }
        Self::parse_object(&parse_small(error)?)
    }

    /// Reads an error object, which has the same members in every dialect: `{"message", "type" | "code" |
    /// "status"}`.
    pub fn parse_object(error: &Value) -> Option<Self> {
        let member = |name: &str| error.get(name).and_then(Value::as_str);
        let kind = ["code", "status", "type"].into_iter().find_map(member).unwrap_or_default();
        let message = member("message").or(error.as_str()).unwrap_or(kind);
        (!message.is_empty()).then(|| Self { message: message.to_owned(), kind: kind.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_in_every_dialect() {
        let table = [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
                "busy",
                "overloaded_error",
            ),
            (
                r#"{"error":{"message":"no","type":"x","param":null,"code":"insufficient_quota"}}"#,
                "no",
                "insufficient_quota",
            ),
            (
                r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#,
                "slow",
                "RESOURCE_EXHAUSTED",
            ),
            (r#"{"error":"plain"}"#, "plain", ""),
            (r#"{"detail":"not here"}"#, "not here", ""),
        ];
        for (body, message, kind) in table {
            let expected = ProviderError { message: message.to_owned(), kind: kind.to_owned() };
            assert_eq!(ProviderError::parse_body(body.as_bytes()), Some(expected), "{body}");
        }
        for none in ["", "<html>", "{}", r#"{"error":{}}"#, r#"{"error":null}"#] {
            assert_eq!(ProviderError::parse_body(none.as_bytes()), None, "{none}");
        }
    }
}
