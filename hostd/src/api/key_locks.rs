//! One at a time for each key, in the order of arrival.

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

/// The right to act for a key; others wait until it is dropped.
pub struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    key: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    /// Waits for the turn; `None` when that takes longer than `within`.
    pub async fn lock(&self, key: String, within: Duration) -> Option<KeyGuard<'_>> {
        let lock = self.locks.lock().expect("no panic while held").entry(key.clone()).or_default().clone();
        // Made first: when the wait is cut short, dropping it tidies up.
        let mut holder = KeyGuard { locks: self, key, guard: None };
        holder.guard = timeout(within, lock.lock_owned()).await.ok();
        holder.guard.is_some().then_some(holder)
    }
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.locks.locks.lock().expect("no panic while held");
        // Only the map knows it: nobody holds it or waits for it.
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
