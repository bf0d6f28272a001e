//! Messages of JSON-RPC, as far as the bridge looks into them.

use serde_json::{Value, json};

const PARSE_ERROR: i64 = -32_700;
pub const INTERNAL_ERROR: i64 = -32_603;

/// A line of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientLine {
    Initialize(Value),
    /// Any other request, with its id.
    Request(Value),
    /// `notifications/cancelled`, with the id of the request that it is about.
    Cancelled(Value),
    /// A notification, or an answer.
    Other,
}

impl ClientLine {
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        let message: Value = serde_json::from_slice(line)?;
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").cloned();
        Ok(match (method, id) {
            (Some("initialize"), Some(_)) => Self::Initialize(message),
            (Some(_), Some(id)) => Self::Request(id),
            (Some("notifications/cancelled"), None) => {
                Self::Cancelled(message["params"]["requestId"].clone())
            }
            (Some(_), None) | (None, _) => Self::Other,
        })
    }
}

/// Whether a message of the server is the answer that ends an exchange.
pub fn is_answer(message: &str) -> bool {
    let parsed: Result<Value, _> = serde_json::from_str(message);
    parsed.is_ok_and(|message| message.get("method").is_none() && message.get("id").is_some())
}

pub fn error(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// The answer to a line that is no message.
pub fn parse_error(why: &str) -> String {
    error(&Value::Null, PARSE_ERROR, &format!("a line is one JSON-RPC message: {why}"))
}

/// Returns the refusal of a request as the answer to it: hostd's error, with the id.
pub fn refusal(id: &Value, status: u16, body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match body.get("error").filter(|error| error["code"].is_i64()) {
        Some(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string(),
        None => {
            let told = body["error"]["message"].as_str().unwrap_or("no reason given");
            error(id, INTERNAL_ERROR, &format!("hostd answered {status}: {told}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let table = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, ClientLine::Request(json!(1))),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, ClientLine::Other),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, ClientLine::Other),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#,
                ClientLine::Cancelled(json!("a")),
            ),
        ];
        for (line, expected) in table {
            assert_eq!(ClientLine::parse(line.as_bytes()).unwrap(), expected, "{line}");
        }
        assert!(ClientLine::parse(b"{").is_err());
        assert!(is_answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        assert!(!is_answer(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#));
    }

    #[test]
    fn a_refusal_answers_the_request() {
        let table: [(&[u8], &str); 3] = [
            (br#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}"#, r#""message":"no""#),
            (br#"{"error":{"code":"unauthorized","message":"who?"}}"#, "hostd answered 401: who?"),
            (b"<html>", "hostd answered 401: no reason given"),
        ];
        for (body, expected) in table {
            let answer = refusal(&json!("x"), 401, body);
            assert!(answer.contains(expected) && answer.contains(r#""id":"x""#), "{answer}");
        }
    }
}
