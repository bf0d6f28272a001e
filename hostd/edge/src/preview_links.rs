//! Creates, checks and revokes links to private previews. Every request to a private preview is checked here,
//! so live links are cached, and dropped from the cache when one is revoked.

use hostd_core::{LinkId, PassError, PassPurpose, PassSigner, Preview, PreviewPass, limits};
use hostd_store::{LinkMade, LinkRecord, Store, StoreError};
use protocol::api::SandboxId;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Clones share the cache.
#[derive(Clone)]
pub struct PreviewLinks {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    signer: PassSigner,
    live: Mutex<LiveLinks>,
}

/// Links that the store reported as live. Expiry is in the pass itself.
#[derive(Default)]
struct LiveLinks {
    ids: HashSet<LinkId>,
    /// Counts revocations: a result that was read before one may be stale after it.
    revocations: u64,
}

/// The result of checking a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassCheck {
    Valid(PreviewPass),
    Invalid(PassError),
    /// Valid by its signature, but its link was revoked or does not exist any more.
    Revoked(PreviewPass),
}

impl PreviewLinks {
    pub fn new(store: Store, signer: PassSigner) -> Self {
        Self { inner: Arc::new(Inner { store, signer, live: Mutex::default() }) }
    }

    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Creates a link; it is durable when this returns.
    pub async fn create(&self, link: LinkRecord) -> Result<LinkMade, StoreError> {
        self.inner.store.insert_link(link).await
    }

    /// The pass of a link, which never changes.
    pub fn pass_text(&self, pass: &PreviewPass, purpose: PassPurpose) -> String {
        self.inner.signer.sign(pass, purpose)
    }

    /// Returns whether the sandbox has such a link. No request that comes after this is admitted by it.
    pub async fn revoke(&self, sandbox: &SandboxId, id: LinkId, now_ms: u64) -> Result<bool, StoreError> {
        let revoked = self.inner.store.revoke_link(sandbox, id, now_ms).await;
        // Also when that failed: it may have been written all the same.
        let mut live = self.live();
        live.revocations += 1;
        live.ids.remove(&id);
        revoked
    }

    /// Checks a pass. Reads the store only for links that are not cached.
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
