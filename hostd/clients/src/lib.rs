//! Clients that people already have: each module speaks the protocol of one kind of client, and translates it into calls
//! of Slipway's own API, in process.
//!
//! ```text
//!  request ─▶ select: which protocol? ── none ──▶ Slipway's own API
//!                │                                     ▲
//!                └─▶ e2b · cloudflare · mcp · acp · opensandbox
//!                             └── ApiClient: as the caller ──┘
//! ```
//!
//! **Invariant:** a protocol decides nothing about access, quotas or states: the call that it becomes does, with the
//! credential of the request. A protocol has no state that a restart of hostd loses.

mod acp;
mod api_client;
mod client_key;
mod cloudflare;
mod command_stream;
mod e2b;
mod mcp;
mod open_sandbox;
mod percent;
mod respond;
mod select;
mod shell_session;
mod token_holder;
mod unread_body;

pub use api_client::{ApiClient, ApiFailure, ApiService, Credential, DelegatedIdentity, OnlySandbox};
pub use client_key::ClientKey;
pub use select::{ClientHosts, Protocol, SelectError, select};

use axum::{body::Body, response::Response};
use hostd_core::{Identity, Previews};
use hostd_store::{Clock, Store};
use hyper::{HeaderMap, Request};
use protocol::api::SandboxId;
use std::{collections::BTreeSet, sync::Arc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::error;

/// What protocols need of hostd. Cheap to clone.
#[derive(Clone)]
pub struct Clients {
    parts: Arc<ClientParts>,
    envd: Arc<e2b::EnvdState>,
    acp: Arc<acp::Acp>,
    mcp: Arc<mcp::McpCalls>,
}

pub struct ClientParts {
    /// Slipway's own API.
    pub api: ApiService,
    pub store: Store,
    pub clock: Clock,
    pub previews: Previews,
    /// Signs what protocols hand out.
    pub key: ClientKey,
    pub enabled: BTreeSet<Protocol>,
    /// Tasks that outlive their requests.
    pub work: TaskTracker,
    /// Cancelled when hostd begins to shut down.
    pub closing: CancellationToken,
}

impl Clients {
    pub fn new(parts: ClientParts) -> Self {
        Self { parts: Arc::new(parts), envd: Arc::default(), acp: Arc::default(), mcp: Arc::default() }
    }

    /// Returns the protocol of a request; `None` for Slipway's own API.
    pub fn select<B>(&self, request: &Request<B>) -> Result<Option<Protocol>, SelectError> {
        let hosts = ClientHosts { domain: &self.parts.previews.domain };
        let selected = select(hosts, request.uri(), request.headers())?;
        Ok(selected.filter(|protocol| self.parts.enabled.contains(protocol)))
    }

    /// Returns the protocol that is served at this authority, whatever the request has in its headers.
    pub fn protocol_of_host(&self, authority: &str) -> Option<Protocol> {
        let hosts = ClientHosts { domain: &self.parts.previews.domain };
        hosts.protocol(authority).filter(|protocol| self.parts.enabled.contains(protocol))
    }

    /// Returns the caller whom a header stands for that is a credential for the previews of this sandbox.
    pub async fn previews_caller(&self, sandbox: &SandboxId, headers: &HeaderMap) -> Option<Identity> {
        if !self.parts.enabled.contains(&Protocol::E2b) {
            return None;
        }
        let holder = e2b::traffic_token::holder(&self.parts.key, sandbox, headers)?;
        match holder.identity(self, sandbox, e2b::traffic_token::PURPOSE).await {
            Ok(identity) => identity,
            Err(error) => {
                error!(%sandbox, %error, "the holder of a token for previews cannot be read");
                None
            }
        }
    }

    /// Serves a request of this protocol.
    pub async fn serve(&self, protocol: Protocol, request: Request<Body>) -> Response {
        match protocol {
            Protocol::E2b => e2b::serve(self, request).await,
            Protocol::E2bSandbox => e2b::serve_sandbox(self, request).await,
            Protocol::Cloudflare => cloudflare::serve(self, request).await,
            Protocol::Mcp => mcp::serve(self, request).await,
            Protocol::Acp => acp::serve(self, request).await,
            Protocol::OpenSandbox => open_sandbox::serve(self, request).await,
            Protocol::OpenSandboxExecd => open_sandbox::serve_execd(self, request).await,
        }
    }
}
