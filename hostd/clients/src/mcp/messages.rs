//! Messages of JSON-RPC: those of a client, parsed, and ours, as text.

use super::limits;
use rmcp::model::{
    ErrorData, JsonObject, JsonRpcError, JsonRpcMessage, JsonRpcNotification, JsonRpcResponse,
    JsonRpcVersion2_0, Notification, NumberOrString, ProgressNotification, ProgressNotificationParam,
    ProgressToken, RequestId, RequestMetaObject, RequestOptionalParam,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

type Incoming =
    JsonRpcMessage<RequestOptionalParam<String, JsonObject>, Value, Notification<String, JsonObject>>;

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientMessage {
    Request(ClientRequest),
    Notification {
        method: String,
        params: JsonObject,
    },
    /// An answer to a request of ours. There are none.
    Answer,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClientRequest {
    pub id: RequestId,
    pub method: String,
    pub params: JsonObject,
    pub progress: Option<ProgressToken>,
}

impl ClientRequest {
    /// Returns the parameters as those of this method.
    pub fn params<T: DeserializeOwned>(&mut self) -> Result<T, ErrorData> {
        let params = Value::Object(std::mem::take(&mut self.params));
        serde_json::from_value(params)
            .map_err(|error| ErrorData::invalid_params(format!("{}: {error}", self.method), None))
    }
}

/// Parses the body of a request.
pub fn parse(body: &[u8]) -> Result<ClientMessage, ErrorData> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| ErrorData::parse_error(format!("the body is not JSON: {error}"), None))?;
    let invalid = |message: String| ErrorData::invalid_request(message, None);
    if value.is_array() {
        return Err(invalid("batches are not supported: send one message per request".to_owned()));
    }
    let message: Incoming = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
    match message {
        JsonRpcMessage::Request(found) => {
            let meta = found.request.extensions.get::<RequestMetaObject>();
            let progress = meta.and_then(RequestMetaObject::get_progress_token);
            let ids = [Some(&found.id), progress.as_ref().map(|token| &token.0)];
            if ids.into_iter().flatten().any(is_too_long) {
                let most = limits::REQUEST_ID_MAX_BYTES;
                return Err(invalid(format!("ids and progress tokens have at most {most} bytes")));
            }
            let (method, params) = (found.request.method, found.request.params.unwrap_or_default());
            Ok(ClientMessage::Request(ClientRequest { id: found.id, method, params, progress }))
        }
        JsonRpcMessage::Notification(found) => {
            let Notification { method, params, .. } = found.notification;
            Ok(ClientMessage::Notification { method, params })
        }
        JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => Ok(ClientMessage::Answer),
    }
}

fn is_too_long(id: &RequestId) -> bool {
    match id {
        NumberOrString::Number(_) => false,
        NumberOrString::String(text) => text.len() > limits::REQUEST_ID_MAX_BYTES,
    }
}

pub fn response<T: Serialize>(id: RequestId, result: T) -> Vec<u8> {
    text(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })
}

/// An error; one about no request in particular has the id `null`, which clients expect.
pub fn error(id: Option<RequestId>, error: ErrorData) -> Vec<u8> {
    match id {
        Some(id) => text(&JsonRpcError::new(Some(id), error)),
        None => text(&json!({"jsonrpc": "2.0", "id": null, "error": error})),
    }
}

pub fn progress(params: ProgressNotificationParam) -> Vec<u8> {
    let notification = ProgressNotification::new(params);
    text(&JsonRpcNotification { jsonrpc: JsonRpcVersion2_0, notification })
}

fn text<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages have only text keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_batches_are_refused() {
        let kinds: [(&str, Option<&str>); 9] = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, Some("request")),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#, Some("request")),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Some("notification")),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some("answer")),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#, Some("answer")),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, None),
            (r#"{"id":1,"method":"ping"}"#, None),
            ("{", None),
        ];
        for (text, expected) in kinds {
            let kind = parse(text.as_bytes()).ok().map(|message| match message {
                ClientMessage::Request(_) => "request",
                ClientMessage::Notification { .. } => "notification",
                ClientMessage::Answer => "answer",
            });
            assert_eq!(kind, expected, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(parse(deep.as_bytes()).is_err(), "nested without end");
    }

    #[test]
    fn the_progress_token_is_found_and_long_ids_are_refused() {
        let with = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","_meta":{{"progressToken":"{id}"}}}}}}"#
            )
        };
        let Ok(ClientMessage::Request(found)) = parse(with("p").as_bytes()) else { panic!("a request") };
        assert_eq!(found.progress, Some(ProgressToken(NumberOrString::String("p".into()))));
        assert_eq!(found.params.get("name").and_then(Value::as_str), Some("x"));
        assert!(parse(with(&"p".repeat(limits::REQUEST_ID_MAX_BYTES + 1)).as_bytes()).is_err());
    }
}
