//! Idle connections to one runtimed, cleared when the sandbox stops; and leases on the sandbox.

use bytes::Bytes;
use hostd_net::http1::{Http1Pool, PoolLimits, WhenFull};
use http_body_util::combinators::BoxBody;
use hyper::client::conn::http1::SendRequest;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Idle connections kept for one sandbox. runtimed closes a silent connection after ten seconds; ours are dropped before
/// that.
const LIMITS: PoolLimits = PoolLimits {
    per_key_max: usize::MAX,
    all_max: 4,
    when_full: WhenFull::Refuse,
    idle_max: Duration::from_secs(8),
};

/// The body of a request.
pub type Body = BoxBody<Bytes, Infallible>;
pub(super) type Sender = SendRequest<Body>;

/// Cheap to clone.
#[derive(Clone)]
pub struct ControlPool {
    /// All connections go to the same runtimed.
    connections: Arc<Mutex<Http1Pool<(), Sender>>>,
    leases: Arc<AtomicUsize>,
    /// Leases ever taken.
    taken: Arc<AtomicUsize>,
}

/// Keeps the sandbox from being put to sleep.
pub struct Lease(Arc<AtomicUsize>);

impl Lease {
    pub fn take(pool: &ControlPool) -> Self {
        pool.leases.fetch_add(1, Ordering::SeqCst);
        pool.taken.fetch_add(1, Ordering::SeqCst);
        Self(pool.leases.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Default for ControlPool {
    fn default() -> Self {
        let connections = Arc::new(Mutex::new(Http1Pool::new(LIMITS)));
        Self { connections, leases: Arc::default(), taken: Arc::default() }
    }
}

impl ControlPool {
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Whether any lease is held.
    pub fn in_use(&self) -> bool {
        self.leases.load(Ordering::SeqCst) > 0
    }

    /// Grows with every lease.
    pub fn leases_taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// Returns the connection used last that is still usable.
    pub(super) fn take(&self) -> Option<Sender> {
        self.lock().take(&(), Instant::now(), LIMITS.idle_max, |_| true)
    }

    pub(super) fn put(&self, sender: Sender) {
        let now = Instant::now();
        let mut connections = self.lock();
        connections.prune(now);
        connections.put(&(), now, sender);
    }

    fn lock(&self) -> MutexGuard<'_, Http1Pool<(), Sender>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
