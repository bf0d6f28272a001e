//! Idle connections to one runtimed, cleared when the sandbox stops; and leases on the sandbox.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::client::conn::http1::SendRequest;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Idle connections kept for one sandbox.
const IDLE_MAX: usize = 4;
/// runtimed closes a silent connection after ten seconds; ours are dropped before that.
const IDLE_MAX_MS: u128 = 8_000;

/// The body of a request.
pub type Body = BoxBody<Bytes, Infallible>;
pub(super) type Sender = SendRequest<Body>;

#[derive(Clone, Default)]
pub struct ControlPool {
    idle: Arc<Mutex<Vec<(Sender, Instant)>>>,
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

impl ControlPool {
    pub fn clear(&self) {
        self.idle.lock().expect("no panic while held").clear();
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
        let mut idle = self.idle.lock().expect("no panic while held");
        while let Some((sender, since)) = idle.pop() {
            if sender.is_ready() && since.elapsed().as_millis() < IDLE_MAX_MS {
                return Some(sender);
            }
        }
        None
    }

    pub(super) fn put(&self, sender: Sender) {
        let mut idle = self.idle.lock().expect("no panic while held");
        idle.retain(|(other, since)| !other.is_closed() && since.elapsed().as_millis() < IDLE_MAX_MS);
        if idle.len() < IDLE_MAX {
            idle.push((sender, Instant::now()));
        }
    }
}
