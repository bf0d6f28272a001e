//! The tokens of execd: each is for one sandbox, and stands for its holder.

use crate::{ApiFailure, Clients, token_holder::TokenHolder};
use hostd_core::Identity;
use protocol::api::{ApiErrorCode, SandboxId, SandboxView};

const PURPOSE: &str = "execd";

/// Returns a token for a sandbox that the caller with this key may see.
pub async fn issue(clients: &Clients, sandbox: &SandboxView, key: &str) -> Result<String, ApiFailure> {
    let holder = TokenHolder::of_key(clients, key).await.map_err(|error| internal(&error))?;
    Ok(holder.mint(&clients.parts.key, PURPOSE, &[sandbox.id.as_str().as_bytes()]))
}

/// Returns the identity that a token for this sandbox stands for.
pub async fn authenticate(
    clients: &Clients,
    sandbox: &SandboxId,
    token: &str,
) -> Result<Identity, ApiFailure> {
    let parts = [sandbox.as_str().as_bytes()];
    let holder = TokenHolder::verified(&clients.parts.key, PURPOSE, &parts, token).ok_or_else(refused)?;
    let identity = holder.identity(clients, sandbox, PURPOSE).await.map_err(|error| internal(&error))?;
    identity.ok_or_else(refused)
}

fn refused() -> ApiFailure {
    let message = "this access token is not one for this sandbox, or its API token is revoked or expired";
    ApiFailure::new(ApiErrorCode::Unauthorized, message)
}

fn internal(error: &dyn std::error::Error) -> ApiFailure {
    tracing::error!(%error, "tokens cannot be read");
    ApiFailure::new(ApiErrorCode::Internal, "tokens cannot be read")
}
