//! Requests to `/acp`.

use super::{
    authentication,
    connection::Shared,
    http::HttpCall,
    http_connections::{ConnectionOwner, HttpConnections},
    socket,
};
use crate::{ApiFailure, ClientParts, Clients, respond};
use axum::{body::Body, response::Response};
use hostd_net::keyed_locks::KeyedLocks;
use hyper::{
    Method, Request,
    header::{CONNECTION, HeaderValue, UPGRADE},
};
use protocol::api::{ApiErrorBody, ApiErrorCode, SandboxId};

/// State that connections of editors share.
#[derive(Default)]
pub struct Acp {
    pub(super) http: HttpConnections,
    locks: KeyedLocks<SandboxId>,
}

impl Acp {
    pub(super) fn shared(&self, parts: &ClientParts) -> Shared {
        Shared { locks: self.locks.clone(), work: parts.work.clone(), closing: parts.closing.clone() }
    }
}

pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    let served = serve_request(&clients.parts, &clients.acp, request).await;
    served.unwrap_or_else(|failure| refusal(&failure))
}

async fn serve_request(
    parts: &ClientParts,
    acp: &Acp,
    request: Request<Body>,
) -> Result<Response, ApiFailure> {
    if !matches!(request.uri().path(), "/acp" | "/acp/") {
        return Err(ApiFailure::new(ApiErrorCode::NotFound, "the Agent Client Protocol is at /acp"));
    }
    let (caller, token) = authentication::caller(parts, &request)?;
    let tenant = authentication::check(&caller).await?;
    if request.headers().contains_key(UPGRADE) {
        return socket::open(&acp.shared(parts), request, caller);
    }
    let call = HttpCall {
        parts,
        acp,
        caller,
        owner: ConnectionOwner { tenant, token },
        headers: request.headers().clone(),
    };
    if request.method() == Method::POST {
        call.post(request).await
    } else if request.method() == Method::GET {
        call.get().await
    } else if request.method() == Method::DELETE {
        call.delete()
    } else {
        let message = "send messages by POST, read them by GET, end the connection by DELETE";
        Err(ApiFailure::new(ApiErrorCode::MethodNotAllowed, message))
    }
}

/// An error before there is a message: as Slipway's own API reports it.
fn refusal(failure: &ApiFailure) -> Response {
    let mut response = respond::json(failure.status, &ApiErrorBody { error: (*failure.error).clone() });
    response.headers_mut().extend(failure.headers.clone().into_iter().filter_map(|(name, value)| {
        let name = name.filter(|name| name == hyper::header::RETRY_AFTER)?;
        Some((name, value))
    }));
    // The connection has no permit, or the rest of a body that is too large or too slow is unread.
    let code = failure.error.code;
    if matches!(code, ApiErrorCode::TooMany | ApiErrorCode::TooLarge | ApiErrorCode::TimedOut) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
