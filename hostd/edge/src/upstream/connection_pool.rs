//! The idle connections to one sandbox that are kept for the next request, and the concurrency windows of its
//! ports. Emptied when the sandbox stops: every socket keeps its network namespace alive.

use super::{
    concurrency_window::{ConcurrencyWindow, WindowPermit},
    connection::UpstreamConnection,
};
use hostd_net::http1::{Http1Pool, PoolLimits, Pooled, WhenFull};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};

/// Idle connections of one port, of all ports, and how long they are kept.
const LIMITS: PoolLimits = PoolLimits {
    per_key_max: 128,
    all_max: 256,
    when_full: WhenFull::Refuse,
    idle_max: Duration::from_secs(30),
};
/// Ports whose window is remembered while no request waits for it.
const PORTS_MAX: usize = 64;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct UpstreamPool {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    ports: Mutex<Ports>,
    epoch: AtomicU64,
}

struct Ports {
    connections: Http1Pool<u16, Box<UpstreamConnection>>,
    windows: HashMap<u16, Arc<ConcurrencyWindow>>,
}

impl Default for Ports {
    fn default() -> Self {
        Self { connections: Http1Pool::new(LIMITS), windows: HashMap::new() }
    }
}

impl Pooled for Box<UpstreamConnection> {
    fn is_reusable(&mut self) -> bool {
        // Polled without a waker: only its state is of interest.
        UpstreamConnection::is_reusable(self, &mut Context::from_waker(Waker::noop()))
    }
}

impl UpstreamPool {
    /// Counts how often the sandbox stopped.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch.load(Ordering::SeqCst)
    }

    /// Waits for a permit to send a request to this port.
    pub async fn permit(&self, port: u16) -> WindowPermit {
        let window = self.ports().windows.entry(port).or_default().clone();
        window.acquire().await
    }

    /// Takes the connection used last that is still usable, belongs to this thread, and was idle for at most
    /// `idle_for_max`.
    pub fn take(&self, port: u16, idle_for_max: Duration) -> Option<Box<UpstreamConnection>> {
        let (here, now) = (thread::current().id(), Instant::now());
        self.ports().connections.take(&port, now, idle_for_max, |connection| connection.thread == here)
    }

    /// Keeps a reusable connection, unless the sandbox stopped since or there are many.
    pub fn put(&self, port: u16, connection: Box<UpstreamConnection>) {
        let mut ports = self.ports();
        // Checked with the lock held, as in `clear`: afterwards no connection of an older epoch is kept.
        if connection.epoch == self.epoch() && !connection.permit.is_scarce() {
            ports.connections.put(&port, Instant::now(), connection);
        }
    }

    /// Called when the sandbox stopped.
    pub fn clear(&self) {
        let mut ports = self.ports();
        self.inner.epoch.fetch_add(1, Ordering::SeqCst);
        *ports = Ports::default();
    }

    /// Drops connections that were idle for long.
    pub fn prune(&self) {
        let mut ports = self.ports();
        let Ports { connections, windows } = &mut *ports;
        connections.prune(Instant::now());
        if windows.len() > PORTS_MAX {
            windows.retain(|port, window| connections.has(port) || Arc::strong_count(window) > 1);
        }
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.inner.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::SocketLimit;
    use tokio::io::duplex;

    /// How many of 50 connections for each of these ports are kept when there may be so many sockets.
    async fn kept(sockets: usize, ports: u16) -> usize {
        let sockets: &'static SocketLimit = Box::leak(Box::new(SocketLimit::new(sockets)));
        let pool = UpstreamPool::default();
        for n in 0..ports * 50 {
            let Some(permit) = sockets.acquire() else { break };
            let connection = UpstreamConnection::handshake(Box::new(duplex(64).0), permit, pool.epoch())
                .await
                .expect("a connection");
            pool.put(n % ports, Box::new(connection));
        }
        pool.prune();
        let kept = pool.ports().connections.len();
        for port in 0..ports {
            while pool.take(port, Duration::MAX).is_some() {}
        }
        assert!(pool.ports().connections.is_empty());
        kept
    }

    #[tokio::test]
    async fn a_pool_is_bounded_and_smaller_where_sockets_are_scarce() {
        assert_eq!(kept(10_000, 1).await, 50);
        assert_eq!(kept(10_000, 40).await, LIMITS.all_max);
        assert_eq!(kept(20, 40).await, 10);
    }
}
