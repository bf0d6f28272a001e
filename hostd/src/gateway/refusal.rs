//! Why a call is not passed on, or ended in the middle, in the words that the agent knows: every dialect has
//! errors of its own shape.

use super::{ask::BadAsk, route::NoRoute};
use crate::models::{CallRefusal, Dialect, ModelApi};
use axum::body::Body;
use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER},
};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Route(#[from] NoRoute),
    #[error("this key is not good here: it is for one task, from its own sandbox, while it runs")]
    Key,
    #[error(transparent)]
    Models(#[from] CallRefusal),
    #[error(transparent)]
    Ask(#[from] BadAsk),
    #[error("the body is too large")]
    TooLarge,
    #[error("the body did not come whole and in time")]
    NoBody,
    #[error("the body is malformed, or ended too early")]
    BadBody,
    #[error("bodies are taken as they are, not compressed")]
    Encoding,
    #[error("too many calls at once from this sandbox")]
    TooMany,
    #[error("{0}")]
    Provider(String),
    #[error("{0}")]
    ProviderSlow(String),
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Route(NoRoute::Path(_)) | Self::Models(CallRefusal::Model { .. }) => StatusCode::NOT_FOUND,
            Self::Route(NoRoute::Method(..)) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Key | Self::Models(CallRefusal::Ended) => StatusCode::UNAUTHORIZED,
            // Not 429: agents would try again.
            Self::Models(CallRefusal::Budget(_)) => StatusCode::FORBIDDEN,
            Self::Ask(_) | Self::BadBody => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoBody => StatusCode::REQUEST_TIMEOUT,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooMany | Self::Models(CallRefusal::Busy | CallRefusal::Waits) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Provider(_) => StatusCode::BAD_GATEWAY,
            Self::ProviderSlow(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// In OpenAI's words, for programs.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Key | Self::Models(CallRefusal::Ended) => Some("invalid_api_key"),
            Self::Models(CallRefusal::Model { .. }) => Some("model_not_found"),
            Self::Models(CallRefusal::Budget(_)) => Some("budget_exceeded"),
            Self::TooMany | Self::Models(CallRefusal::Busy | CallRefusal::Waits) => {
                Some("rate_limit_exceeded")
            }
            Self::Route(_)
            | Self::Ask(_)
            | Self::TooLarge
            | Self::NoBody
            | Self::BadBody
            | Self::Encoding
            | Self::Provider(_)
            | Self::ProviderSlow(_) => None,
        }
    }

    pub fn response(&self, dialect: Dialect) -> Response<Body> {
        let mut response = error_response(dialect, self.status(), self.code(), &self.to_string());
        let headers = response.headers_mut();
        if let Self::Route(NoRoute::Method(_, allowed)) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        } else if self.status() == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

pub fn error_response(
    dialect: Dialect,
    status: StatusCode,
    code: Option<&str>,
    message: &str,
) -> Response<Body> {
    json_response(status, &shape(dialect, status.as_u16(), code, message))
}

pub fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn shape(dialect: Dialect, status: u16, code: Option<&str>, message: &str) -> Value {
    match dialect {
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": anthropic_kind(status), "message": message}})
        }
        Dialect::Openai => {
            let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        Dialect::Gemini => {
            json!({"error": {"code": status, "message": message, "status": google_kind(status)}})
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

fn google_kind(status: u16) -> &'static str {
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

/// The last event of a stream that is ended by us.
pub fn last_event(speech: ModelApi, message: &str) -> Bytes {
    let text = match speech {
        ModelApi::Messages => {
            format!("event: error\ndata: {}\n\n", shape(Dialect::Anthropic, 500, None, message))
        }
        ModelApi::Chat => format!("data: {}\n\n", shape(Dialect::Openai, 500, Some("server_error"), message)),
        ModelApi::Responses => {
            // Some listen for the one, some for the other.
            let error = json!({"type": "error", "code": "server_error", "message": message, "param": null});
            let response = json!({"object": "response", "status": "failed",
                "error": {"code": "server_error", "message": message}});
            let failed = json!({"type": "response.failed", "response": response});
            format!("event: error\ndata: {error}\n\nevent: response.failed\ndata: {failed}\n\n")
        }
        ModelApi::Generate => format!("data: {}\n\n", shape(Dialect::Gemini, 500, None, message)),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::tap::{Form, Tap};

    #[test]
    fn each_dialect_has_its_shape() {
        let key = "this key is not good here: it is for one task, from its own sandbox, while it runs";
        let table = [
            (
                Dialect::Anthropic,
                json!({"type":"error","error":{"type":"authentication_error","message":key}}),
            ),
            (
                Dialect::Openai,
                json!({"error":{"message":key,"type":"invalid_request_error","param":null,"code":"invalid_api_key"}}),
            ),
            (Dialect::Gemini, json!({"error":{"code":401,"message":key,"status":"UNAUTHENTICATED"}})),
        ];
        for (dialect, expected) in table {
            assert_eq!(shape(dialect, 401, Refusal::Key.code(), &Refusal::Key.to_string()), expected);
        }
    }

    #[test]
    fn statuses_tell_agents_whether_to_try_again() {
        let budget = CallRefusal::Budget("used up".to_owned());
        let table = [
            (Refusal::Key, 401),
            (Refusal::Models(CallRefusal::Ended), 401),
            (Refusal::Models(CallRefusal::Busy), 429),
            (Refusal::Models(CallRefusal::Waits), 429),
            (Refusal::Models(budget), 403),
            (Refusal::Models(CallRefusal::Model { model: "m".to_owned(), available: Vec::new() }), 404),
            (Refusal::Route(NoRoute::Path(Dialect::Openai)), 404),
            (Refusal::Route(NoRoute::Method(Dialect::Openai, "POST")), 405),
            (Refusal::Ask(BadAsk::NoModel), 400),
            (Refusal::TooLarge, 413),
            (Refusal::NoBody, 408),
            (Refusal::BadBody, 400),
            (Refusal::Encoding, 415),
            (Refusal::TooMany, 429),
            (Refusal::Provider(String::new()), 502),
            (Refusal::ProviderSlow(String::new()), 504),
        ];
        for (refusal, status) in table {
            assert_eq!(refusal.status().as_u16(), status, "{refusal:?}");
        }
        let response = Refusal::TooMany.response(Dialect::Anthropic);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn the_last_event_is_one_that_is_read_as_an_error() {
        for speech in [ModelApi::Messages, ModelApi::Chat, ModelApi::Responses, ModelApi::Generate] {
            let mut tap = Tap::new(speech, Form::Events);
            tap.read(&last_event(speech, "it \"fell\"\nsilent"));
            tap.finish();
            let words = tap.trouble().map(|trouble| trouble.words.as_str());
            assert_eq!(words, Some("it \"fell\"\nsilent"), "{speech:?}");
        }
    }
}
