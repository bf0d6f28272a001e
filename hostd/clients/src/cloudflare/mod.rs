//! The bridge of Cloudflare's sandboxes, as the OpenAI Agents SDK uses it: sandboxes at `/v1/sandbox`, commands as
//! server-sent events, files and archives of `/workspace`, terminals as WebSockets, tunnels to ports.
//!
//! **Invariant:** every request becomes calls of the API with the token of its caller; nothing is kept here.

mod archive;
mod endpoint;
mod error;
mod exec;
mod file;
mod limits;
mod openapi;
mod paths;
mod pool;
mod pty;
mod sandbox;
mod session;
mod successor;
mod tunnel;

use crate::{ApiClient, Clients, Credential, respond, unread_body};
use axum::{body::Body, response::Response};
use endpoint::{Endpoint, Verb};
use error::{BridgeCode, BridgeError};
use hyper::{HeaderMap, Request, StatusCode, header::AUTHORIZATION};
use protocol::api::SandboxId;
use serde::de::DeserializeOwned;
use serde_json::json;

type BridgeResult = Result<Response, BridgeError>;

pub async fn serve(clients: &Clients, request: Request<Body>) -> Response {
    let handler = async |request| answer(clients, request).await.unwrap_or_else(BridgeError::into_response);
    unread_body::handle(request, handler).await
}

async fn answer(clients: &Clients, request: Request<Body>) -> BridgeResult {
    let path = request.uri().path().to_owned();
    let endpoint = Endpoint::parse(request.method(), &path)?;
    if endpoint == Endpoint::Health {
        return Ok(respond::json(StatusCode::OK, &json!({"ok": true})));
    }
    let credential = credential(request.headers())?;
    let api = ApiClient::of(clients.parts.api.clone(), &request, credential);
    match endpoint {
        Endpoint::Health => Ok(respond::empty(StatusCode::OK)),
        Endpoint::OpenApi => openapi::document(&api).await,
        Endpoint::PoolStats => pool::stats(&api).await,
        Endpoint::PoolPrime | Endpoint::PoolShutdown => pool::accept(&api).await,
        Endpoint::Create => sandbox::create(&api).await,
        Endpoint::OfSandbox { sandbox, verb } => match sandbox.parse() {
            Ok(id) => of_sandbox(SandboxCall { clients, api, id }, verb, request).await,
            // As for every sandbox that is not there.
            Err(_) => sandbox::unknown(&api, &verb).await,
        },
    }
}

/// A call about one sandbox.
struct SandboxCall<'a> {
    clients: &'a Clients,
    api: ApiClient,
    id: SandboxId,
}

impl SandboxCall<'_> {
    /// A path of the API below the sandbox.
    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }
}

async fn of_sandbox(call: SandboxCall<'_>, verb: Verb<'_>, request: Request<Body>) -> BridgeResult {
    let (parts, body) = request.into_parts();
    let call = successor::follow(call, &verb).await?;
    match verb {
        Verb::Delete => sandbox::delete(&call).await,
        Verb::Running => sandbox::running(&call).await,
        Verb::Exec => exec::run(call, &parts.headers, body).await,
        Verb::ReadFile(path) => file::read(&call, path, &parts.headers).await,
        Verb::WriteFile(path) => file::write(&call, path, &parts.headers, body).await,
        Verb::Persist => archive::persist(&call, parts.uri.query()).await,
        Verb::Hydrate => archive::hydrate(&call, body).await,
        Verb::Pty => pty::attach(call, parts).await,
        Verb::OpenTunnel(port) => tunnel::open(&call, port, body).await,
        Verb::CloseTunnel(port) => tunnel::close(&call, port).await,
        Verb::CreateSession => session::create(&call, body).await,
        Verb::DeleteSession(name) => session::delete(&call, name).await,
        Verb::Mount => Err(no_buckets(BridgeCode::MountError)),
        Verb::Unmount => Err(no_buckets(BridgeCode::UnmountError)),
    }
}

fn no_buckets(code: BridgeCode) -> BridgeError {
    let message = "Slipway does not mount buckets; copy files with hydrate or PUT file/…";
    BridgeError::new(StatusCode::NOT_IMPLEMENTED, code, message)
}

/// The token of the caller. Without one the connection decides: the Unix socket, or a listener without authentication.
fn credential(headers: &HeaderMap) -> Result<Credential, BridgeError> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(Credential::Connection) };
    match hostd_core::bearer(value) {
        Some(token) => Ok(Credential::Token(token.to_owned())),
        None => {
            let message = "Authorization must be: Bearer, one space, a token";
            Err(BridgeError::new(StatusCode::UNAUTHORIZED, BridgeCode::Unauthorized, message))
        }
    }
}

/// Reads a document; where there may be none, an empty body is the default.
async fn document<T: DeserializeOwned>(body: Body, absent: Option<T>) -> Result<T, BridgeError> {
    let whole = respond::read(body, limits::JSON_MAX_BYTES).await?;
    match absent {
        Some(absent) if whole.is_empty() => Ok(absent),
        Some(_) | None => {
            serde_json::from_slice(&whole).map_err(|error| BridgeError::invalid(error.to_string()))
        }
    }
}
