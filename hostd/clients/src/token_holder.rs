//! Whom a token for one sandbox stands for: the API token that asked for it, or the owner of the sandbox where that was
//! the operator. hostd keeps none of these tokens: each is verified by its signature, and the API token behind it is
//! looked up with every request, so that one that is revoked or has expired works no more here either.

use crate::{ClientKey, Clients};
use hostd_core::{Identity, token_hash};
use hostd_store::{StoreError, token_auth};
use protocol::api::{SandboxId, TokenScope};
use serde::{Deserialize, Serialize};

/// The holder of a token that no API token stands behind. No id of a token is this word.
const OWNER: &str = "owner";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenHolder {
    Owner,
    /// The id of the API token.
    ApiToken(String),
}

impl TokenHolder {
    /// Of a caller with this key, which the API accepted: it is an API token, or stands for the operator.
    pub async fn of_key(clients: &Clients, key: &str) -> Result<Self, StoreError> {
        let found = clients.parts.store.token_by_hash(&token_hash(key)).await?;
        Ok(found.map_or(Self::Owner, |token| Self::ApiToken(token.id)))
    }

    /// Returns the token of this holder for one purpose.
    pub fn mint(&self, key: &ClientKey, purpose: &str, parts: &[&[u8]]) -> String {
        key.mint(purpose, parts, self.as_str().as_bytes())
    }

    /// Returns the holder that a text names which looks like a token: nothing is verified.
    pub fn claimed(token: &str) -> Option<Self> {
        Self::parse(ClientKey::claimed_holder(token)?)
    }

    /// Returns the holder of a token for this purpose.
    pub fn verified(key: &ClientKey, purpose: &str, parts: &[&[u8]], token: &str) -> Option<Self> {
        Self::parse(key.holder(purpose, parts, token)?)
    }

    fn parse(holder: Vec<u8>) -> Option<Self> {
        let holder = String::from_utf8(holder).ok()?;
        Some(if holder == OWNER { Self::Owner } else { Self::ApiToken(holder) })
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Owner => OWNER,
            Self::ApiToken(id) => id,
        }
    }

    /// Returns the identity that the holder has now; `None` where its API token is no longer valid.
    pub async fn identity(
        &self,
        clients: &Clients,
        sandbox: &SandboxId,
        purpose: &str,
    ) -> Result<Option<Identity>, StoreError> {
        let store = &clients.parts.store;
        match self {
            Self::Owner => Ok(store.owner_of(sandbox).await?.map(|owner| Identity {
                tenant: owner.tenant,
                principal: owner.principal,
                scope: TokenScope::Run,
                operator: false,
                via: format!("{purpose}:{sandbox}"),
                expires_ms: None,
            })),
            Self::ApiToken(id) => {
                let now_ms = clients.parts.clock.now_ms();
                Ok(store.token(id).await?.and_then(|record| token_auth::identity(record, now_ms)))
            }
        }
    }
}
