//! What a request below `/model/` asks for, by its method and path alone. Pure. What is not named here is not
//! passed on.

use super::limits::MODEL_MAX_BYTES;
use crate::models::{Dialect, ModelApi};
use hyper::Method;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// An agent looks whether somebody is there.
    Hello,
    /// Which models there are.
    Models(Dialect),
    Call(Inference),
}

/// What is passed on to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inference {
    Messages,
    /// Says how long a request is, and makes nothing.
    CountTokens,
    Chat,
    Responses,
    Generate {
        /// In its path.
        model: String,
        verb: Verb,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Generate,
    Stream,
    Count,
}

/// Why nothing is there. With the dialect, since agents read errors of their own only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    #[error("there is no such path at this gateway: it passes on inference only")]
    Path(Dialect),
    #[error("not with this method")]
    Method(Dialect, &'static str),
}

impl Route {
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Hello => Dialect::Anthropic,
            Self::Models(dialect) => *dialect,
            Self::Call(call) => call.speech().dialect(),
        }
    }
}

impl Inference {
    pub fn speech(&self) -> ModelApi {
        match self {
            Self::Messages | Self::CountTokens => ModelApi::Messages,
            Self::Chat => ModelApi::Chat,
            Self::Responses => ModelApi::Responses,
            Self::Generate { .. } => ModelApi::Generate,
        }
    }

    pub fn count_only(&self) -> bool {
        matches!(self, Self::CountTokens | Self::Generate { verb: Verb::Count, .. })
    }

    /// Below the base URL of a provider, which has the version in it.
    pub fn path(&self, model: &str) -> String {
        match self {
            Self::Messages => "/messages".to_owned(),
            Self::CountTokens => "/messages/count_tokens".to_owned(),
            Self::Chat => "/chat/completions".to_owned(),
            Self::Responses => "/responses".to_owned(),
            Self::Generate { verb, .. } => format!("/models/{}:{}", escaped(model), verb.name()),
        }
    }
}

impl Verb {
    const ALL: [Self; 3] = [Self::Generate, Self::Stream, Self::Count];

    fn name(self) -> &'static str {
        match self {
            Self::Generate => "generateContent",
            Self::Stream => "streamGenerateContent",
            Self::Count => "countTokens",
        }
    }
}

pub fn route(method: &Method, path: &str) -> Result<Route, NoRoute> {
    let path = path.strip_prefix("/model/").unwrap_or_default();
    // Whoever asks for none of them may know the words that most know.
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let (dialect, found) = match name {
        "anthropic" => (Dialect::Anthropic, anthropic(rest)),
        "openai" => (Dialect::Openai, openai(rest)),
        "gemini" => (Dialect::Gemini, gemini(rest)),
        _ => return Err(NoRoute::Path(Dialect::Openai)),
    };
    let route = found.ok_or(NoRoute::Path(dialect))?;
    let (allowed, name) = match &route {
        Route::Hello => (Method::HEAD, "HEAD"),
        Route::Models(_) => (Method::GET, "GET"),
        Route::Call(_) => (Method::POST, "POST"),
    };
    if *method == allowed { Ok(route) } else { Err(NoRoute::Method(dialect, name)) }
}

fn anthropic(rest: &str) -> Option<Route> {
    match rest {
        "v1/messages" => Some(Route::Call(Inference::Messages)),
        "v1/messages/count_tokens" => Some(Route::Call(Inference::CountTokens)),
        "v1/models" => Some(Route::Models(Dialect::Anthropic)),
        "api/hello" => Some(Route::Hello),
        _ => None,
    }
}

fn openai(rest: &str) -> Option<Route> {
    match rest {
        "v1/chat/completions" => Some(Route::Call(Inference::Chat)),
        "v1/responses" => Some(Route::Call(Inference::Responses)),
        "v1/models" => Some(Route::Models(Dialect::Openai)),
        _ => None,
    }
}

fn gemini(rest: &str) -> Option<Route> {
    let rest = rest.strip_prefix("v1beta/models/").or_else(|| rest.strip_prefix("v1/models/"))?;
    let (model, verb) = rest.rsplit_once(':')?;
    let verb = Verb::ALL.into_iter().find(|known| known.name() == verb)?;
    is_plain(model).then(|| Route::Call(Inference::Generate { model: model.to_owned(), verb }))
}

/// Nothing that a path could be read differently for: it is compared, and may go into another path.
fn is_plain(model: &str) -> bool {
    model.len() <= MODEL_MAX_BYTES
        && model.starts_with(|first: char| first.is_ascii_alphanumeric())
        && model.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@'))
}

/// As one part of a path.
fn escaped(model: &str) -> String {
    model
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'@' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str) -> Result<Route, NoRoute> {
        route(&method.parse().expect("a method"), path)
    }

    fn generate(model: &str, verb: Verb) -> Route {
        Route::Call(Inference::Generate { model: model.to_owned(), verb })
    }

    #[test]
    fn inference_is_found() {
        let table = [
            ("POST", "/model/anthropic/v1/messages", Route::Call(Inference::Messages)),
            ("POST", "/model/anthropic/v1/messages/count_tokens", Route::Call(Inference::CountTokens)),
            ("GET", "/model/anthropic/v1/models", Route::Models(Dialect::Anthropic)),
            ("HEAD", "/model/anthropic/api/hello", Route::Hello),
            ("POST", "/model/openai/v1/chat/completions", Route::Call(Inference::Chat)),
            ("POST", "/model/openai/v1/responses", Route::Call(Inference::Responses)),
            ("GET", "/model/openai/v1/models", Route::Models(Dialect::Openai)),
            (
                "POST",
                "/model/gemini/v1beta/models/gemini-2.5-pro:generateContent",
                generate("gemini-2.5-pro", Verb::Generate),
            ),
            ("POST", "/model/gemini/v1/models/g:streamGenerateContent", generate("g", Verb::Stream)),
            ("POST", "/model/gemini/v1beta/models/g@001:countTokens", generate("g@001", Verb::Count)),
        ];
        for (method, path, expected) in table {
            assert_eq!(asked(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn nothing_else_is() {
        let anthropic = [
            "/model/anthropic",
            "/model/anthropic/",
            "/model/anthropic/v1/messages/",
            "/model/anthropic//v1/messages",
            "/model/anthropic/v1//messages",
            "/model/anthropic/v1/./messages",
            "/model/anthropic/v1/messages/../models",
            "/model/anthropic/v1/messages%2fcount_tokens",
            "/model/anthropic/v1/messages/batches",
            "/model/anthropic/v1/Messages",
            "/model/anthropic/v2/messages",
            "/model/anthropic/v1/files",
        ];
        for path in anthropic {
            assert_eq!(asked("POST", path), Err(NoRoute::Path(Dialect::Anthropic)), "{path}");
        }
        let openai = [
            "/model/openai/v1/embeddings",
            "/model/openai/v1/files",
            "/model/openai/v1/responses/resp_1",
            "/model/openai/v1/organization/api_keys",
            "/model/openai/v1/chat/completions;x",
            "/model/other/v1/messages",
            "/model/",
            "/model",
            "/modelanthropic/v1/messages",
            "/",
        ];
        for path in openai {
            assert_eq!(asked("POST", path), Err(NoRoute::Path(Dialect::Openai)), "{path}");
        }
        let gemini = [
            "/model/gemini/v1beta/models",
            "/model/gemini/v1beta/models/g",
            "/model/gemini/v1beta/models/:generateContent",
            "/model/gemini/v1beta/models/..:generateContent",
            "/model/gemini/v1beta/models/.:generateContent",
            "/model/gemini/v1beta/models/a/b:generateContent",
            "/model/gemini/v1beta/models/a%2fb:generateContent",
            "/model/gemini/v1beta/models/a:b:generateContent",
            "/model/gemini/v1beta/models/a:embedContent",
            "/model/gemini/v1beta/models/a:generatecontent",
            "/model/gemini/v1beta/tunedModels/a:generateContent",
            "/model/gemini/v3/models/a:generateContent",
        ];
        for path in gemini {
            assert_eq!(asked("POST", path), Err(NoRoute::Path(Dialect::Gemini)), "{path}");
        }
        let long = format!("/model/gemini/v1/models/{}:generateContent", "a".repeat(MODEL_MAX_BYTES + 1));
        assert_eq!(asked("POST", &long), Err(NoRoute::Path(Dialect::Gemini)));
    }

    #[test]
    fn each_has_one_method() {
        let table = [
            ("GET", "/model/anthropic/v1/messages", "POST"),
            ("PUT", "/model/openai/v1/responses", "POST"),
            ("DELETE", "/model/gemini/v1/models/g:generateContent", "POST"),
            ("POST", "/model/openai/v1/models", "GET"),
            ("HEAD", "/model/anthropic/v1/models", "GET"),
            ("GET", "/model/anthropic/api/hello", "HEAD"),
            ("OPTIONS", "/model/anthropic/v1/messages", "POST"),
        ];
        for (method, path, allowed) in table {
            let refused = asked(method, path);
            assert!(
                matches!(refused, Err(NoRoute::Method(_, name)) if name == allowed),
                "{method} {path}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_model_is_one_part_of_a_path_whatever_an_operator_calls_it() {
        let call = Inference::Generate { model: "x".to_owned(), verb: Verb::Stream };
        assert_eq!(call.path("gemini-2.5-pro"), "/models/gemini-2.5-pro:streamGenerateContent");
        assert_eq!(call.path("../a b?c#d"), "/models/..%2Fa%20b%3Fc%23d:streamGenerateContent");
        assert_eq!(Inference::Messages.path("x"), "/messages");
    }
}
