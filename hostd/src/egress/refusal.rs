//! What whoever is not let through is told.

use crate::{
    core::egress::{Denial, Destination},
    outbound::OutboundError,
};
use axum::body::Body;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::Network;
use serde_json::json;

const EGRESS_HEADER: HeaderName = HeaderName::from_static("x-slipway-egress");

/// Why there is no answer from outside.
#[derive(Debug)]
pub enum ProxyRefusal {
    /// It does not have this way out.
    Mode(Network),
    /// No host and port can be made of it, or it says two things at once.
    Malformed(&'static str),
    /// Its body cannot be read to the end.
    Body,
    RateLimited,
    TooManyConnections,
    QuotaExceeded {
        max_bytes: u64,
    },
    Denied {
        destination: Destination,
        denial: Denial,
    },
    Unreachable(OutboundError),
    /// It was connected, and then did not answer.
    Broken {
        destination: Destination,
        why: String,
    },
    /// The store does not say what was spent.
    Internal,
}

impl ProxyRefusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Mode(_) | Self::QuotaExceeded { .. } | Self::Denied { .. } => StatusCode::FORBIDDEN,
            Self::Malformed(_) | Self::Body => StatusCode::BAD_REQUEST,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::TooManyConnections | Self::Internal => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Unreachable(_) | Self::Broken { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    pub fn message(&self) -> String {
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
            Self::RateLimited => "this sandbox asks too often; ask less often.".to_owned(),
            Self::TooManyConnections => {
                "this sandbox has as many connections to the world as it may have; end one first.".to_owned()
            }
            Self::QuotaExceeded { max_bytes } => format!(
                "this sandbox has used up the {} MB it may send and receive. Its owner can give it more: max_mb of \
                 PUT /v1/sandboxes/{{id}}/egress.",
                max_bytes >> 20
            ),
            Self::Denied { destination, denial } => denial.message(destination),
            Self::Unreachable(error) => format!("{error}."),
            Self::Broken { destination, why } => format!("{destination} gave no answer: {why}."),
            Self::Internal => "hostd could not look up what this sandbox has used; ask again.".to_owned(),
        }
    }

    /// For programs: `denied; rule="…"; profile="…"`, or the word for what happened.
    fn header(&self) -> String {
        match self {
            Self::Denied { denial, .. } => {
                let profile =
                    denial.profile().map(|name| format!("; profile=\"{name}\"")).unwrap_or_default();
                format!("denied; rule=\"{}\"{profile}", denial.rule())
            }
            Self::Mode(_) => "denied; rule=\"network\"".to_owned(),
            Self::QuotaExceeded { .. } => "denied; rule=\"max_mb\"".to_owned(),
            Self::Malformed(_) | Self::Body => "malformed".to_owned(),
            Self::RateLimited | Self::TooManyConnections => "too many".to_owned(),
            Self::Unreachable(_) | Self::Broken { .. } => "unreachable".to_owned(),
            Self::Internal => "internal".to_owned(),
        }
    }

    pub fn response(&self, request_headers: &HeaderMap) -> Response<Body> {
        let json = request_headers.get(ACCEPT).is_some_and(|value| {
            value.to_str().is_ok_and(|text| text.to_ascii_lowercase().contains("application/json"))
        });
        let (kind, text) = match json {
            true => (
                "application/json",
                json!({"error": {"code": self.header(), "message": self.message()}}).to_string(),
            ),
            false => ("text/plain; charset=utf-8", format!("slipway: {}\n", self.message())),
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // Rules and names of profiles are plain words.
        if let Ok(value) = HeaderValue::from_str(&self.header()) {
            headers.insert(EGRESS_HEADER, value);
        }
        response
    }
}
