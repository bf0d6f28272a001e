//! The paths below `/model/`, by method and path alone. Pure. A path that no dialect names is not forwarded.

use super::{
    dialect::{ModelApi, rules},
    limits::MODEL_MAX_BYTES,
};
use crate::Dialect;
use hyper::Method;

/// Without a known dialect an error takes the shape that most clients read.
const FALLBACK: Dialect = Dialect::Openai;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// An agent probes whether its API is reachable.
    Hello(Dialect),
    /// The list of models.
    Models(Dialect),
    Call(Endpoint),
}

/// An endpoint of a provider's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub api: ModelApi,
    pub operation: Operation,
    /// From the path, in an API that has it there.
    pub model: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Generates a response, streamed where the body says so.
    Generate,
    /// Generates a response that is streamed because of its path.
    Stream,
    /// Counts the tokens of a request, and generates nothing.
    Count,
}

/// Why a request has no route, with the dialect in which the agent reads errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("no such path at this gateway: only inference is forwarded")]
    UnknownPath(Dialect),
    #[error("this path does not take this method")]
    WrongMethod(Dialect, &'static str),
}

impl Route {
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Hello(dialect) | Self::Models(dialect) => *dialect,
            Self::Call(endpoint) => endpoint.api.dialect(),
        }
    }
}

impl Endpoint {
    pub fn new(api: ModelApi, operation: Operation) -> Self {
        Self { api, operation, model: None }
    }

    pub fn count_only(&self) -> bool {
        self.operation == Operation::Count
    }

    /// The path below the base URL of a provider, which includes the version.
    pub fn path(&self, model: &str) -> String {
        self.api.rules().path(self.operation, model)
    }
}

impl Operation {
    pub const ALL: [Self; 3] = [Self::Generate, Self::Stream, Self::Count];
}

pub fn route(method: &Method, path: &str) -> Result<Route, RouteError> {
    let path = path.strip_prefix("/model/").unwrap_or_default();
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let dialect = Dialect::from_name(name).ok_or(RouteError::UnknownPath(FALLBACK))?;
    let route = rules(dialect).route(rest).ok_or(RouteError::UnknownPath(dialect))?;
    let (allowed, name) = match &route {
        Route::Hello(_) => (Method::HEAD, "HEAD"),
        Route::Models(_) => (Method::GET, "GET"),
        Route::Call(_) => (Method::POST, "POST"),
    };
    if *method == allowed { Ok(route) } else { Err(RouteError::WrongMethod(dialect, name)) }
}

/// Refuses names that different parsers of paths read differently: the name is compared, and goes into
/// another path.
pub fn is_safe_name(model: &str) -> bool {
    model.len() <= MODEL_MAX_BYTES
        && model.starts_with(|first: char| first.is_ascii_alphanumeric())
        && model.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@'))
}

/// Percent-encodes a name as one segment of a path.
pub fn escaped(model: &str) -> String {
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

    fn parse(method: &str, path: &str) -> Result<Route, RouteError> {
        route(&method.parse().expect("a method"), path)
    }

    fn call(api: ModelApi, operation: Operation) -> Route {
        Route::Call(Endpoint::new(api, operation))
    }

    fn generate(model: &str, operation: Operation) -> Route {
        Route::Call(Endpoint { api: ModelApi::Generate, operation, model: Some(model.to_owned()) })
    }

    #[test]
    fn endpoints_of_inference_are_found() {
        let table = [
            ("POST", "/model/anthropic/v1/messages", call(ModelApi::Messages, Operation::Generate)),
            ("POST", "/model/anthropic/v1/messages/count_tokens", call(ModelApi::Messages, Operation::Count)),
            ("GET", "/model/anthropic/v1/models", Route::Models(Dialect::Anthropic)),
            ("HEAD", "/model/anthropic/api/hello", Route::Hello(Dialect::Anthropic)),
            ("POST", "/model/openai/v1/chat/completions", call(ModelApi::Chat, Operation::Generate)),
            ("POST", "/model/openai/v1/responses", call(ModelApi::Responses, Operation::Generate)),
            ("GET", "/model/openai/v1/models", Route::Models(Dialect::Openai)),
            (
                "POST",
                "/model/gemini/v1beta/models/gemini-2.5-pro:generateContent",
                generate("gemini-2.5-pro", Operation::Generate),
            ),
            ("POST", "/model/gemini/v1/models/g:streamGenerateContent", generate("g", Operation::Stream)),
            ("POST", "/model/gemini/v1beta/models/g@001:countTokens", generate("g@001", Operation::Count)),
        ];
        for (method, path, expected) in table {
            assert_eq!(parse(method, path), Ok(expected), "{method} {path}");
        }
    }

    #[test]
    fn no_other_path_is_found() {
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
            assert_eq!(parse("POST", path), Err(RouteError::UnknownPath(Dialect::Anthropic)), "{path}");
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
            assert_eq!(parse("POST", path), Err(RouteError::UnknownPath(Dialect::Openai)), "{path}");
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
            assert_eq!(parse("POST", path), Err(RouteError::UnknownPath(Dialect::Gemini)), "{path}");
        }
        let long = format!("/model/gemini/v1/models/{}:generateContent", "a".repeat(MODEL_MAX_BYTES + 1));
        assert_eq!(parse("POST", &long), Err(RouteError::UnknownPath(Dialect::Gemini)));
    }

    #[test]
    fn each_route_has_one_method() {
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
            let refused = parse(method, path);
            assert!(
                matches!(refused, Err(RouteError::WrongMethod(_, name)) if name == allowed),
                "{method} {path}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_model_is_one_segment_of_a_path_whatever_an_operator_calls_it() {
        let call = Endpoint::new(ModelApi::Generate, Operation::Stream);
        assert_eq!(call.path("gemini-2.5-pro"), "/models/gemini-2.5-pro:streamGenerateContent");
        assert_eq!(call.path("../a b?c#d"), "/models/..%2Fa%20b%3Fc%23d:streamGenerateContent");
        assert_eq!(Endpoint::new(ModelApi::Messages, Operation::Generate).path("x"), "/messages");
    }
}
