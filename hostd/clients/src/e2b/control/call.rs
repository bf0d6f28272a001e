//! One request: what handlers need of it, and Slipway's own API as its caller.

use super::{
    error::E2bError,
    limits,
    query::Query,
    view::{SandboxState, state},
};
use crate::{ApiClient, Clients, token_holder::TokenHolder};
use bytes::Bytes;
use hyper::{Method, header::HeaderValue};
use protocol::api::{ApiErrorCode, Page, SandboxId, SandboxView, TtlChange};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub struct Call {
    pub clients: Clients,
    pub api: ApiClient,
    /// The key of the caller; none on the Unix socket.
    pub key: Option<String>,
    pub query: Query,
    pub idempotency_key: Option<HeaderValue>,
    pub body: Bytes,
}

impl Call {
    /// Whom tokens stand for that the caller gets.
    pub async fn holder(&self) -> Result<TokenHolder, E2bError> {
        match &self.key {
            Some(key) => Ok(TokenHolder::of_key(&self.clients, key).await?),
            None => Ok(TokenHolder::Owner),
        }
    }

    /// The body; one that is absent is an empty object.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, E2bError> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(body).map_err(|error| E2bError::invalid(format!("invalid body: {error}")))
    }

    /// A sandbox that was not killed.
    pub async fn sandbox(&self, id: &str) -> Result<SandboxView, E2bError> {
        let parsed = sandbox_id(id)?;
        let view: SandboxView = self.api.get(&format!("/v1/sandboxes/{parsed}")).await?;
        match state(&view) {
            SandboxState::Gone => Err(E2bError::no_sandbox(id)),
            SandboxState::Running | SandboxState::Paused => Ok(view),
        }
    }

    /// A verb of the life cycle, and the sandbox when it has ended.
    pub async fn verb(&self, id: &SandboxId, verb: &str) -> Result<SandboxView, E2bError> {
        let path = format!("/v1/sandboxes/{id}/{verb}?wait={}s", limits::WAIT_S);
        Ok(self.api.json(Method::POST, &path, None::<&()>).await?)
    }

    pub async fn set_ttl(&self, id: &SandboxId, change: &TtlChange) -> Result<SandboxView, E2bError> {
        let path = format!("/v1/sandboxes/{id}/ttl");
        Ok(self.api.json(Method::PATCH, &path, Some(change)).await?)
    }

    /// Destroys a sandbox with its files. One that is gone is fine.
    pub async fn destroy(&self, id: &SandboxId) -> Result<(), E2bError> {
        let path = format!("/v1/sandboxes/{id}?wait={}s", limits::WAIT_S);
        match self.api.json::<(), Value>(Method::DELETE, &path, None).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.error.code == ApiErrorCode::Gone => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// All pages of a list, up to a limit. `query` begins with &.
    pub async fn all<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<Vec<T>, E2bError> {
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let url = format!("{path}?limit={}{query}{after}", limits::OWN_PAGE);
            let page: Page<T> = self.api.get(&url).await?;
            items.extend(page.items);
            match page.next {
                Some(next) if items.len() < limits::LISTED_MAX => after = format!("&after={next}"),
                Some(_) | None => return Ok(items),
            }
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.clients.parts.clock.now_ms()
    }
}

/// The id of a sandbox. Early SDKs append the id of a client to it.
pub fn sandbox_id(text: &str) -> Result<SandboxId, E2bError> {
    let id = text.split_once('-').map_or(text, |(id, _)| id);
    id.parse().map_err(|_| E2bError::no_sandbox(text))
}
