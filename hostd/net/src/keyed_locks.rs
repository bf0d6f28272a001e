//! Mutual exclusion by key, in the order of arrival.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Locks<K> = HashMap<K, Arc<AsyncMutex<()>>>;

/// A lock for each key, as long as it is held or waited for. Clones share the locks.
pub struct KeyedLocks<K> {
    locks: Arc<Mutex<Locks<K>>>,
}

/// The lock of a key, until dropped.
pub struct KeyedGuard<K: Eq + Hash> {
    locks: KeyedLocks<K>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self { locks: Arc::default() }
    }
}

impl<K> Clone for KeyedLocks<K> {
    fn clone(&self) -> Self {
        Self { locks: self.locks.clone() }
    }
}

impl<K: Clone + Eq + Hash> KeyedLocks<K> {
    /// Waits for the lock. A wait that is cancelled leaves nothing behind.
    pub async fn lock(&self, key: K) -> KeyedGuard<K> {
        let lock = self.locks().entry(key.clone()).or_default().clone();
        // Created before the wait: when the wait is cancelled, dropping the guard removes the entry.
        let mut holder = KeyedGuard { locks: self.clone(), key, guard: None };
        holder.guard = Some(lock.lock_owned().await);
        holder
    }
}

impl<K: Eq + Hash> KeyedLocks<K> {
    pub fn is_locked(&self, key: &K) -> bool {
        self.locks().get(key).is_some_and(|lock| lock.try_lock().is_err())
    }

    fn locks(&self) -> MutexGuard<'_, Locks<K>> {
        // A panic elsewhere leaves no entry half changed.
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyedGuard<K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.locks.locks();
        // Only the map refers to it: no holder and no waiter is left.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn one_at_a_time_and_nothing_is_left_behind() {
        let locks = KeyedLocks::default();
        let first = locks.lock("a").await;
        assert!(locks.is_locked(&"a") && !locks.is_locked(&"b"));
        assert!(locks.lock("a").now_or_never().is_none(), "taken");
        assert!(locks.lock("b").now_or_never().is_some(), "another key is free");
        drop(first);
        assert!(!locks.is_locked(&"a"));
        assert!(locks.lock("a").now_or_never().is_some());
        assert!(locks.locks().is_empty());
    }

    #[tokio::test]
    async fn waiters_get_the_lock_in_the_order_of_arrival() {
        let locks = KeyedLocks::default();
        let first = locks.lock("a").await;
        let (mut second, mut third) = (Box::pin(locks.lock("a")), Box::pin(locks.lock("a")));
        assert!(second.as_mut().now_or_never().is_none() && third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none());
        drop(second.await);
        drop(third.await);
        assert!(locks.locks().is_empty());
    }
}
