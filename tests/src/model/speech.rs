//! Which API a request is for.

use hyper::Method;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Speech {
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

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// An answer; whether it is to be streamed.
    Answer {
        speech: Speech,
        streams: bool,
    },
    /// How many tokens a request would be.
    Count(Speech),
    /// The names of the models there are.
    Models,
    Unknown,
}

impl Wish {
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
        let answer = |speech, streams| Self::Answer { speech, streams };
        match path {
            path if path.ends_with("/messages/count_tokens") => Self::Count(Speech::Messages),
            path if path.ends_with("/messages") => answer(Speech::Messages, streams),
            path if path.ends_with("/chat/completions") => answer(Speech::Chat, streams),
            path if path.ends_with("/responses") => answer(Speech::Responses, streams),
            path if path.ends_with(":generateContent") => answer(Speech::Generate, false),
            path if path.ends_with(":streamGenerateContent") => answer(Speech::Generate, true),
            path if path.ends_with(":countTokens") => Self::Count(Speech::Generate),
            _ => Self::Unknown,
        }
    }
}
