//! Idle connections that are kept for the next request, by the server they go to. The owner of a pool locks it, and
//! checks what only it knows before it keeps a connection.

use hyper::client::conn::http1::SendRequest;
use std::{
    collections::HashMap,
    hash::Hash,
    time::{Duration, Instant},
};

/// Servers that are remembered without a connection.
const EMPTY_KEYS_MAX: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct PoolLimits {
    /// Idle connections to one server: a further one replaces the oldest.
    pub per_key_max: usize,
    /// Idle connections to all servers.
    pub all_max: usize,
    pub when_full: WhenFull,
    /// How long a connection is kept.
    pub idle_max: Duration,
}

/// What becomes of a connection when the pool has `all_max` others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It is closed.
    Refuse,
    /// It replaces the oldest connection of all.
    ReplaceOldest,
}

/// A connection that can be kept.
pub trait Pooled {
    /// Whether another request can be sent, as far as that is known without sending one.
    fn is_reusable(&mut self) -> bool;
}

impl<B> Pooled for SendRequest<B> {
    fn is_reusable(&mut self) -> bool {
        self.is_ready()
    }
}

pub struct Http1Pool<K, C> {
    by_key: HashMap<K, Vec<Idle<C>>>,
    /// Connections of all keys.
    idle: usize,
    limits: PoolLimits,
}

struct Idle<C> {
    connection: C,
    since: Instant,
}

impl<C> Idle<C> {
    fn is_fresh(&self, now: Instant, idle_max: Duration) -> bool {
        now.saturating_duration_since(self.since) <= idle_max
    }
}

impl<K: Eq + Hash + Clone, C: Pooled> Http1Pool<K, C> {
    pub fn new(limits: PoolLimits) -> Self {
        Self { by_key: HashMap::new(), idle: 0, limits }
    }

    /// The number of idle connections.
    pub fn len(&self) -> usize {
        self.idle
    }

    pub fn is_empty(&self) -> bool {
        self.idle == 0
    }

    /// Whether there is an idle connection to this server.
    pub fn has(&self, key: &K) -> bool {
        self.by_key.get(key).is_some_and(|kept| !kept.is_empty())
    }

    /// Takes the connection used last that `is_wanted`, is reusable and was idle for at most `idle_max`.
    pub fn take(
        &mut self,
        key: &K,
        now: Instant,
        idle_max: Duration,
        is_wanted: impl Fn(&C) -> bool,
    ) -> Option<C> {
        // The newest is last.
        let kept = self.by_key.get_mut(key)?;
        let idle_max = idle_max.min(self.limits.idle_max);
        loop {
            let wanted = |idle: &Idle<C>| idle.is_fresh(now, idle_max) && is_wanted(&idle.connection);
            let at = kept.iter().rposition(wanted)?;
            let mut connection = kept.remove(at).connection;
            self.idle -= 1;
            if connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, if the limits allow. The caller has checked that it is reusable.
    pub fn put(&mut self, key: &K, now: Instant, connection: C) {
        let idle = Idle { connection, since: now };
        let PoolLimits { per_key_max, all_max, .. } = self.limits;
        if let Some(kept) = self.by_key.get_mut(key)
            && kept.len() < per_key_max
            && self.idle < all_max
        {
            kept.push(idle);
        } else if self.make_room(key) {
            self.by_key.entry(key.clone()).or_default().push(idle);
        } else {
            return;
        }
        self.idle += 1;
    }

    /// Makes room for a connection to this server. Returns whether there is any.
    pub fn make_room(&mut self, key: &K) -> bool {
        let PoolLimits { per_key_max, all_max, when_full, .. } = self.limits;
        let full = match (self.by_key.get(key), when_full) {
            (Some(kept), _) if kept.len() >= per_key_max => self.by_key.get_mut(key),
            (Some(_) | None, _) if self.idle < all_max => return true,
            (Some(_) | None, WhenFull::Refuse) => None,
            (Some(_) | None, WhenFull::ReplaceOldest) => {
                let oldest = |kept: &&mut Vec<Idle<C>>| kept.first().map(|idle| idle.since);
                self.by_key.values_mut().filter(|kept| !kept.is_empty()).min_by_key(oldest)
            }
        };
        let Some(full) = full else { return false };
        full.remove(0);
        self.idle -= 1;
        true
    }

    /// Closes connections that were idle for long.
    pub fn prune(&mut self, now: Instant) {
        self.idle = 0;
        for kept in self.by_key.values_mut() {
            kept.retain(|idle| idle.is_fresh(now, self.limits.idle_max));
            self.idle += kept.len();
        }
        if self.by_key.len() > EMPTY_KEYS_MAX {
            self.by_key.retain(|_, kept| !kept.is_empty());
        }
    }

    /// Closes all of them.
    pub fn clear(&mut self) {
        self.by_key.clear();
        self.idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PoolLimits = PoolLimits {
        per_key_max: 3,
        all_max: 5,
        when_full: WhenFull::Refuse,
        idle_max: Duration::from_secs(30),
    };

    #[derive(Debug, PartialEq)]
    struct Numbered {
        number: u32,
        reusable: bool,
    }

    impl Pooled for Numbered {
        fn is_reusable(&mut self) -> bool {
            self.reusable
        }
    }

    /// A pool with these connections: key, number, reusable; one put per second.
    fn pool(
        limits: PoolLimits,
        begin: Instant,
        put: &[(&'static str, u32, bool)],
    ) -> Http1Pool<&'static str, Numbered> {
        let mut pool = Http1Pool::new(limits);
        for (second, (key, number, reusable)) in (0..).zip(put) {
            let connection = Numbered { number: *number, reusable: *reusable };
            pool.put(key, begin + Duration::from_secs(second), connection);
        }
        pool
    }

    /// Takes connections of a key until there are none.
    fn taken(pool: &mut Http1Pool<&'static str, Numbered>, key: &'static str, now: Instant) -> Vec<u32> {
        let take = || pool.take(&key, now, Duration::MAX, |_| true).map(|connection| connection.number);
        std::iter::from_fn(take).collect()
    }

    #[test]
    fn the_newest_reusable_connection_is_taken_first() {
        let begin = Instant::now();
        let mut pool =
            pool(LIMITS, begin, &[("a", 1, true), ("a", 2, true), ("b", 3, true), ("a", 4, false)]);
        assert_eq!(taken(&mut pool, "a", begin), [2, 1]);
        assert_eq!(taken(&mut pool, "c", begin), [0; 0]);
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn unwanted_and_old_connections_are_left() {
        let begin = Instant::now();
        let mut pool = pool(LIMITS, begin, &[("a", 1, true), ("a", 2, true)]);
        let mut take = |now, idle_max, number| {
            pool.take(&"a", now, idle_max, |connection: &Numbered| connection.number == number).is_some()
        };
        let second = Duration::from_secs(1);
        assert!(!take(begin + second, second, 3), "no such connection");
        assert!(!take(begin + 2 * second, second, 1), "older than the caller wants");
        assert!(!take(begin + 32 * second, Duration::MAX, 2), "older than the pool keeps");
        assert!(take(begin + 2 * second, second, 2));
        assert!(take(begin + 30 * second, Duration::MAX, 1));
    }

    #[test]
    fn a_full_pool_replaces_the_oldest_or_refuses() {
        let begin = Instant::now();
        let four = [("a", 1, true), ("a", 2, true), ("a", 3, true), ("a", 4, true)];
        assert_eq!(taken(&mut pool(LIMITS, begin, &four), "a", begin), [4, 3, 2]);
        let six =
            [("b", 1, true), ("b", 2, true), ("a", 3, true), ("a", 4, true), ("a", 5, true), ("c", 6, true)];
        let replaces = PoolLimits { when_full: WhenFull::ReplaceOldest, ..LIMITS };
        for (limits, expected) in
            [(LIMITS, [&[5, 4, 3][..], &[2, 1], &[]]), (replaces, [&[5, 4, 3], &[2], &[6]])]
        {
            let mut pool = pool(limits, begin, &six);
            assert_eq!(pool.len(), 5);
            assert_eq!(["a", "b", "c"].map(|key| taken(&mut pool, key, begin)), expected, "{limits:?}");
            assert!(pool.is_empty());
        }
    }

    #[test]
    fn what_is_pruned_and_cleared_is_gone() {
        let begin = Instant::now();
        let mut pool = pool(LIMITS, begin, &[("a", 1, true), ("b", 2, true), ("b", 3, true)]);
        pool.prune(begin + Duration::from_secs(31));
        assert_eq!(pool.len(), 2);
        pool.clear();
        assert_eq!((pool.len(), taken(&mut pool, "b", begin)), (0, vec![]));
    }
}
