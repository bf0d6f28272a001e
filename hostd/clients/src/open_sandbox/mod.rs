//! OpenSandbox: sandboxes at `/v1/sandboxes`, and inside one sandbox the commands and files of its execd.
//!
//! ```text
//!  OPEN-SANDBOX-API-KEY ─▶ lifecycle: create, list, pause …, endpoints ─┐
//!                          └─ /sandboxes/{id}/proxy/44772/… ────────────┤─▶ execd: commands, files, metrics
//!  X-EXECD-ACCESS-TOKEN ─▶ /sandboxes/{id}/proxy/44772/… ───────────────┘
//! ```
//!
//! The key is a token of the API. The token of execd is handed out with the endpoint of a sandbox; it is for that sandbox
//! alone.

mod access_token;
mod create;
mod endpoint;
mod error;
mod execd;
mod lifecycle;
mod limits;
mod timestamp;
mod view;

use crate::{
    ApiClient, Clients, Credential, respond,
    select::{EXECD_TOKEN, OPEN_SANDBOX_KEY},
    unread_body,
};
use axum::{body::Body, response::Response};
use error::SandboxError;
use hyper::{HeaderMap, Request, header::HeaderName};
use protocol::api::SandboxId;
use serde::de::DeserializeOwned;

type SandboxResult = Result<Response, SandboxError>;

/// Serves a request with an API key.
pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    let handler =
        async |request| with_key(clients, request).await.unwrap_or_else(SandboxError::into_response);
    unread_body::handle(request, handler).await
}

async fn with_key(clients: &Clients, request: Request<Body>) -> SandboxResult {
    let key = text_of(request.headers(), &OPEN_SANDBOX_KEY);
    let credential = Credential::Token(key.clone());
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    match endpoint::proxied(request.uri().path()) {
        Some(proxied) => execd::serve(api, clients.parts.work.clone(), &proxied, request).await,
        None => lifecycle::serve(lifecycle::LifecycleCall { clients, api, key }, request).await,
    }
}

/// Serves a request with the token of one sandbox's execd.
pub async fn serve_execd(clients: &Clients, request: Request<Body>) -> Response {
    let handler =
        async |request| with_access_token(clients, request).await.unwrap_or_else(SandboxError::into_response);
    unread_body::handle(request, handler).await
}

async fn with_access_token(clients: &Clients, request: Request<Body>) -> SandboxResult {
    let proxied = endpoint::proxied(request.uri().path()).ok_or_else(SandboxError::not_found)?;
    let token = text_of(request.headers(), &EXECD_TOKEN);
    let identity = access_token::authenticate(clients, &proxied.sandbox, &token).await?;
    let credential = Credential::OnSandbox(Box::new(identity), proxied.sandbox);
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    execd::serve(api, clients.parts.work.clone(), &proxied, request).await
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn sandbox_id(text: &str) -> Result<SandboxId, SandboxError> {
    text.parse().map_err(|_| SandboxError::no_such_sandbox())
}

/// Reads a document; where there may be none, an empty body is the default.
async fn document<T: DeserializeOwned>(body: Body, absent: Option<T>) -> Result<T, SandboxError> {
    let whole = respond::read(body, limits::JSON_MAX_BYTES).await?;
    match absent {
        Some(absent) if whole.is_empty() => Ok(absent),
        Some(_) | None => {
            serde_json::from_slice(&whole).map_err(|error| SandboxError::invalid(error.to_string()))
        }
    }
}
