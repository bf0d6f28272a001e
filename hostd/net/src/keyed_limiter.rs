//! Limits what is in use at once, for each key and for all of them. Refuses what does not fit; nothing waits. The
//! owners of the limits decide by the counts.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Counts units in use by key. Clones share the counts.
pub struct KeyedLimiter<K> {
    usage: Arc<Mutex<Usage<K>>>,
}

struct Usage<K> {
    total: usize,
    /// A key without units has no entry.
    by_key: HashMap<K, usize>,
}

/// Units in use before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Of the same key.
    pub mine: usize,
    /// Of all keys.
    pub total: usize,
}

/// Units of a key, returned when dropped.
pub struct KeyedPermit<K: Eq + Hash> {
    limiter: KeyedLimiter<K>,
    key: K,
    units: usize,
}

impl<K> Default for KeyedLimiter<K> {
    fn default() -> Self {
        let usage = Usage { total: 0, by_key: HashMap::new() };
        Self { usage: Arc::new(Mutex::new(usage)) }
    }
}

impl<K> Clone for KeyedLimiter<K> {
    fn clone(&self) -> Self {
        Self { usage: self.usage.clone() }
    }
}

impl<K: Clone + Eq + Hash> KeyedLimiter<K> {
    /// Takes one unit, unless `check` refuses by what is in use.
    pub fn acquire<E>(
        &self,
        key: K,
        check: impl FnOnce(InUse) -> Result<(), E>,
    ) -> Result<KeyedPermit<K>, E> {
        let mut permit = self.permit(key);
        permit.grow(1, check)?;
        Ok(permit)
    }

    /// Returns a permit without units, that can grow.
    pub fn permit(&self, key: K) -> KeyedPermit<K> {
        KeyedPermit { limiter: self.clone(), key, units: 0 }
    }
}

impl<K> KeyedLimiter<K> {
    fn usage(&self) -> MutexGuard<'_, Usage<K>> {
        // A panic elsewhere leaves the counts as they were.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is in use.
    pub fn is_empty(&self) -> bool {
        let usage = self.usage();
        usage.total == 0 && usage.by_key.is_empty()
    }
}

impl<K: Clone + Eq + Hash> KeyedPermit<K> {
    /// Takes more units, unless `check` refuses by what is in use.
    pub fn grow<E>(&mut self, units: usize, check: impl FnOnce(InUse) -> Result<(), E>) -> Result<(), E> {
        let mut usage = self.limiter.usage();
        let mine = usage.by_key.get(&self.key).copied().unwrap_or_default();
        check(InUse { mine, total: usage.total })?;
        if units > 0 {
            usage.total += units;
            usage.by_key.insert(self.key.clone(), mine + units);
            self.units += units;
        }
        Ok(())
    }
}

impl<K: Eq + Hash> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        if self.units == 0 {
            return;
        }
        let mut usage = self.limiter.usage();
        usage.total -= self.units;
        if let Some(mine) = usage.by_key.get_mut(&self.key) {
            *mine -= self.units;
            if *mine == 0 {
                usage.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_most(mine_max: usize, total_max: usize) -> impl Fn(InUse) -> Result<(), InUse> {
        move |in_use| if in_use.mine < mine_max && in_use.total < total_max { Ok(()) } else { Err(in_use) }
    }

    #[test]
    fn a_key_has_its_limit_and_all_keys_have_theirs() {
        let limiter = KeyedLimiter::default();
        let first = limiter.acquire("a", at_most(2, 3)).ok();
        let second = limiter.acquire("a", at_most(2, 3)).ok();
        assert_eq!(limiter.acquire("a", at_most(2, 3)).err(), Some(InUse { mine: 2, total: 2 }));
        let third = limiter.acquire("b", at_most(2, 3)).ok();
        assert_eq!(limiter.acquire("c", at_most(2, 3)).err(), Some(InUse { mine: 0, total: 3 }));
        drop(first);
        let fourth = limiter.acquire("c", at_most(2, 3)).ok();
        assert!(fourth.is_some(), "what was returned can be taken");
        drop((second, third, fourth));
        assert!(limiter.is_empty(), "keys without units are forgotten");
    }

    #[test]
    fn a_permit_grows_and_returns_all_of_it() {
        let limiter = KeyedLimiter::default();
        let mut permit = limiter.permit("a");
        assert!(limiter.is_empty());
        for units in [0, 5, 7] {
            assert_eq!(permit.grow(units, |_| Ok::<_, ()>(())), Ok(()));
        }
        assert_eq!(permit.grow(1, Err), Err(InUse { mine: 12, total: 12 }), "refused, and not counted");
        let other = limiter.acquire("a", |in_use| if in_use.mine == 12 { Ok(()) } else { Err(in_use) });
        drop(permit);
        assert_eq!(limiter.acquire("b", Err).err(), Some(InUse { mine: 0, total: 1 }));
        drop(other);
        assert!(limiter.is_empty());
    }
}
