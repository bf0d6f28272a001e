//! Hostnames on the listener of previews that belong to the protocols of other clients, not to an app.

use crate::{response_body::ResponseBody, state::Edge};
use async_trait::async_trait;
use axum::response::Response;
use hyper::{HeaderMap, Request, StatusCode, body::Incoming};
use protocol::api::SandboxId;

/// Serves those hostnames.
#[async_trait]
pub trait ClientHosts: Send + Sync {
    /// Whether this authority is one of them.
    fn is_served(&self, authority: &str) -> bool;

    /// Whether a header of the request is a credential of a protocol that opens the previews of this sandbox.
    fn opens_previews(&self, sandbox: &SandboxId, headers: &HeaderMap) -> bool;

    /// `None` if it is not.
    async fn serve(&self, authority: &str, request: Request<Incoming>) -> Option<Response>;
}

impl Edge {
    /// Whether a protocol of other clients is served at this authority.
    pub(super) fn is_client_host(&self, authority: &str) -> bool {
        self.clients.get().is_some_and(|clients| clients.is_served(authority))
    }

    /// Whether the request has a credential of such a protocol for the previews of this sandbox.
    pub(super) fn is_opened_by_client(&self, sandbox: &SandboxId, headers: &HeaderMap) -> bool {
        self.clients.get().is_some_and(|clients| clients.opens_previews(sandbox, headers))
    }

    pub(super) async fn serve_client(
        &self,
        authority: &str,
        request: Request<Incoming>,
    ) -> hyper::Response<ResponseBody> {
        let response = match self.clients.get() {
            Some(clients) => clients.serve(authority, request).await,
            None => None,
        };
        let Some(response) = response else {
            let mut absent = hyper::Response::new(ResponseBody::empty());
            *absent.status_mut() = StatusCode::NOT_FOUND;
            return absent;
        };
        response.map(ResponseBody::Client)
    }
}
