//! Watches the access of an authenticated caller until it is taken away: what was opened with it ends then.
//!
//! ```text
//!  DELETE …/shares, destroy ──▶ ShareIndex ────┐
//!  DELETE /v1/tokens/{token} ─▶ revocations ───┼─▶ AccessWatch::ended ─▶ a stream of the API, or of a preview
//!  the TTL of the token ──────▶ Clock ─────────┘
//! ```

use crate::{Clock, Store};
use hostd_core::{Identity, SandboxAccess};
use protocol::api::{Owner, SandboxId};
use std::{future::pending, pin::pin, time::Duration};
use tokio::{sync::watch, time::sleep};

/// Why an access ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessEnd {
    /// The sandbox is not shared with the caller any more, or no longer to run.
    Unshared,
    TokenRevoked,
    TokenExpired,
}

impl AccessEnd {
    /// The reason, for a person.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unshared => "this sandbox is no longer shared with you for this",
            Self::TokenRevoked => "this token was revoked",
            Self::TokenExpired => "this token expired",
        }
    }
}

pub struct AccessWatch {
    store: Store,
    caller: Identity,
    clock: Clock,
    revocations: watch::Receiver<u64>,
}

impl AccessWatch {
    /// `revocations` is [`Store::token_revocations`] from before the caller was authenticated.
    pub fn new(store: Store, caller: Identity, clock: Clock, revocations: watch::Receiver<u64>) -> Self {
        Self { store, caller, clock, revocations }
    }

    pub fn caller(&self) -> &Identity {
        &self.caller
    }

    /// Returns the access to a sandbox as it is now.
    pub fn access_to(&self, sandbox: &SandboxId, owner: &Owner) -> Option<SandboxAccess> {
        self.caller.access_to(owner, &self.store.shares().of(sandbox))
    }

    /// Returns when `is_unshared` becomes true, which is asked after every change of shares, or when the token is of no
    /// use any more; never for the operator. Safe to cancel, and may be called again.
    pub async fn ended(&self, is_unshared: impl Fn() -> bool) -> AccessEnd {
        if self.caller.operator {
            return pending().await;
        }
        let (mut shares, mut revocations) = (self.store.shares().changes(), self.revocations.clone());
        let mut expired = pin!(self.expired());
        loop {
            shares.mark_unchanged();
            if is_unshared() {
                return AccessEnd::Unshared;
            }
            tokio::select! {
                // All branches only wait: what changed is looked up.
                Ok(()) = shares.changed() => {}
                Ok(()) = revocations.changed() => {
                    if self.is_token_revoked().await {
                        return AccessEnd::TokenRevoked;
                    }
                }
                () = expired.as_mut() => return AccessEnd::TokenExpired,
            }
        }
    }

    async fn expired(&self) {
        match self.caller.expires_ms {
            Some(expires_ms) => {
                sleep(Duration::from_millis(expires_ms.saturating_sub(self.clock.now_ms()))).await;
            }
            None => pending().await,
        }
    }

    /// A signed URL has no token. A token that cannot be looked up is not trusted.
    async fn is_token_revoked(&self) -> bool {
        let found = self.store.token(&self.caller.via).await;
        found.map_or(true, |token| token.is_some_and(|token| token.revoked_ms.is_some()))
    }
}
