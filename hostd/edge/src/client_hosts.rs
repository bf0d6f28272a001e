//! Hostnames on the listener of previews that belong to the protocols of other clients, not to an app.

use crate::{response_body::ResponseBody, state::Edge};
use async_trait::async_trait;
use axum::response::Response;
use hostd_core::Identity;
use hyper::{HeaderMap, Request, StatusCode, body::Incoming};
use protocol::api::SandboxId;

/// Serves those hostnames.
#[async_trait]
pub trait ClientHosts: Send + Sync {
    /// Whether this authority is one of them.
    fn is_served(&self, authority: &str) -> bool;

    /// Returns the caller whom a header of the request stands for that is a credential of a protocol for the previews of
    /// this sandbox.
    async fn previews_caller(&self, sandbox: &SandboxId, headers: &HeaderMap) -> Option<Identity>;

    /// `None` if it is not.
    async fn serve(&self, authority: &str, request: Request<Incoming>) -> Option<Response>;
}

impl Edge {
    /// Whether a protocol of other clients is served at this authority.
    pub(super) fn is_client_host(&self, authority: &str) -> bool {
        self.clients.get().is_some_and(|clients| clients.is_served(authority))
    }

    /// Returns the caller whom a credential of such a protocol for the previews of this sandbox stands for.
    pub(super) async fn client_caller(&self, sandbox: &SandboxId, headers: &HeaderMap) -> Option<Identity> {
        self.clients.get()?.previews_caller(sandbox, headers).await
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
