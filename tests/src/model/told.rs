//! How an answer is given: in its dialect, and with what goes wrong.

use super::asked::Asked;
use super::fault::{Body, answer, full, streamed};
use super::script::Fault;
use super::speech::Speech;
use super::written::Answer;
use super::{anthropic, chat, gemini, responses};
use hyper::Response;
use hyper::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use serde_json::Value;
use std::future::pending;

/// How an answer is given.
pub struct Told<'a> {
    pub speech: Speech,
    pub streams: bool,
    pub fault: Option<&'a Fault>,
    pub key: Option<&'a str>,
}

impl Told<'_> {
    pub async fn response(&self, turn: &Answer, asked: &Value) -> Response<Body> {
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

    fn written(&self, turn: &Answer, asked: &Value) -> Response<Body> {
        if self.streams {
            let frames = match self.speech {
                Speech::Messages => anthropic::frames(turn),
                Speech::Chat => chat::frames(turn, asked),
                Speech::Responses => responses::frames(turn),
                Speech::Generate => gemini::frames(turn),
            };
            return answer(200, "text/event-stream", streamed(frames, self.fault));
        }
        let whole = match self.speech {
            Speech::Messages => anthropic::whole(turn),
            Speech::Chat => chat::whole(turn),
            Speech::Responses => responses::whole(turn),
            Speech::Generate => gemini::whole(turn),
        };
        answer(200, "application/json", streamed(vec![whole.to_string()], self.fault))
    }
}

pub fn read(speech: Speech, path: &str, body: &Value) -> Asked {
    match speech {
        Speech::Messages => anthropic::read(body),
        Speech::Chat => chat::read(body),
        Speech::Responses => responses::read(body),
        Speech::Generate => gemini::read(path, body),
    }
}

pub fn refusal(speech: Speech, code: u16, kind: &str, message: &str) -> Response<Body> {
    let body = match speech {
        Speech::Messages => anthropic::error(kind, message),
        Speech::Chat => chat::error(kind, message),
        Speech::Responses => responses::error(kind, message),
        Speech::Generate => gemini::error(code, kind, message),
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
