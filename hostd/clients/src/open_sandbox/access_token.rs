//! The tokens of execd: each is for one sandbox, and stands for the API token that asked for it, or for the owner of the
//! sandbox where that was the operator. hostd keeps none of them: a token is verified by its signature, and the API token
//! behind it is looked up each time, so that one that is revoked or has expired works no more here either.

use crate::{ApiFailure, ClientKey, Clients};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hostd_core::{Identity, TOKEN_PREFIX, token_hash};
use protocol::api::{ApiErrorCode, SandboxId, SandboxView, TokenScope};

const PURPOSE: &str = "execd";
const SIGNATURE_BYTES: usize = 32;
/// The holder of a token that no API token stands behind.
const OWNER: &[u8] = b"owner";

/// Returns a token for a sandbox that the caller with this key may see. It has the form of our credentials, so that it
/// is taken out of requests to apps.
pub async fn issue(clients: &Clients, sandbox: &SandboxView, key: &str) -> Result<String, ApiFailure> {
    let found =
        clients.parts.store.token_by_hash(&token_hash(key)).await.map_err(|error| internal(&error))?;
    let holder = found.map_or_else(|| OWNER.to_vec(), |token| token.id.into_bytes());
    Ok(text(&clients.parts.key, &sandbox.id, &holder))
}

fn text(key: &ClientKey, sandbox: &SandboxId, holder: &[u8]) -> String {
    let signature = key.sign(PURPOSE, &[sandbox.as_str().as_bytes(), holder]);
    format!("{TOKEN_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode([&signature, holder].concat()))
}

/// Returns the holder of a token for this sandbox.
fn verified(key: &ClientKey, sandbox: &SandboxId, token: &str) -> Option<Vec<u8>> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(token.strip_prefix(TOKEN_PREFIX)?).ok()?;
    let (signature, holder) = bytes.split_at_checked(SIGNATURE_BYTES)?;
    let signed = key.verify(PURPOSE, &[sandbox.as_str().as_bytes(), holder], signature);
    signed.then(|| holder.to_vec())
}

/// Returns the identity that a token for this sandbox stands for.
pub async fn authenticate(
    clients: &Clients,
    sandbox: &SandboxId,
    token: &str,
) -> Result<Identity, ApiFailure> {
    let holder = verified(&clients.parts.key, sandbox, token).ok_or_else(refused)?;
    let store = &clients.parts.store;
    if holder == OWNER {
        let record = store.sandbox(sandbox).await.map_err(|error| internal(&error))?.ok_or_else(refused)?;
        return Ok(Identity {
            tenant: record.owner.tenant,
            principal: record.owner.principal,
            scope: TokenScope::Run,
            operator: false,
            via: PURPOSE.to_owned(),
            expires_ms: None,
        });
    }
    let id = String::from_utf8(holder).map_err(|_| refused())?;
    let record = store.token(&id).await.map_err(|error| internal(&error))?.ok_or_else(refused)?;
    let now_ms = clients.parts.clock.now_ms();
    if record.revoked_ms.is_some() || record.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
        return Err(refused());
    }
    Ok(Identity {
        tenant: record.tenant,
        principal: record.principal,
        scope: record.scope,
        operator: false,
        via: record.id,
        expires_ms: record.expires_ms,
    })
}

fn refused() -> ApiFailure {
    let message = "this access token is not one for this sandbox, or its API token is revoked or expired";
    ApiFailure::new(ApiErrorCode::Unauthorized, message)
}

fn internal(error: &dyn std::error::Error) -> ApiFailure {
    tracing::error!(%error, "tokens cannot be read");
    ApiFailure::new(ApiErrorCode::Internal, "tokens cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_sandbox_and_one_holder() {
        let key = ClientKey::new(&[7; 32]);
        let sandbox = |text: &str| text.parse::<SandboxId>().expect("an id");
        let (one, other) = (sandbox("01jb9xyzabcdefghjkmnpqrstv"), sandbox("01jb9xyzabcdefghjkmnpqrstw"));
        let token = text(&key, &one, b"token-1");
        assert_eq!(verified(&key, &one, &token).as_deref(), Some(&b"token-1"[..]));
        assert_eq!(verified(&key, &other, &token), None);
        assert_eq!(verified(&ClientKey::new(&[8; 32]), &one, &token), None);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).expect("ASCII");
            assert_eq!(verified(&key, &one, &forged).filter(|holder| holder != b"token-1"), None, "{forged}");
        }
        for bad in ["", "slw_", "slw_AAAA", "slw_!"] {
            assert_eq!(verified(&key, &one, bad), None, "{bad}");
        }
    }
}
