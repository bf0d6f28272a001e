//! Forwards a request for `http://…` on a connection that it has to itself, and relays the response as it
//! comes.

use super::{
    head_size,
    metered_body::{MeteredBody, ServerBody},
    refusal::ProxyRefusal,
    server_connection::ServerConnection,
    tracked_connection::{Direction, TrackedConnection},
};
use crate::upstream::BodyError;
use axum::body::Body;
use hostd_core::egress::Destination;
use hostd_net::backpressure::SourceWindow;
use hyper::{
    HeaderMap, Method, Request, Response, Uri,
    body::{Body as _, Incoming},
    header::{
        CONNECTION, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
        TRANSFER_ENCODING, UPGRADE,
    },
    http::request::Parts,
};
use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
/// Hop-by-hop headers, which are not forwarded.
const HOP_HEADERS: [HeaderName; 8] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A request apart from the connection that it came on.
pub struct ForwardRequest {
    pub head: Parts,
    pub body: Option<Incoming>,
}

impl ForwardRequest {
    pub fn new(request: Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        let body = (!body.is_end_stream()).then_some(body);
        Self { head, body }
    }

    /// A copy for a retry, if the request is safe to repeat.
    pub fn retry_copy(&self) -> Option<Self> {
        let safe = matches!(self.head.method, Method::GET | Method::HEAD) && self.body.is_none();
        safe.then(|| Self { head: self.head.clone(), body: None })
    }
}

pub async fn send(
    forwarded: ForwardRequest,
    destination: &Destination,
    mut connection: Box<ServerConnection>,
    tracked: Arc<TrackedConnection>,
) -> Result<Response<Body>, ProxyRefusal> {
    let no_response = |why: String| ProxyRefusal::NoResponse { destination: destination.clone(), why };
    let request =
        to_server_request(forwarded, &tracked).ok_or(ProxyRefusal::Malformed("the request names no path"))?;
    let quota_exceeded = |_| ProxyRefusal::QuotaExceeded { max_bytes: tracked.max_bytes() };
    tracked.count(Direction::Up, head_size::request_head_bytes(&request)).map_err(quota_exceeded)?;
    let mut cut = Box::pin(tracked.clone().until_cut());
    let mut response = pin!(connection.send(request));
    let response = poll_fn(|cx| {
        let head = connection.http.poll_response(cx, |cx| response.as_mut().poll(cx));
        if let Poll::Ready(cut) = cut.as_mut().poll(cx) {
            return Poll::Ready(Err(no_response(cut.to_string())));
        }
        head.map_err(|error| match BodyError::of(&error) {
            // The error is of the body from the sandbox, not of the server.
            Some(BodyError::Malformed(_) | BodyError::Stalled) => ProxyRefusal::Body,
            None => no_response(error.to_string()),
        })
    });
    let response = response.await?;
    tracked.count(Direction::Down, head_size::response_head_bytes(&response)).map_err(quota_exceeded)?;
    let (mut parts, body) = response.into_parts();
    remove_hop_headers(&mut parts.headers);
    let body = MeteredBody::new(Some(body), tracked, Direction::Down);
    parts.extensions.insert(SourceWindow(connection.http.window().clone()));
    Ok(Response::from_parts(parts, Body::new(ServerBody { connection: Some(connection), body, cut })))
}

/// The request in the form that an origin server expects.
fn to_server_request(
    forwarded: ForwardRequest,
    tracked: &Arc<TrackedConnection>,
) -> Option<Request<MeteredBody>> {
    let ForwardRequest { head: mut parts, body } = forwarded;
    let authority = parts.uri.authority()?.as_str();
    let host = HeaderValue::from_str(authority.rsplit('@').next()?).ok()?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let path: Uri = path.parse().ok()?;
    remove_hop_headers(&mut parts.headers);
    parts.headers.insert(HOST, host);
    parts.uri = path;
    Some(Request::from_parts(parts, MeteredBody::new(body, tracked.clone(), Direction::Up)))
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_HEADERS.iter().chain(&named) {
        headers.remove(name);
    }
}
