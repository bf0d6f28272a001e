//! Which API a request is for.

use hyper::Method;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
    /// Gemini's generateContent.
    Generate,
}

/// A base URL that begins so is that of a server which does not tell what it has.
const WITHOUT_LIST: &str = "/without-list/";

/// The kind of request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// An answer; whether it is to be streamed.
    Completion {
        speech: Dialect,
        streams: bool,
    },
    /// How many tokens a request would be.
    Count(Dialect),
    /// The names of the models there are.
    Models,
    Unknown,
}

impl RequestKind {
    /// By the end of the path: a base URL may put anything before it.
    pub fn of(method: &Method, path: &str, body: &Value) -> Self {
        let tells = !path.starts_with(WITHOUT_LIST);
        if method == Method::GET && path.ends_with("/models") && tells {
            return Self::Models;
        }
        if method != Method::POST {
            return Self::Unknown;
        }
        let streams = body["stream"] == true;
        let answer = |speech, streams| Self::Completion { speech, streams };
        match path {
            path if path.ends_with("/messages/count_tokens") => Self::Count(Dialect::Messages),
            path if path.ends_with("/messages") => answer(Dialect::Messages, streams),
            path if path.ends_with("/chat/completions") => answer(Dialect::Chat, streams),
            path if path.ends_with("/responses") => answer(Dialect::Responses, streams),
            path if path.ends_with(":generateContent") => answer(Dialect::Generate, false),
            path if path.ends_with(":streamGenerateContent") => answer(Dialect::Generate, true),
            path if path.ends_with(":countTokens") => Self::Count(Dialect::Generate),
            _ => Self::Unknown,
        }
    }
}
