//! Calls of Slipway's API about one sandbox. No other path can be formed here, and the API refuses any other.

use crate::{ApiClient, ApiFailure};
use axum::{body::Body, response::Response};
use hyper::{Method, Request};
use protocol::api::SandboxId;
use serde::{Serialize, de::DeserializeOwned};

#[derive(Clone)]
pub struct SandboxApi {
    client: ApiClient,
    pub sandbox: SandboxId,
}

impl SandboxApi {
    pub fn new(client: ApiClient, sandbox: SandboxId) -> Self {
        Self { client, sandbox }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.sandbox)
    }

    /// A request without a body, to be completed and sent.
    pub fn request(&self, method: Method, rest: &str) -> Request<Body> {
        ApiClient::request(method, &self.path(rest))
    }

    pub async fn send(&self, request: Request<Body>) -> Result<Response<Body>, ApiFailure> {
        self.client.send(request).await
    }

    pub async fn get<T: DeserializeOwned>(&self, rest: &str) -> Result<T, ApiFailure> {
        self.client.get(&self.path(rest)).await
    }

    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        rest: &str,
        body: &B,
    ) -> Result<T, ApiFailure> {
        self.client.post(&self.path(rest), body).await
    }

    /// Makes a call that is answered without a document.
    pub async fn order<B: Serialize>(&self, rest: &str, body: &B) -> Result<(), ApiFailure> {
        self.post::<B, serde::de::IgnoredAny>(rest, body).await.map(drop)
    }

    pub async fn delete(&self, rest: &str) -> Result<(), ApiFailure> {
        self.send(self.request(Method::DELETE, rest)).await.map(drop)
    }
}
