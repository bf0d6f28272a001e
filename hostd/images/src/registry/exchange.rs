//! A request with the redirects that it leads to. `Authorization` is only for the first server.

use super::{
    transport::{HttpResponse, Transport, TransportBody, TransportError},
    url::{InvalidUrl, Url},
};
use crate::limits::{REDIRECTS_MAX, UNWANTED_BODY_MAX_BYTES};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderValue, LOCATION, USER_AGENT},
};
use tokio::time::timeout;

const OUR_NAME: &str = concat!("slipway/", env!("CARGO_PKG_VERSION"));

/// A request without a body.
pub struct HttpRequest {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub authorization: Option<HeaderValue>,
}

/// Why a body is not available whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    Interrupted { why: String },
}

/// The response at the end of all redirects.
pub struct Exchanged {
    pub response: HttpResponse,
    /// The response is of another server than the one that was asked.
    pub redirected: bool,
}

impl Transport {
    /// Sends a request and follows redirects.
    pub async fn exchange(&self, request: &HttpRequest) -> Result<Exchanged, TransportError> {
        let mut url = request.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let redirected = !is_same_server(&request.url, &url);
            let authorization = request.authorization.as_ref().filter(|_| !redirected);
            let mut response = self.send(&url, |url| to_http(request, url, authorization)).await?;
            if !is_redirect(response.head.status) {
                return Ok(Exchanged { response, redirected });
            }
            response.body.discard().await;
            let location = response.head.headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.ok_or(InvalidUrl::Malformed).and_then(|location| response.url.join(location));
            url = next.map_err(|error| TransportError::BadRedirect {
                why: format!("{url} redirects to {error}"),
            })?;
        }
        Err(TransportError::BadRedirect { why: format!("it redirects more than {REDIRECTS_MAX} times") })
    }
}

impl TransportBody {
    /// Returns the whole body of at most so many bytes.
    pub async fn collect(&mut self, max_bytes: u64) -> Result<Vec<u8>, BodyError> {
        let collected = timeout(self.collect_max, self.collect_slowly(max_bytes)).await;
        collected
            .unwrap_or_else(|_| Err(BodyError::Interrupted { why: "the response is too slow".to_owned() }))
    }

    /// Reads what is left, so that the connection can be kept, unless that is too much.
    pub async fn discard(&mut self) {
        let _ = self.collect(UNWANTED_BODY_MAX_BYTES).await;
    }

    async fn collect_slowly(&mut self, max_bytes: u64) -> Result<Vec<u8>, BodyError> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece.map_err(|error| BodyError::Interrupted { why: error.to_string() })?;
            if (whole.len() + piece.len()) as u64 > max_bytes {
                return Err(BodyError::TooLarge);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    }
}

/// A server may be reached with TLS and, on this machine, without.
fn is_same_server(one: &Url, other: &Url) -> bool {
    let plain = one.without_tls();
    [&one.origin, &plain.origin].into_iter().any(|origin| *origin == other.origin)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn to_http(
    request: &HttpRequest,
    url: &Url,
    authorization: Option<&HeaderValue>,
) -> Result<Request<Empty<Bytes>>, TransportError> {
    let invalid = || TransportError::BadRedirect { why: InvalidUrl::Malformed.to_string() };
    let mut http = Request::new(Empty::new());
    *http.method_mut() = request.method.clone();
    *http.uri_mut() = url.target.parse().map_err(|_| invalid())?;
    let headers = http.headers_mut();
    headers.clone_from(&request.headers);
    headers.insert(HOST, HeaderValue::from_str(&url.origin.host_header()).map_err(|_| invalid())?);
    headers.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
    // Digests are of what is sent, so nothing may be compressed on the way.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(authorization) = authorization {
        headers.insert(AUTHORIZATION, authorization.clone());
    }
    Ok(http)
}
