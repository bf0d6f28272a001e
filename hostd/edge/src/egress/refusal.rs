//! Responses of the proxy to requests that it refuses or cannot complete.

use axum::body::Body;
use hostd_core::egress::{Denial, Destination};
use hostd_net::outbound::OutboundError;
use hyper::{
    HeaderMap, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::Network;
use serde_json::json;

const EGRESS_HEADER: HeaderName = HeaderName::from_static("x-slipway-egress");

/// Why the proxy answers a request itself.
#[derive(Debug)]
pub enum ProxyRefusal {
    /// The network mode of the sandbox has no proxy.
    NetworkMode(Network),
    /// The request has no valid destination, or is ambiguous.
    Malformed(&'static str),
    /// The body of the request cannot be read to its end.
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
    /// The connection failed before a response.
    NoResponse {
        destination: Destination,
        why: String,
    },
    /// The store could not be read for the bytes used so far.
    Internal,
}

impl ProxyRefusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::NetworkMode(_) | Self::QuotaExceeded { .. } | Self::Denied { .. } => StatusCode::FORBIDDEN,
            Self::Malformed(_) | Self::Body => StatusCode::BAD_REQUEST,
            Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::TooManyConnections | Self::Internal => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(error) if error.is_timeout() => StatusCode::GATEWAY_TIMEOUT,
            Self::Unreachable(_) | Self::NoResponse { .. } => StatusCode::BAD_GATEWAY,
        }
    }

    pub fn message(&self) -> String {
        match self {
            Self::NetworkMode(Network::Open) => {
                "this sandbox has a network of its own: connect without a proxy.".to_owned()
            }
            Self::NetworkMode(Network::None | Network::Proxy) => {
                "this sandbox has no network. Sandboxes created with network: proxy can use this proxy."
                    .to_owned()
            }
            Self::Malformed(why) => format!("{why}."),
            Self::Body => "the body of the request is malformed, or ended too early.".to_owned(),
            Self::RateLimited => "too many requests from this sandbox; send them more slowly.".to_owned(),
            Self::TooManyConnections => {
                "this sandbox has reached its limit of open connections; close one first.".to_owned()
            }
            Self::QuotaExceeded { max_bytes } => format!(
                "this sandbox has used up the {} MB it may send and receive. Its owner can give it more: max_mb of \
                 PUT /v1/sandboxes/{{id}}/egress.",
                max_bytes >> 20
            ),
            Self::Denied { destination, denial } => denial.message(destination),
            Self::Unreachable(error) => format!("{error}."),
            Self::NoResponse { destination, why } => format!("no response from {destination}: {why}."),
            Self::Internal => {
                "hostd could not read how many bytes this sandbox has used; try again.".to_owned()
            }
        }
    }

    /// The value of the header for programs: `denied; rule="…"; profile="…"`, or one word.
    fn header(&self) -> String {
        match self {
            Self::Denied { denial, .. } => {
                let profile =
                    denial.profile().map(|name| format!("; profile=\"{name}\"")).unwrap_or_default();
                format!("denied; rule=\"{}\"{profile}", denial.rule())
            }
            Self::NetworkMode(_) => "denied; rule=\"network\"".to_owned(),
            Self::QuotaExceeded { .. } => "denied; rule=\"max_mb\"".to_owned(),
            Self::Malformed(_) | Self::Body => "malformed".to_owned(),
            Self::RateLimited | Self::TooManyConnections => "too many".to_owned(),
            Self::Unreachable(_) | Self::NoResponse { .. } => "unreachable".to_owned(),
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
        // Rules and names of profiles are ASCII, so this does not fail.
        if let Ok(value) = HeaderValue::from_str(&self.header()) {
            headers.insert(EGRESS_HEADER, value);
        }
        response
    }
}
