//! The connections of one sandbox to servers of `http://` that are kept for the next request.

use super::{
    limits::{POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
    server_connection::ServerConnection,
};
use crate::core::egress::Destination;
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Of all sandboxes: each is a descriptor.
static POOL_PERMITS: Semaphore = Semaphore::const_new(POOLED_ALL_MAX);

#[derive(Default)]
pub struct ServerConnectionPool {
    /// The one used last is last.
    idle_connections: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    destination: Destination,
    connection: Box<ServerConnection>,
    since: Instant,
    _permit: SemaphorePermit<'static>,
}

impl IdleConnection {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() <= Duration::from_millis(POOLED_IDLE_MAX_MS)
    }
}

impl ServerConnectionPool {
    /// The one used last that leads there, to an address that it `may` lead to, and is still good.
    pub fn take(
        &self,
        destination: &Destination,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<Box<ServerConnection>> {
        let mut idle_connections = self.idle_connections();
        idle_connections.retain(IdleConnection::is_fresh);
        loop {
            let at = idle_connections
                .iter()
                .rposition(|idle| idle.destination == *destination && is_allowed(idle.connection.address))?;
            let mut connection = idle_connections.remove(at).connection;
            if connection.is_free() {
                return Some(connection);
            }
        }
    }

    /// Keeps a line, if it can be used again and there are not many.
    pub fn put(&self, destination: &Destination, mut connection: Box<ServerConnection>) {
        if !connection.is_free() {
            return;
        }
        let mut idle_connections = self.idle_connections();
        idle_connections.retain(IdleConnection::is_fresh);
        if idle_connections.len() >= POOLED_MAX {
            idle_connections.remove(0);
        }
        let Ok(permit) = POOL_PERMITS.try_acquire() else { return };
        idle_connections.push(IdleConnection {
            destination: destination.clone(),
            connection,
            since: Instant::now(),
            _permit: permit,
        });
    }

    fn idle_connections(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle_connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
