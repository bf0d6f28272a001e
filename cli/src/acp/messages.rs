//! JSON-RPC messages of the Agent Client Protocol, as far as the bridge looks at them. Pure.

use serde_json::{Value, json};

/// The kind of a message, by its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Request,
    Notification,
    Response,
}

pub fn kind(message: &Value) -> Option<Kind> {
    let fields = message.as_object()?;
    match (fields.get("method"), fields.get("id")) {
        (Some(_), Some(_)) => Some(Kind::Request),
        (Some(_), None) => Some(Kind::Notification),
        (None, Some(_)) => Some(Kind::Response),
        (None, None) => None,
    }
}

pub fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

pub fn session(message: &Value) -> Option<&str> {
    message["params"]["sessionId"].as_str()
}

/// Sets an entry of `params._meta`, unless the editor did.
pub fn set_meta(message: &mut Value, name: &str, value: Value, replaces: bool) {
    let params = &mut message["params"];
    if !params.is_object() {
        *params = json!({});
    }
    if !params["_meta"].is_object() {
        params["_meta"] = json!({});
    }
    if replaces || params["_meta"].get(name).is_none() {
        params["_meta"][name] = value;
    }
}

pub fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Cancels the one request with this id.
pub fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
}

pub fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}
