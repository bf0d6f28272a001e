//! Locks that serialize launch and removal of a sandbox.

use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// A lock for each sandbox.
#[derive(Default)]
pub struct LaunchLocks(Mutex<HashMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>);

impl LaunchLocks {
    pub async fn lock(&self, sandbox: &SandboxId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Locks that are neither held nor waited for.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(*sandbox).or_default())
        };
        lock.lock_owned().await
    }

    pub fn is_locked(&self, sandbox: &SandboxId) -> bool {
        let locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(sandbox).is_some_and(|lock| lock.try_lock().is_err())
    }
}
