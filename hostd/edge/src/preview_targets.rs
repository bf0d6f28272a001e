//! All sandboxes as the edge sees them. The fleet enters each one when its actor starts and removes it when the actor
//! ends; the edge only looks them up.

use crate::{connection_quotas::ConnectionQuotas, preview_target::PreviewTarget};
use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Clones share the entries.
#[derive(Clone, Default)]
pub struct PreviewTargets {
    entries: Arc<Mutex<HashMap<SandboxId, Arc<PreviewTarget>>>>,
    quotas: ConnectionQuotas,
}

impl PreviewTargets {
    pub fn insert(&self, target: PreviewTarget) {
        let owner = self.quotas.of(&target.record().owner);
        self.entries().insert(target.id, Arc::new(target.counted_for(owner)));
    }

    /// The connections of all owners.
    pub fn quotas(&self) -> &ConnectionQuotas {
        &self.quotas
    }

    pub fn remove(&self, id: &SandboxId) {
        self.entries().remove(id);
    }

    /// The sandbox with this id; none for one that is destroyed.
    pub fn get(&self, id: &SandboxId) -> Option<Arc<PreviewTarget>> {
        self.entries().get(id).cloned()
    }

    pub fn all(&self) -> Vec<Arc<PreviewTarget>> {
        self.entries().values().cloned().collect()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<PreviewTarget>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
