//! Errors that the gateway itself returns to agents, in the shape of their dialect.

use super::rules;
use crate::Dialect;
use axum::body::Body;
use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use serde_json::Value;

pub fn error_response(
    dialect: Dialect,
    status: StatusCode,
    code: Option<&str>,
    message: &str,
) -> Response<Body> {
    json_response(status, &rules(dialect).error_json(status.as_u16(), code, message))
}

pub fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{
        dialect::ModelApi,
        response_inspector::{BodyFormat, ResponseInspector},
    };
    use serde_json::json;

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
            assert_eq!(rules(dialect).error_json(401, Some("invalid_api_key"), message), expected);
        }
    }

    #[test]
    fn the_final_event_is_read_as_an_error() {
        for api in [ModelApi::Messages, ModelApi::Chat, ModelApi::Responses, ModelApi::Generate] {
            let mut inspector = ResponseInspector::new(api, BodyFormat::Events);
            inspector.read(api.rules().final_error_event("it \"fell\"\nsilent").as_bytes());
            inspector.finish();
            let message = inspector.error().map(|error| error.message.as_str());
            assert_eq!(message, Some("it \"fell\"\nsilent"), "{api:?}");
        }
    }
}
