//! Idle connections of one sandbox to `http://` servers, kept for the next request.

use super::{
    limits::{POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
    server_connection::ServerConnection,
};
use hostd_core::egress::Destination;
use hostd_net::http1::{Http1Pool, PoolLimits, Pooled, WhenFull};
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Limits idle connections of all sandboxes: each is a file descriptor.
static POOL_PERMITS: Semaphore = Semaphore::const_new(POOLED_ALL_MAX);

const LIMITS: PoolLimits = PoolLimits {
    per_key_max: POOLED_MAX,
    all_max: POOLED_MAX,
    when_full: WhenFull::ReplaceOldest,
    idle_max: Duration::from_millis(POOLED_IDLE_MAX_MS),
};

pub struct ServerConnectionPool {
    connections: Mutex<Http1Pool<Destination, IdleConnection>>,
}

struct IdleConnection {
    connection: Box<ServerConnection>,
    _permit: SemaphorePermit<'static>,
}

impl Pooled for IdleConnection {
    fn is_reusable(&mut self) -> bool {
        is_reusable(&mut self.connection)
    }
}

impl Default for ServerConnectionPool {
    fn default() -> Self {
        Self { connections: Mutex::new(Http1Pool::new(LIMITS)) }
    }
}

impl ServerConnectionPool {
    /// Takes the most recently used connection to this destination that is still open and whose address
    /// `is_allowed` now.
    pub fn take(
        &self,
        destination: &Destination,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<Box<ServerConnection>> {
        let now = Instant::now();
        let mut connections = self.lock();
        connections.prune(now);
        let is_allowed = |idle: &IdleConnection| is_allowed(idle.connection.address);
        connections.take(destination, now, LIMITS.idle_max, is_allowed).map(|idle| idle.connection)
    }

    /// Keeps a connection, if it can be reused and the limits allow.
    pub fn put(&self, destination: &Destination, mut connection: Box<ServerConnection>) {
        if !is_reusable(&mut connection) {
            return;
        }
        let now = Instant::now();
        let mut connections = self.lock();
        connections.prune(now);
        // First: the connection that is replaced gives its permit back.
        connections.make_room(destination);
        let Ok(permit) = POOL_PERMITS.try_acquire() else { return };
        connections.put(destination, now, IdleConnection { connection, _permit: permit });
    }

    fn lock(&self) -> MutexGuard<'_, Http1Pool<Destination, IdleConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_reusable(connection: &mut ServerConnection) -> bool {
    // Only a check, so nothing is woken.
    connection.http.is_reusable(&mut Context::from_waker(Waker::noop()))
}
