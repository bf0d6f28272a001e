//! Limits the sockets to apps, over all sandboxes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug)]
pub struct SocketLimit {
    max: usize,
    open: AtomicUsize,
}

/// The permit of one socket.
#[derive(Debug)]
pub struct SocketPermit {
    limit: &'static SocketLimit,
}

impl SocketLimit {
    pub fn new(max: usize) -> Self {
        Self { max, open: AtomicUsize::new(0) }
    }

    /// Takes a permit, if there is one left.
    pub fn acquire(&'static self) -> Option<SocketPermit> {
        let before = self.open.fetch_add(1, Relaxed);
        let permit = SocketPermit { limit: self };
        (before < self.max).then_some(permit)
    }
}

impl SocketPermit {
    /// Whether so many sockets are open that none should be kept idle.
    pub fn is_scarce(&self) -> bool {
        self.limit.open.load(Relaxed) > self.limit.max / 2
    }
}

impl Drop for SocketPermit {
    fn drop(&mut self) {
        self.limit.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_what_is_given_back_can_be_taken_again() {
        let sockets: &'static SocketLimit = Box::leak(Box::new(SocketLimit::new(4)));
        let mut permits: Vec<SocketPermit> = std::iter::from_fn(|| sockets.acquire()).collect();
        assert_eq!(permits.len(), 4);
        assert!(permits[0].is_scarce() && sockets.acquire().is_none());
        permits.truncate(2);
        assert!(!permits[0].is_scarce() && sockets.acquire().is_some());
    }
}
