//! What whoever is not let through is told.

use crate::{
    core::egress::{Asked, Why},
    outside::OutsideError,
};
use axum::body::Body;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::Network;
use serde_json::json;

const TOLD: HeaderName = HeaderName::from_static("x-slipway-egress");

/// Why there is no answer from outside.
#[derive(Debug)]
pub enum Refusal {
    /// It does not have this way out.
    Mode(Network),
    /// No host and port can be made of it, or it says two things at once.
    Malformed(&'static str),
    /// Its body cannot be read to the end.
    Body,
    TooMany,
    NoPlace,
    Spent {
        max_bytes: u64,
    },
    Denied {
        asked: Asked,
        why: Why,
    },
    Unreachable(OutsideError),
    /// It was connected, and then did not answer.
    Broken {
        asked: Asked,
        why: String,
    },
    /// The store does not say what was spent.
    Internal,
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Mode(_) | Self::Spent { .. } | Self::Denied { .. } => StatusCode::FORBIDDEN,
            Self::Malformed(_) | Self::Body => StatusCode::BAD_REQUEST,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::NoPlace | Self::Internal => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Unreachable(_) | Self::Broken { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    pub fn words(&self) -> String {
        match self {
            Self::Mode(Network::Open) => {
                "this sandbox has a network of its own: ask without a proxy.".to_owned()
            }
            Self::Mode(Network::None | Network::Proxy) => {
                "this sandbox has no network. One that was created with network: proxy has this way out."
                    .to_owned()
            }
            Self::Malformed(why) => format!("{why}."),
            Self::Body => "the body of the request is malformed, or ended too early.".to_owned(),
            Self::TooMany => "this sandbox asks too often; ask less often.".to_owned(),
            Self::NoPlace => {
                "this sandbox has as many connections to the world as it may have; end one first.".to_owned()
            }
            Self::Spent { max_bytes } => format!(
                "this sandbox has used up the {} MB it may send and receive. Its owner can give it more: max_mb of \
                 PUT /v1/sandboxes/{{id}}/egress.",
                max_bytes >> 20
            ),
            Self::Denied { asked, why } => why.words(asked),
            Self::Unreachable(error) => format!("{error}."),
            Self::Broken { asked, why } => format!("{asked} gave no answer: {why}."),
            Self::Internal => "hostd could not look up what this sandbox has used; ask again.".to_owned(),
        }
    }

    /// For programs: `denied; rule="…"; profile="…"`, or the word for what happened.
    fn header(&self) -> String {
        match self {
            Self::Denied { why, .. } => {
                let profile = why.profile().map(|name| format!("; profile=\"{name}\"")).unwrap_or_default();
                format!("denied; rule=\"{}\"{profile}", why.rule())
            }
            Self::Mode(_) => "denied; rule=\"network\"".to_owned(),
            Self::Spent { .. } => "denied; rule=\"max_mb\"".to_owned(),
            Self::Malformed(_) | Self::Body => "malformed".to_owned(),
            Self::TooMany | Self::NoPlace => "too many".to_owned(),
            Self::Unreachable(_) | Self::Broken { .. } => "unreachable".to_owned(),
            Self::Internal => "internal".to_owned(),
        }
    }

    pub fn response(&self, accepts: &HeaderMap) -> Response<Body> {
        let json = accepts.get(ACCEPT).is_some_and(|value| {
            value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("application/json"))
        });
        let (kind, text) = match json {
            true => (
                "application/json",
                json!({"error": {"code": self.header(), "message": self.words()}}).to_string(),
            ),
            false => ("text/plain; charset=utf-8", format!("slipway: {}\n", self.words())),
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Rules and names of profiles are plain words.
        if let Ok(told) = HeaderValue::from_str(&self.header()) {
            headers.insert(TOLD, told);
        }
        response
    }
}
