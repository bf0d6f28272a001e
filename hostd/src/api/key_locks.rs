//! Mutual exclusion by key, in the order of arrival.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::timeout,
};

#[derive(Default)]
pub struct KeyLocks {
    locks: Mutex<HashMap<String, Arc<AsyncMutex<()>>>>,
}

/// The lock of a key, until dropped.
pub struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    key: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for the lock; `None` when that takes longer than `within`.
    pub async fn lock(&self, key: String, within: Duration) -> Option<KeyGuard<'_>> {
        let lock = self.locks.lock().expect("no panic while held").entry(key.clone()).or_default().clone();
        // Created before the wait: when the wait is cancelled, dropping the guard removes the entry.
        let mut holder = KeyGuard { locks: self, key, guard: None };
        holder.guard = timeout(within, lock.lock_owned()).await.ok();
        holder.guard.is_some().then_some(holder)
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.locks.locks.lock().expect("no panic while held");
        // Only the map refers to it: no holder and no waiter is left.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let locks = KeyLocks::default();
        let first = locks.lock("a".into(), LONG).await;
        assert!(first.is_some());
        assert!(locks.lock("a".into(), Duration::ZERO).await.is_none(), "taken");
        assert!(locks.lock("b".into(), Duration::ZERO).await.is_some(), "another key is free");
        drop(first);
        assert!(locks.lock("a".into(), LONG).await.is_some());
        assert!(locks.locks.lock().unwrap().is_empty());
    }
}
