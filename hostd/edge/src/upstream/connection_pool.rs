//! The idle connections to one sandbox that are kept for the next request, and the concurrency windows of its
//! ports. Emptied when the sandbox stops: every socket keeps its network namespace alive.

use super::{
    concurrency_window::{ConcurrencyWindow, WindowPermit},
    connection::UpstreamConnection,
};
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
const IDLE_MAX: usize = 128;
const IDLE_ALL_MAX: usize = 256;
const IDLE_FOR_MAX: Duration = Duration::from_secs(30);
/// Ports that are remembered without a connection.
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

#[derive(Default)]
struct Ports {
    by_number: HashMap<u16, Port>,
    /// Idle connections of all ports.
    idle: usize,
}

#[derive(Default)]
struct Port {
    /// Ordered by last use: the newest is last.
    idle: Vec<Idle>,
    window: Arc<ConcurrencyWindow>,
}

struct Idle {
    connection: Box<UpstreamConnection>,
    since: Instant,
}

impl UpstreamPool {
    /// Counts how often the sandbox stopped.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch.load(Ordering::SeqCst)
    }

    /// Waits for a permit to send a request to this port.
    pub async fn permit(&self, port: u16) -> WindowPermit {
        let window = self.ports().by_number.entry(port).or_default().window.clone();
        window.acquire().await
    }

    /// Takes the connection used last that is still usable, belongs to this thread, and was idle for at most
    /// `idle_for_max`.
    pub fn take(&self, port: u16, idle_for_max: Duration) -> Option<Box<UpstreamConnection>> {
        let idle_for_max = idle_for_max.min(IDLE_FOR_MAX);
        let (here, now) = (thread::current().id(), Instant::now());
        let mut ports = self.ports();
        let Ports { by_number, idle: all } = &mut *ports;
        let idle = &mut by_number.get_mut(&port)?.idle;
        // Polled without a waker: only its state is of interest.
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let fresh = |kept: &Idle| now.saturating_duration_since(kept.since) <= idle_for_max;
            let at = idle.iter().rposition(|kept| kept.connection.thread == here && fresh(kept))?;
            let mut connection = idle.remove(at).connection;
            *all -= 1;
            if connection.is_reusable(&mut cx) {
                return Some(connection);
            }
        }
    }

    /// Keeps a reusable connection, unless the sandbox stopped since or there are many.
    pub fn put(&self, port: u16, connection: Box<UpstreamConnection>) {
        let mut ports = self.ports();
        // Checked with the lock held, as in `clear`: afterwards no connection of an older epoch is kept.
        if connection.epoch != self.epoch() || connection.permit.is_scarce() {
            return;
        }
        let Ports { by_number, idle: all } = &mut *ports;
        let port = by_number.entry(port).or_default();
        if port.idle.len() >= IDLE_MAX {
            port.idle.remove(0);
        } else if *all >= IDLE_ALL_MAX {
            return;
        } else {
            *all += 1;
        }
        port.idle.push(Idle { connection, since: Instant::now() });
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
        let Ports { by_number, idle: all } = &mut *ports;
        *all = 0;
        for port in by_number.values_mut() {
            port.idle.retain(|kept| kept.since.elapsed() <= IDLE_FOR_MAX);
            *all += port.idle.len();
        }
        if by_number.len() > PORTS_MAX {
            by_number.retain(|_, port| !port.idle.is_empty() || Arc::strong_count(&port.window) > 1);
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
        let counted = pool.ports().by_number.values().map(|port| port.idle.len()).sum();
        assert_eq!(pool.ports().idle, counted);
        counted
    }

    #[tokio::test]
    async fn a_pool_is_bounded_and_smaller_where_sockets_are_scarce() {
        assert_eq!(kept(10_000, 1).await, 50);
        assert_eq!(kept(10_000, 40).await, IDLE_ALL_MAX);
        assert_eq!(kept(20, 40).await, 10);
    }
}
