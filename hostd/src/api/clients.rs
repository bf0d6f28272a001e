//! The protocols of other clients: what they need of hostd, and their hostnames on the listener of previews.

use super::{Api, error::CallError, peer::Peer};
use async_trait::async_trait;
use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
};
use hostd_clients::{ApiService, ClientParts, Clients, Protocol, SelectError};
use hostd_core::Identity;
use hostd_edge::ClientHosts;
use hyper::{HeaderMap, Request, body::Incoming};
use protocol::api::{ApiErrorCode, SandboxId};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Opens the protocols on top of these routes.
pub fn open(api: &Api, routes: Router) -> Clients {
    let settings = &api.settings;
    Clients::new(ClientParts {
        api: ApiService::new(routes),
        store: api.store.clone(),
        clock: api.clock,
        previews: settings.previews.clone(),
        key: settings.client_key.clone(),
        enabled: settings.protocols.clone(),
        work: api.work.clone(),
        closing: api.closing.clone(),
    })
}

impl From<SelectError> for CallError {
    fn from(error: SelectError) -> Self {
        Self::new(ApiErrorCode::InvalidRequest, error.to_string())
    }
}

/// The hostnames of protocols on the listener of previews, each with its wildcard certificate.
pub struct ClientsAtEdge(pub Clients);

#[async_trait]
impl ClientHosts for ClientsAtEdge {
    fn is_served(&self, authority: &str) -> bool {
        self.0.protocol_of_host(authority).is_some()
    }

    async fn previews_caller(&self, sandbox: &SandboxId, headers: &HeaderMap) -> Option<Identity> {
        self.0.previews_caller(sandbox, headers).await
    }

    async fn serve(&self, authority: &str, mut request: Request<Incoming>) -> Option<Response> {
        let protocol: Protocol = self.0.protocol_of_host(authority)?;
        // Not loopback, wherever the client is: there may be a proxy in front, so that `auth = off` does not apply.
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        request.extensions_mut().insert(Peer::Tcp { from: nowhere, local: nowhere, encrypted: false });
        // The hostname says which protocol it is; the request may still have two credentials.
        if let Err(error) = self.0.select(&request) {
            return Some(CallError::from(error).into_response());
        }
        Some(self.0.serve(protocol, request.map(Body::new)).await)
    }
}
