//! Counters of the edge, for `/metrics`: one set for the process.

use std::sync::atomic::{AtomicU64, Ordering};

pub static REFUSED: AtomicU64 = AtomicU64::new(0);
/// Requests that an app responded to, that were held first, and that got an error page.
pub static SERVED: AtomicU64 = AtomicU64::new(0);
pub static HELD: AtomicU64 = AtomicU64::new(0);
pub static ERROR_PAGES: AtomicU64 = AtomicU64::new(0);
/// Connections that were upgraded.
pub static UPGRADED: AtomicU64 = AtomicU64::new(0);

pub(super) fn count(what: &AtomicU64) {
    what.fetch_add(1, Ordering::Relaxed);
}
