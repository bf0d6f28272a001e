//! Idle connections of one sandbox to `http://` servers, kept for the next request.

use super::{
    limits::{POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
    server_connection::ServerConnection,
};
use hostd_core::egress::Destination;
use std::{
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Waker},
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Limits idle connections of all sandboxes: each is a file descriptor.
static POOL_PERMITS: Semaphore = Semaphore::const_new(POOLED_ALL_MAX);

#[derive(Default)]
pub struct ServerConnectionPool {
    /// The most recently used one is last.
    connections: Mutex<Vec<IdleConnection>>,
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
    /// Takes the most recently used connection to this destination that is still open and whose address
    /// `is_allowed` now.
    pub fn take(
        &self,
        destination: &Destination,
        is_allowed: impl Fn(IpAddr) -> bool,
    ) -> Option<Box<ServerConnection>> {
        let mut connections = self.lock();
        connections.retain(IdleConnection::is_fresh);
        loop {
            let at = connections
                .iter()
                .rposition(|idle| idle.destination == *destination && is_allowed(idle.connection.address))?;
            let mut connection = connections.remove(at).connection;
            if connection.http.is_reusable(&mut Context::from_waker(Waker::noop())) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, if it can be reused and the limits allow.
    pub fn put(&self, destination: &Destination, mut connection: Box<ServerConnection>) {
        if !connection.http.is_reusable(&mut Context::from_waker(Waker::noop())) {
            return;
        }
        let mut connections = self.lock();
        connections.retain(IdleConnection::is_fresh);
        if connections.len() >= POOLED_MAX {
            connections.remove(0);
        }
        let Ok(permit) = POOL_PERMITS.try_acquire() else { return };
        connections.push(IdleConnection {
            destination: destination.clone(),
            connection,
            since: Instant::now(),
            _permit: permit,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
