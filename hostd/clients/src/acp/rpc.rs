//! JSON-RPC 2.0 messages: what comes from an editor, and what goes to it. Pure.

use super::limits;
use crate::ApiFailure;
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};

pub const PARSE_ERROR: i64 = -32_700;
pub const INVALID_REQUEST: i64 = -32_600;
pub const METHOD_NOT_FOUND: i64 = -32_601;
pub const INVALID_PARAMS: i64 = -32_602;
pub const INTERNAL_ERROR: i64 = -32_603;
/// Codes of the Agent Client Protocol.
pub const AUTH_REQUIRED: i64 = -32_000;
pub const RESOURCE_NOT_FOUND: i64 = -32_002;

/// A message of an editor.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The response to a request of ours; an error is `Err`.
    Response {
        id: Value,
        outcome: Result<Value, Value>,
    },
}

/// An error as a response has it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
}

/// A message that is none: the response to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Malformed {
    pub id: Value,
    pub error: RpcError,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, format!("{field}: {}", message.into()))
    }

    pub fn no_session() -> Self {
        Self::new(RESOURCE_NOT_FOUND, "no session with this id (or it belongs to another tenant)")
    }
}

impl From<ApiFailure> for RpcError {
    fn from(failure: ApiFailure) -> Self {
        use ApiErrorCode::{Gone, InvalidRequest, NotFound, TooLarge, Unauthorized, Unsupported};
        let api = failure.error.code;
        let code = if api == Unauthorized {
            AUTH_REQUIRED
        } else if matches!(api, NotFound | Gone) {
            RESOURCE_NOT_FOUND
        } else if matches!(api, InvalidRequest | TooLarge | Unsupported) {
            INVALID_PARAMS
        } else {
            INTERNAL_ERROR
        };
        let data = serde_json::to_value(&failure.error).ok();
        Self { code, message: failure.error.message.clone(), data }
    }
}

/// Parses one message.
pub fn parse(text: &[u8]) -> Result<Incoming, Malformed> {
    let message: Value = serde_json::from_slice(text).map_err(|error| Malformed {
        id: Value::Null,
        error: RpcError::new(PARSE_ERROR, format!("not a JSON document: {error}")),
    })?;
    let Value::Object(mut fields) = message else {
        return Err(malformed(Value::Null, "a message is one JSON object; batches are not supported"));
    };
    let id = fields.remove("id");
    if let Some(id) = &id
        && !is_request_id(id)
    {
        return Err(malformed(Value::Null, "an id is a number, or a text of at most 256 bytes"));
    }
    let known = || id.clone().unwrap_or(Value::Null);
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(malformed(known(), "`jsonrpc` must be \"2.0\""));
    }
    let params = fields.remove("params").filter(|params| !params.is_null()).unwrap_or_else(|| json!({}));
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), id) => {
            if !params.is_object() {
                return Err(malformed(id.unwrap_or(Value::Null), "`params` must be an object"));
            }
            Ok(match id {
                Some(id) => Incoming::Request { id, method, params },
                None => Incoming::Notification { method, params },
            })
        }
        (Some(_), id) => Err(malformed(id.unwrap_or(Value::Null), "`method` must be a text")),
        (None, Some(id)) => {
            let outcome = match (fields.remove("result"), fields.remove("error")) {
                (_, Some(error)) if !error.is_null() => Err(error),
                (result, _) => Ok(result.unwrap_or(Value::Null)),
            };
            Ok(Incoming::Response { id, outcome })
        }
        (None, None) => Err(malformed(Value::Null, "a message has a `method` or an `id`")),
    }
}

fn is_request_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= limits::REQUEST_ID_MAX_BYTES,
        Value::Number(_) | Value::Null => true,
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn malformed(id: Value, message: &str) -> Malformed {
    Malformed { id, error: RpcError::new(INVALID_REQUEST, message) }
}

pub fn response(id: &Value, outcome: Result<Value, RpcError>) -> Value {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcError { code, message, data }) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

pub fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_garbage_is_answered() {
        let request = |id| Incoming::Request { id, method: "m".to_owned(), params: json!({}) };
        let good = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, request(json!(1))),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m","params":null}"#, request(json!("a"))),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":{"a":1}}"#,
                Incoming::Notification { method: "m".to_owned(), params: json!({"a": 1}) },
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
                Incoming::Response { id: json!(1), outcome: Ok(Value::Null) },
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
                Incoming::Response { id: json!(1), outcome: Err(json!({"code": 1})) },
            ),
        ];
        for (text, expected) in good {
            assert_eq!(parse(text.as_bytes()), Ok(expected), "{text}");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"m"}}"#, "x".repeat(300));
        let bad = [
            ("{", Value::Null, PARSE_ERROR),
            ("\u{0}", Value::Null, PARSE_ERROR),
            ("[]", Value::Null, INVALID_REQUEST),
            ("3", Value::Null, INVALID_REQUEST),
            ("{}", Value::Null, INVALID_REQUEST),
            (r#"{"id":7,"method":"m"}"#, json!(7), INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, json!(7), INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[]}"#, json!(7), INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0"}"#, Value::Null, INVALID_REQUEST),
            (&long, Value::Null, INVALID_REQUEST),
        ];
        for (text, id, code) in bad {
            let refused = parse(text.as_bytes()).expect_err(text);
            assert_eq!((refused.id, refused.error.code), (id, code), "{text}");
        }
    }
}
