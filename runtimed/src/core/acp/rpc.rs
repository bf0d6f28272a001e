//! JSON-RPC over lines: parses messages of the agent and builds ours.

use super::limits::MESSAGE_MAX_BYTES;
use crate::core::json_fields::{cut, text};
use serde_json::{Value, json};

pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
pub const REQUEST_CANCELLED: i64 = -32800;

#[derive(Debug, PartialEq)]
pub enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response; `id` is set where it can be an id of ours.
    Response {
        id: Option<u64>,
        result: Result<Value, RpcError>,
    },
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// Message for the user.
    pub message: String,
}

/// Parses a line; `None` where it is not a JSON-RPC message.
pub fn parse(line: &[u8]) -> Option<Message> {
    let Value::Object(mut message) = serde_json::from_slice(line).ok()? else { return None };
    let id = message.remove("id");
    let params = message.remove("params").unwrap_or(Value::Null);
    match (message.remove("method"), id) {
        (Some(Value::String(method)), None) => Some(Message::Notification { method, params }),
        (Some(Value::String(method)), Some(id)) => Some(Message::Request { id, method, params }),
        (Some(_), _) | (None, None) => None,
        (None, Some(id)) => {
            let result = match (message.remove("error"), message.remove("result")) {
                (Some(error), _) if !error.is_null() => Err(rpc_error(&error)),
                (_, Some(result)) => Ok(result),
                // Some agents omit an empty result.
                (_, None) => Ok(Value::Null),
            };
            Some(Message::Response { id: id.as_u64(), result })
        }
    }
}

/// Joins the message of an error with the reason in its data: some agents send "Internal error" and the
/// reason only there.
fn rpc_error(error: &Value) -> RpcError {
    let message = text(error, "message").unwrap_or("an error without a message");
    let data = &error["data"];
    let found = [data, &data["message"], &data["details"], &data["error"], &data["error"]["message"]];
    let more = found.into_iter().find_map(Value::as_str).filter(|more| !more.is_empty() && *more != message);
    let words = more.map_or_else(|| message.to_owned(), |more| format!("{message}: {more}"));
    RpcError { message: cut(&words, MESSAGE_MAX_BYTES).to_owned() }
}

pub fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

pub fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

pub fn response(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub fn error_response(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notice_an_answer_or_nothing() {
        let wrong = |words: &str| Err(RpcError { message: words.to_owned() });
        let answer = |id, result| Some(Message::Response { id, result });
        for (line, expected) in [
            (
                r#"{"id":"a","method":"m"}"#,
                Some(Message::Request { id: json!("a"), method: "m".into(), params: Value::Null }),
            ),
            (
                r#"{"method":"m","params":[1]}"#,
                Some(Message::Notification { method: "m".into(), params: json!([1]) }),
            ),
            (r#"{"id":7,"result":{}}"#, answer(Some(7), Ok(json!({})))),
            (r#"{"id":7,"result":1,"error":null}"#, answer(Some(7), Ok(json!(1)))),
            (r#"{"id":7}"#, answer(Some(7), Ok(Value::Null))),
            (r#"{"id":"x","result":1}"#, answer(None, Ok(json!(1)))),
            (r#"{"id":1,"error":{"code":1,"message":"no"}}"#, answer(Some(1), wrong("no"))),
            (
                r#"{"id":1,"error":{"message":"Internal error","data":{"message":"401 bad key"}}}"#,
                answer(Some(1), wrong("Internal error: 401 bad key")),
            ),
            (r#"{"id":1,"error":"odd"}"#, answer(Some(1), wrong("an error without a message"))),
            (r#"{"method":7,"id":1}"#, None),
            (r#"{}"#, None),
            (r#"[{"method":"m"}]"#, None),
            ("plain text", None),
            ("", None),
        ] {
            assert_eq!(parse(line.as_bytes()), expected, "{line}");
        }
    }
}
