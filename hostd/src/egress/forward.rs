//! A request for `http://…`: sent on a connection that is its own meanwhile, its answer passed back as it comes.

use super::{
    body::{Coming, Counted},
    head,
    line::Line,
    refusal::Refusal,
    trip::{Trip, Way},
};
use crate::{backpressure::SourceWindow, core::egress::Asked, upstream::BodyError};
use axum::body::Body;
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
/// What is between two machines only.
const HOP: [HeaderName; 8] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// A request without the connection that it came on.
pub struct Letter {
    pub head: Parts,
    pub body: Option<Incoming>,
}

impl Letter {
    pub fn new(request: Request<Incoming>) -> Self {
        let (head, body) = request.into_parts();
        let body = (!body.is_end_stream()).then_some(body);
        Self { head, body }
    }

    /// The same once more, where nobody minds getting it twice.
    pub fn again(&self) -> Option<Self> {
        let safe = matches!(self.head.method, Method::GET | Method::HEAD) && self.body.is_none();
        safe.then(|| Self { head: self.head.clone(), body: None })
    }
}

pub async fn pass(
    letter: Letter,
    asked: &Asked,
    mut line: Box<Line>,
    trip: Arc<Trip>,
) -> Result<Response<Body>, Refusal> {
    let broken = |why: String| Refusal::Broken { asked: asked.clone(), why };
    let request = outgoing(letter, &trip).ok_or(Refusal::Malformed("the request names no path"))?;
    let spent = |_| Refusal::Spent { max_bytes: trip.max_bytes() };
    trip.moves(Way::Up, head::of_request(&request)).map_err(spent)?;
    let mut cut = Box::pin(trip.clone().cut());
    let mut answer = pin!(line.send(request));
    let answer = poll_fn(|cx| {
        line.drive(cx);
        if let Poll::Ready(cut) = cut.as_mut().poll(cx) {
            return Poll::Ready(Err(broken(cut.to_string())));
        }
        answer.as_mut().poll(cx).map_err(|error| match BodyError::of(&error) {
            // It came from the sandbox, not from the server.
            Some(BodyError::Malformed(_) | BodyError::Stalled) => Refusal::Body,
            None => broken(error.to_string()),
        })
    });
    let answer = answer.await?;
    trip.moves(Way::Down, head::of_response(&answer)).map_err(spent)?;
    let (mut parts, body) = answer.into_parts();
    without_hops(&mut parts.headers);
    let body = Counted::new(Some(body), trip, Way::Down);
    parts.extensions.insert(SourceWindow(line.window.clone()));
    Ok(Response::from_parts(parts, Body::new(Coming { line: Some(line), body, cut })))
}

/// As the server itself would get it.
fn outgoing(letter: Letter, trip: &Arc<Trip>) -> Option<Request<Counted>> {
    let Letter { head: mut parts, body } = letter;
    let authority = parts.uri.authority()?.as_str();
    let host = HeaderValue::from_str(authority.rsplit('@').next()?).ok()?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let path: Uri = path.parse().ok()?;
    without_hops(&mut parts.headers);
    parts.headers.insert(HOST, host);
    parts.uri = path;
    Some(Request::from_parts(parts, Counted::new(body, trip.clone(), Way::Up)))
}

fn without_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP.iter().chain(&named) {
        headers.remove(name);
    }
}
