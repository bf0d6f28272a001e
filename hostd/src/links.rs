//! Links to private previews: the one who makes, judges and revokes them. Every request to a private preview
//! asks here, so those that are good are remembered, and forgotten when one is revoked.

use crate::{
    core::{BadPass, LinkId, Pass, Passes, Preview, Purpose},
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
pub struct Links {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    passes: Passes,
    known: Mutex<Known>,
}

/// Links that the store called good. A pass says itself when it expires.
#[derive(Default)]
struct Known {
    good: HashSet<LinkId>,
    /// How often one was revoked: what was read before that may be wrong after it.
    revocations: u64,
}

/// What a pass is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    Good(Pass),
    Bad(BadPass),
    /// It was good once: its link was revoked, or is not there any more.
    Revoked(Pass),
}

impl Links {
    pub fn new(store: Store, passes: Passes) -> Self {
        Self { shared: Arc::new(Shared { store, passes, known: Mutex::default() }) }
    }

    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Written down when this returns.
    pub async fn make(&self, link: LinkRecord) -> Result<LinkMade, StoreError> {
        self.shared.store.insert_link(link).await
    }

    /// The pass of a link; for ever the same.
    pub fn pass(&self, pass: &Pass, purpose: Purpose) -> String {
        self.shared.passes.write(pass, purpose)
    }

    /// Whether the sandbox has such a link. No request that comes after this is let in by it.
    pub async fn revoke(&self, sandbox: &SandboxId, id: LinkId, now_ms: u64) -> Result<bool, StoreError> {
        let revoked = self.shared.store.revoke_link(sandbox, id, now_ms).await;
        // Also when that failed: it may be written all the same.
        let mut known = self.known();
        known.revocations += 1;
        known.good.remove(&id);
        revoked
    }

    /// Costs no question to the store for a link that was good before.
    pub async fn judge(
        &self,
        text: &[u8],
        at: &Preview,
        purpose: Purpose,
        now_ms: u64,
    ) -> Result<Judged, StoreError> {
        match self.shared.passes.read(text, at, purpose, now_ms) {
            Err(bad) => Ok(Judged::Bad(bad)),
            Ok(pass) if self.is_good(pass.link, now_ms).await? => Ok(Judged::Good(pass)),
            Ok(pass) => Ok(Judged::Revoked(pass)),
        }
    }

    async fn is_good(&self, id: LinkId, now_ms: u64) -> Result<bool, StoreError> {
        let before = {
            let known = self.known();
            if known.good.contains(&id) {
                return Ok(true);
            }
            known.revocations
        };
        let good = self.shared.store.link_is_live(id, now_ms).await?;
        let mut known = self.known();
        if good && known.revocations == before {
            if known.good.len() >= limits::LINKS_CACHED_MAX {
                known.good.clear();
            }
            known.good.insert(id);
        }
        Ok(good)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
