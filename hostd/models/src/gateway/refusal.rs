//! Why the gateway itself answers a call with an error. `dialect::error_body` gives it the shape that the
//! agent knows.

use super::{dialect::error_response, model_request::InvalidRequest, route::RouteError};
use crate::{CallRefusal, Dialect};
use axum::body::Body;
use hyper::{
    Response, StatusCode,
    header::{ALLOW, HeaderValue, RETRY_AFTER},
};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayRefusal {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("invalid key: it is valid for one task only, from its own sandbox, while that task runs")]
    Key,
    #[error(transparent)]
    Models(#[from] CallRefusal),
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    #[error("the body is too large")]
    BodyTooLarge,
    #[error("the request body did not arrive in time")]
    BodyTimeout,
    #[error("the body is malformed, or ended too early")]
    MalformedBody,
    #[error("compressed request bodies are not accepted")]
    Encoding,
    #[error("too many calls at once from this sandbox")]
    TooMany,
    #[error("{0}")]
    Provider(String),
    #[error("{0}")]
    ProviderTimeout(String),
}

impl GatewayRefusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Route(RouteError::UnknownPath(_)) | Self::Models(CallRefusal::Model { .. }) => {
                StatusCode::NOT_FOUND
            }
            Self::Route(RouteError::WrongMethod(..)) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Key | Self::Models(CallRefusal::Ended) => StatusCode::UNAUTHORIZED,
            // Not 429 or 502, which agents would retry.
            Self::Models(CallRefusal::Budget(_) | CallRefusal::Key { .. }) => StatusCode::FORBIDDEN,
            Self::Request(_) | Self::MalformedBody => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooMany | Self::Models(CallRefusal::Busy | CallRefusal::Waits) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::Provider(_) => StatusCode::BAD_GATEWAY,
            Self::ProviderTimeout(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// The machine-readable code, as OpenAI names it.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Key | Self::Models(CallRefusal::Ended) => Some("invalid_api_key"),
            Self::Models(CallRefusal::Model { .. }) => Some("model_not_found"),
            Self::Models(CallRefusal::Budget(_)) => Some("budget_exceeded"),
            Self::Models(CallRefusal::Key { .. }) => Some("provider_key_unusable"),
            Self::TooMany | Self::Models(CallRefusal::Busy | CallRefusal::Waits) => {
                Some("rate_limit_exceeded")
            }
            Self::Route(_)
            | Self::Request(_)
            | Self::BodyTooLarge
            | Self::BodyTimeout
            | Self::MalformedBody
            | Self::Encoding
            | Self::Provider(_)
            | Self::ProviderTimeout(_) => None,
        }
    }

    pub fn response(&self, dialect: Dialect) -> Response<Body> {
        let mut response = error_response(dialect, self.status(), self.code(), &self.to_string());
        let headers = response.headers_mut();
        if let Self::Route(RouteError::WrongMethod(_, allowed)) = self {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        } else if self.status() == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_key_has_the_code_that_clients_know() {
        assert_eq!(GatewayRefusal::Key.code(), Some("invalid_api_key"));
    }

    #[test]
    fn statuses_tell_agents_whether_to_try_again() {
        let budget = CallRefusal::Budget("used up".to_owned());
        let key = CallRefusal::Key { provider: "p".to_owned(), problem: "no secret".to_owned() };
        let table = [
            (GatewayRefusal::Key, 401),
            (GatewayRefusal::Models(CallRefusal::Ended), 401),
            (GatewayRefusal::Models(CallRefusal::Busy), 429),
            (GatewayRefusal::Models(CallRefusal::Waits), 429),
            (GatewayRefusal::Models(budget), 403),
            (GatewayRefusal::Models(key), 403),
            (
                GatewayRefusal::Models(CallRefusal::Model { model: "m".to_owned(), available: Vec::new() }),
                404,
            ),
            (GatewayRefusal::Route(RouteError::UnknownPath(Dialect::Openai)), 404),
            (GatewayRefusal::Route(RouteError::WrongMethod(Dialect::Openai, "POST")), 405),
            (GatewayRefusal::Request(InvalidRequest::NoModel), 400),
            (GatewayRefusal::BodyTooLarge, 413),
            (GatewayRefusal::BodyTimeout, 408),
            (GatewayRefusal::MalformedBody, 400),
            (GatewayRefusal::Encoding, 415),
            (GatewayRefusal::TooMany, 429),
            (GatewayRefusal::Provider(String::new()), 502),
            (GatewayRefusal::ProviderTimeout(String::new()), 504),
        ];
        for (refusal, status) in table {
            assert_eq!(refusal.status().as_u16(), status, "{refusal:?}");
        }
        let response = GatewayRefusal::TooMany.response(Dialect::Anthropic);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }
}
