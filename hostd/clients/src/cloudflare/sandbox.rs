//! Sandboxes: create, look, delete.

use super::{
    BridgeResult, SandboxCall,
    endpoint::Verb,
    error::{BridgeCode, BridgeError},
};
use crate::{ApiClient, ApiFailure, respond};
use hyper::{Method, StatusCode};
use protocol::api::{Page, SandboxSpec, SandboxStatus, SandboxView};
use serde_json::json;

pub async fn create(api: &ApiClient) -> BridgeResult {
    let created = api.post::<_, SandboxView>("/v1/sandboxes", &SandboxSpec::default()).await;
    let created = created.map_err(|failure| BridgeError::of(failure, BridgeCode::PoolError))?;
    Ok(respond::json(StatusCode::OK, &json!({"id": created.id})))
}

/// Whether the next command would find the files: a sandbox that sleeps is woken by it.
pub async fn running(call: &SandboxCall<'_>) -> BridgeResult {
    let running = match call.api.get::<SandboxView>(&call.path("")).await {
        Ok(view) => match view.status {
            SandboxStatus::Creating
            | SandboxStatus::Running
            | SandboxStatus::Paused
            | SandboxStatus::Stopped => true,
            SandboxStatus::Error | SandboxStatus::Destroyed => false,
        },
        Err(failure) if is_absent(&failure) => false,
        Err(failure) => return Err(BridgeError::of(failure, BridgeCode::ExecTransportError)),
    };
    Ok(respond::json(StatusCode::OK, &json!({"running": running})))
}

/// Destroys a sandbox and its files; one that is not there is a success, too.
pub async fn delete(call: &SandboxCall<'_>) -> BridgeResult {
    let request = ApiClient::request(Method::DELETE, &call.path("?workspace=remove"));
    match call.api.send(request).await {
        Ok(_) => Ok(respond::empty(StatusCode::NO_CONTENT)),
        Err(failure) if is_absent(&failure) => Ok(respond::empty(StatusCode::NO_CONTENT)),
        Err(failure) => Err(BridgeError::of(failure, BridgeCode::PoolError)),
    }
}

/// Answers a request for an id that no sandbox can have, to callers with a valid token.
pub async fn unknown(api: &ApiClient, verb: &Verb<'_>) -> BridgeResult {
    authenticated(api).await?;
    match verb {
        Verb::Delete => Ok(respond::empty(StatusCode::NO_CONTENT)),
        Verb::Running => Ok(respond::json(StatusCode::OK, &json!({"running": false}))),
        _ => Err(BridgeError::no_such_sandbox()),
    }
}

/// Checks the token of the caller, for what needs nothing else of the API.
pub async fn authenticated(api: &ApiClient) -> Result<(), BridgeError> {
    let listed = api.get::<Page<SandboxView>>("/v1/sandboxes?limit=1").await;
    listed.map(drop).map_err(|failure| BridgeError::of(failure, BridgeCode::PoolError))
}

fn is_absent(failure: &ApiFailure) -> bool {
    matches!(failure.status, StatusCode::NOT_FOUND | StatusCode::GONE)
}
