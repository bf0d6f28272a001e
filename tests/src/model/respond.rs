//! How an answer is given: in its dialect, and with what goes wrong.

use super::completion::Completion;
use super::conversation::Conversation;
use super::dialect::Dialect;
use super::fault::{Body, answer, full, streamed};
use super::script::Fault;
use super::{anthropic, chat, gemini, responses};
use hyper::Response;
use hyper::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use serde_json::Value;
use std::future::pending;

/// How an answer is given.
pub struct Responder<'a> {
    pub speech: Dialect,
    pub streams: bool,
    pub fault: Option<&'a Fault>,
    pub key: Option<&'a str>,
}

impl Responder<'_> {
    pub async fn response(&self, turn: &Completion, asked: &Value) -> Response<Body> {
        match self.fault {
            Some(Fault::Hang) => pending().await,
            Some(Fault::Status { code, message, retry_after_s }) => {
                let mut response = refusal(self.speech, *code, kind_of(*code), message);
                if let Some(seconds) = retry_after_s {
                    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
                }
                response
            }
            Some(Fault::EchoKey { code }) => {
                let message = format!("the key {} is not good", self.key.unwrap_or_default());
                refusal(self.speech, *code, kind_of(*code), &message)
            }
            Some(Fault::Garbage) => answer(200, "text/event-stream", full("\u{1}no event\n\n{\"no\": json")),
            Some(Fault::Redirect { location }) => {
                let mut response = answer(307, "text/plain", full("elsewhere"));
                let location = HeaderValue::from_str(location).expect("scripts have real addresses");
                response.headers_mut().insert(LOCATION, location);
                response
            }
            Some(Fault::HugeHeader { bytes }) => {
                let mut response = self.written(turn, asked);
                let huge = HeaderValue::from_str(&"x".repeat(*bytes)).expect("it is only letters");
                response.headers_mut().insert(HeaderName::from_static("x-huge"), huge);
                response
            }
            _ => self.written(turn, asked),
        }
    }

    fn written(&self, turn: &Completion, asked: &Value) -> Response<Body> {
        if self.streams {
            let frames = match self.speech {
                Dialect::Messages => anthropic::frames(turn),
                Dialect::Chat => chat::frames(turn, asked),
                Dialect::Responses => responses::frames(turn),
                Dialect::Generate => gemini::frames(turn),
            };
            return answer(200, "text/event-stream", streamed(frames, self.fault));
        }
        let whole = match self.speech {
            Dialect::Messages => anthropic::whole(turn),
            Dialect::Chat => chat::whole(turn),
            Dialect::Responses => responses::whole(turn),
            Dialect::Generate => gemini::whole(turn),
        };
        answer(200, "application/json", streamed(vec![whole.to_string()], self.fault))
    }
}

pub fn read(speech: Dialect, path: &str, body: &Value) -> Conversation {
    match speech {
        Dialect::Messages => anthropic::read(body),
        Dialect::Chat => chat::read(body),
        Dialect::Responses => responses::read(body),
        Dialect::Generate => gemini::read(path, body),
    }
}

pub fn refusal(speech: Dialect, code: u16, kind: &str, message: &str) -> Response<Body> {
    let body = match speech {
        Dialect::Messages => anthropic::error(kind, message),
        Dialect::Chat => chat::error(kind, message),
        Dialect::Responses => responses::error(kind, message),
        Dialect::Generate => gemini::error(code, kind, message),
    };
    answer(code, "application/json", full(body.to_string()))
}

fn kind_of(code: u16) -> &'static str {
    match code {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}
