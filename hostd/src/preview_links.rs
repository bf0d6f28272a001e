//! Links to private previews: the one who makes, judges and revokes them. Every request to a private preview
//! asks here, so those that are good are remembered, and forgotten when one is revoked.

use crate::{
    core::{LinkId, PassError, PassPurpose, PassSigner, Preview, PreviewPass},
    limits,
    store::{LinkMade, LinkRecord, Store, StoreError},
};
use protocol::api::SandboxId;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Clones are handles to the same ones.
#[derive(Clone)]
pub struct PreviewLinks {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    signer: PassSigner,
    live: Mutex<LiveLinks>,
}

/// Links that the store called good. A pass says itself when it expires.
#[derive(Default)]
struct LiveLinks {
    ids: HashSet<LinkId>,
    /// How often one was revoked: what was read before that may be wrong after it.
    revocations: u64,
}

/// What a pass is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassCheck {
    Valid(PreviewPass),
    Invalid(PassError),
    /// It was good once: its link was revoked, or is not there any more.
    Revoked(PreviewPass),
}

impl PreviewLinks {
    pub fn new(store: Store, signer: PassSigner) -> Self {
        Self { inner: Arc::new(Inner { store, signer, live: Mutex::default() }) }
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Written down when this returns.
    pub async fn create(&self, link: LinkRecord) -> Result<LinkMade, StoreError> {
        self.inner.store.insert_link(link).await
    }

    /// The pass of a link; for ever the same.
    pub fn pass_text(&self, pass: &PreviewPass, purpose: PassPurpose) -> String {
        self.inner.signer.sign(pass, purpose)
    }

    /// Whether the sandbox has such a link. No request that comes after this is let in by it.
    pub async fn revoke(&self, sandbox: &SandboxId, id: LinkId, now_ms: u64) -> Result<bool, StoreError> {
        let revoked = self.inner.store.revoke_link(sandbox, id, now_ms).await;
        // Also when that failed: it may be written all the same.
        let mut live = self.live();
        live.revocations += 1;
        live.ids.remove(&id);
        revoked
    }

    /// Costs no question to the store for a link that was good before.
    pub async fn check(
        &self,
        text: &[u8],
        at: &Preview,
        purpose: PassPurpose,
        now_ms: u64,
    ) -> Result<PassCheck, StoreError> {
        match self.inner.signer.verify(text, at, purpose, now_ms) {
            Err(bad) => Ok(PassCheck::Invalid(bad)),
            Ok(pass) if self.is_live(pass.link, now_ms).await? => Ok(PassCheck::Valid(pass)),
            Ok(pass) => Ok(PassCheck::Revoked(pass)),
        }
    }

    async fn is_live(&self, id: LinkId, now_ms: u64) -> Result<bool, StoreError> {
        let before = {
            let live = self.live();
            if live.ids.contains(&id) {
                return Ok(true);
            }
            live.revocations
        };
        let good = self.inner.store.link_is_live(id, now_ms).await?;
        let mut live = self.live();
        if good && live.revocations == before {
            if live.ids.len() >= limits::LINKS_CACHED_MAX {
                live.ids.clear();
            }
            live.ids.insert(id);
        }
        Ok(good)
    }

    fn live(&self) -> MutexGuard<'_, LiveLinks> {
        self.inner.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
