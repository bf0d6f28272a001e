//! Errors that the gateway itself returns to agents, in the shape of their dialect.

use crate::{Dialect, ModelApi};
use axum::body::Body;
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use serde_json::{Value, json};

pub fn error_response(
    dialect: Dialect,
    status: StatusCode,
    code: Option<&str>,
    message: &str,
) -> Response<Body> {
    json_response(status, &error_json(dialect, status.as_u16(), code, message))
}

pub fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The body of an error in the shape that clients of this dialect parse.
fn error_json(dialect: Dialect, status: u16, code: Option<&str>, message: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": anthropic_kind(status), "message": message}})
        }
        Dialect::Openai => {
            let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": status, "message": message, "status": gemini_kind(status)}})
        }
    }
}

fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn gemini_kind(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 | 405 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        502 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

/// The event that ends a stream which the gateway cuts off.
pub fn final_error_event(api: ModelApi, message: &str) -> Bytes {
    let text = match api {
        ModelApi::Messages => {
            format!("event: error\ndata: {}\n\n", error_json(Dialect::Anthropic, 500, None, message))
        }
        ModelApi::Chat => {
            format!("data: {}\n\n", error_json(Dialect::Openai, 500, Some("server_error"), message))
        }
        ModelApi::Responses => {
            // Some clients handle the one event, some the other.
            let error = json!({"type": "error", "code": "server_error", "message": message, "param": null});
            let response = json!({"object": "response", "status": "failed",
                "error": {"code": "server_error", "message": message}});
            let failed = json!({"type": "response.failed", "response": response});
            format!("event: error\ndata: {error}\n\nevent: response.failed\ndata: {failed}\n\n")
        }
        ModelApi::Generate => format!("data: {}\n\n", error_json(Dialect::Gemini, 500, None, message)),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::response_inspector::{BodyFormat, ResponseInspector};

    #[test]
    fn each_dialect_has_its_shape() {
        let message = "no such key";
        let table = [
            (
                Dialect::Anthropic,
                json!({"type":"error","error":{"type":"authentication_error","message":message}}),
            ),
            (
                Dialect::Openai,
                json!({"error":{"message":message,"type":"invalid_request_error","param":null,"code":"invalid_api_key"}}),
            ),
            (Dialect::Gemini, json!({"error":{"code":401,"message":message,"status":"UNAUTHENTICATED"}})),
        ];
        for (dialect, expected) in table {
            assert_eq!(error_json(dialect, 401, Some("invalid_api_key"), message), expected);
        }
    }

    #[test]
    fn the_final_event_is_read_as_an_error() {
        for api in [ModelApi::Messages, ModelApi::Chat, ModelApi::Responses, ModelApi::Generate] {
            let mut inspector = ResponseInspector::new(api, BodyFormat::Events);
            inspector.read(&final_error_event(api, "it \"fell\"\nsilent"));
            inspector.finish();
            let message = inspector.error().map(|error| error.message.as_str());
            assert_eq!(message, Some("it \"fell\"\nsilent"), "{api:?}");
        }
    }
}
