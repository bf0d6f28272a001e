//! Idle connections to providers, kept for the next call.

use super::{
    base_url::Origin,
    limits::{POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
    provider_connection::ProviderConnection,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::{Duration, Instant},
};

/// Idle connections by origin. Cheap to clone.
#[derive(Clone, Default)]
pub struct ProviderConnectionPool {
    idle: Arc<Mutex<HashMap<Origin, Vec<IdleConnection>>>>,
}

struct IdleConnection {
    connection: Box<ProviderConnection>,
    since: Instant,
}

impl IdleConnection {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() <= Duration::from_millis(POOLED_IDLE_MAX_MS)
    }
}

impl ProviderConnectionPool {
    /// Takes the most recently used connection that is still open.
    pub fn take(&self, origin: &Origin) -> Option<Box<ProviderConnection>> {
        let mut all = self.lock();
        let idle = all.get_mut(origin)?;
        // Only a check, so nothing is woken.
        let mut cx = Context::from_waker(Waker::noop());
        while let Some(mut last) = idle.pop() {
            if last.is_fresh() && last.connection.is_reusable(&mut cx) {
                return Some(last.connection);
            }
        }
        None
    }

    /// Keeps a connection, if it can be reused and the limits allow.
    pub fn put(&self, origin: &Origin, mut connection: Box<ProviderConnection>) {
        if !connection.is_reusable(&mut Context::from_waker(Waker::noop())) {
            return;
        }
        let mut all = self.lock();
        for idle in all.values_mut() {
            idle.retain(IdleConnection::is_fresh);
        }
        all.retain(|known, idle| known == origin || !idle.is_empty());
        if all.values().map(Vec::len).sum::<usize>() >= POOLED_ALL_MAX {
            return;
        }
        let idle = all.entry(origin.clone()).or_default();
        if idle.len() >= POOLED_MAX {
            idle.remove(0);
        }
        idle.push(IdleConnection { connection, since: Instant::now() });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Origin, Vec<IdleConnection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
