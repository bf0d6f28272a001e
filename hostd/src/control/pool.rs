//! Idle connections to one runtimed, emptied when the sandbox stops; and who is using it.

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
/// runtimed closes a silent connection after ten seconds; ours are given up before that.
const IDLE_MAX_MS: u128 = 8_000;

/// The body of a request.
pub type Body = BoxBody<Bytes, Infallible>;
pub(super) type Sender = SendRequest<Body>;

#[derive(Clone, Default)]
pub struct ControlPool {
    idle: Arc<Mutex<Vec<(Sender, Instant)>>>,
    leases: Arc<AtomicUsize>,
    /// How many were ever taken.
    taken: Arc<AtomicUsize>,
}

/// Somebody is using the sandbox: it is not put to sleep meanwhile.
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

    /// Whether somebody is using the sandbox.
    pub fn in_use(&self) -> bool {
        self.leases.load(Ordering::SeqCst) > 0
    }

    /// Grows with every lease.
    pub fn leases_taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    /// The connection used last that is still good.
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
