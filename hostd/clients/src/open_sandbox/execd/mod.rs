//! The execd of a sandbox: commands, sessions, files and metrics. No such program runs inside: its requests become calls of
//! the API.

mod command;
mod directories;
mod download;
mod events;
mod file_info;
mod files;
mod metrics;
mod place;
mod replace;
mod script;
mod session;
mod upload;

use super::{
    SandboxResult, document,
    endpoint::{EGRESS_PORT, EXECD_PORT, Proxied},
    error::SandboxError,
};
use crate::{ApiClient, respond};
use axum::body::Body;
use hyper::{Request, StatusCode};
use protocol::api::{SandboxId, SandboxStatus, SandboxView};
use tokio_util::task::TaskTracker;

/// Calls about one sandbox.
#[derive(Clone)]
struct ExecdCall {
    api: ApiClient,
    id: SandboxId,
    /// Tasks that outlive the request.
    work: TaskTracker,
}

impl ExecdCall {
    /// A path of the API below the sandbox.
    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }
}

pub async fn serve(
    api: ApiClient,
    work: TaskTracker,
    proxied: &Proxied,
    request: Request<Body>,
) -> SandboxResult {
    let call = ExecdCall { api, id: proxied.sandbox, work };
    match proxied.port {
        EXECD_PORT => {}
        EGRESS_PORT => {
            let message =
                "give the network policy when the sandbox is created, or change it by Slipway's own API";
            return Err(SandboxError::unsupported(message));
        }
        _ => return Err(SandboxError::not_found()),
    }
    let (parts, body) = request.into_parts();
    let query = parts.uri.query();
    let path: Vec<&str> = proxied.rest.trim_start_matches('/').split('/').collect();
    match (parts.method.as_str(), path.as_slice()) {
        ("GET", ["ping"]) => ping(&call).await,
        ("POST", ["command"]) => command::run(&call, document(body, None).await?).await,
        ("DELETE", ["command"]) => command::interrupt(&call, query).await,
        ("GET", ["command", "status", exec]) => command::status(&call, exec).await,
        ("GET", ["command", exec, "logs"]) => command::logs(&call, exec, query).await,
        ("POST", ["session"]) => {
            session::create(&call, document(body, Some(Default::default())).await?).await
        }
        ("POST", ["session", name, "run"]) => session::run(&call, name, document(body, None).await?).await,
        ("DELETE", ["session", name]) => session::delete(&call, name).await,
        ("POST", ["files", "upload"]) => upload::upload(&call, &parts.headers, body).await,
        ("GET", ["files", "download"]) => download::download(&call, &parts.headers, query).await,
        ("GET", ["files", "info"]) => files::info(&call, query).await,
        ("DELETE", ["files"]) => files::remove(&call, query).await,
        ("POST", ["files", "permissions"]) => files::permissions(&call, document(body, None).await?).await,
        ("POST", ["files", "mv"]) => files::rename(&call, document(body, None).await?).await,
        ("POST", ["files", "replace"]) => replace::replace(&call, document(body, None).await?, query).await,
        ("GET", ["files", "search"]) => directories::search(&call, query).await,
        ("GET", ["directories", "list"]) => directories::list(&call, query).await,
        ("POST", ["directories"]) => directories::make(&call, document(body, None).await?).await,
        ("DELETE", ["directories"]) => directories::remove(&call, query).await,
        ("GET", ["metrics"]) => metrics::get(&call).await,
        ("GET", ["metrics", "watch"]) => metrics::watch(&call).await,
        (_, ["code", ..]) => {
            let message = "this image has no code interpreter; run the program as a command";
            Err(SandboxError::unsupported(message))
        }
        (_, ["v1", "isolated", ..]) => {
            Err(SandboxError::unsupported("a sandbox is isolated as a whole; create another one"))
        }
        (_, ["v1", "filesystem", ..]) => Err(as_another_user()),
        _ => Err(SandboxError::not_found()),
    }
}

/// Whether the next command would run: a sandbox that sleeps is woken by it.
async fn ping(call: &ExecdCall) -> SandboxResult {
    let sandbox: SandboxView = call.api.get(&call.path("")).await?;
    match sandbox.status {
        SandboxStatus::Running | SandboxStatus::Stopped => Ok(respond::empty(StatusCode::OK)),
        SandboxStatus::Creating | SandboxStatus::Paused | SandboxStatus::Error | SandboxStatus::Destroyed => {
            let message = "the sandbox does not run";
            Err(SandboxError::new(StatusCode::SERVICE_UNAVAILABLE, "NOT_RUNNING", message))
        }
    }
}

/// Everything is done as the sandbox's user, which no request can change.
fn as_another_user() -> SandboxError {
    let message =
        "commands run and files are owned as the user sandbox (1000), never as root or another user";
    SandboxError::new(StatusCode::FORBIDDEN, "FORBIDDEN", message)
}
