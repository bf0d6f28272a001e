//! One launch or removal of a sandbox at a time.

use protocol::api::SandboxId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::OwnedMutexGuard;

/// Who is at work on a sandbox: one launch or removal at a time.
#[derive(Default)]
pub struct Turns(Mutex<HashMap<SandboxId, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub async fn take(&self, sandbox: &SandboxId) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody has or waits for.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(*sandbox).or_default())
        };
        turn.lock_owned().await
    }

    pub fn is_taken(&self, sandbox: &SandboxId) -> bool {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.get(sandbox).is_some_and(|turn| turn.try_lock().is_err())
    }
}
