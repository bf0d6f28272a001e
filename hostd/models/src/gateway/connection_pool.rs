//! Idle connections to providers, kept for the next call.

use super::{
    base_url::Origin,
    limits::{POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
    provider_connection::ProviderConnection,
};
use hostd_net::http1::{Http1Pool, PoolLimits, Pooled, WhenFull};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

const LIMITS: PoolLimits = PoolLimits {
    per_key_max: POOLED_MAX,
    all_max: POOLED_ALL_MAX,
    when_full: WhenFull::Refuse,
    idle_max: Duration::from_millis(POOLED_IDLE_MAX_MS),
};

type Pool = Http1Pool<Origin, Box<ProviderConnection>>;

/// Idle connections by origin. Cheap to clone.
#[derive(Clone)]
pub struct ProviderConnectionPool {
    connections: Arc<Mutex<Pool>>,
}

impl Default for ProviderConnectionPool {
    fn default() -> Self {
        Self { connections: Arc::new(Mutex::new(Http1Pool::new(LIMITS))) }
    }
}

impl ProviderConnectionPool {
    /// Takes the most recently used connection that is still open.
    pub fn take(&self, origin: &Origin) -> Option<Box<ProviderConnection>> {
        let now = Instant::now();
        let mut connections = self.lock();
        connections.prune(now);
        connections.take(origin, now, LIMITS.idle_max, |_| true)
    }

    /// Keeps a connection, if it can be reused and the limits allow.
    pub fn put(&self, origin: &Origin, mut connection: Box<ProviderConnection>) {
        if !Pooled::is_reusable(&mut connection) {
            return;
        }
        let now = Instant::now();
        let mut connections = self.lock();
        connections.prune(now);
        connections.put(origin, now, connection);
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
