//! How many sockets to apps there may be, over all sandboxes.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Debug)]
pub struct Sockets {
    most: usize,
    open: AtomicUsize,
}

/// One of them.
#[derive(Debug)]
pub struct Place {
    of: &'static Sockets,
}

impl Sockets {
    pub fn new(most: usize) -> Self {
        Self { most, open: AtomicUsize::new(0) }
    }

    /// If there is one left.
    pub fn take(&'static self) -> Option<Place> {
        let before = self.open.fetch_add(1, Relaxed);
        let place = Place { of: self };
        (before < self.most).then_some(place)
    }
}

impl Place {
    /// Whether so many are taken that none should be kept for later.
    pub fn is_scarce(&self) -> bool {
        self.of.open.load(Relaxed) > self.of.most / 2
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_what_is_given_back_can_be_taken_again() {
        let sockets: &'static Sockets = Box::leak(Box::new(Sockets::new(4)));
        let mut places: Vec<Place> = std::iter::from_fn(|| sockets.take()).collect();
        assert_eq!(places.len(), 4);
        assert!(places[0].is_scarce() && sockets.take().is_none());
        places.truncate(2);
        assert!(!places[0].is_scarce() && sockets.take().is_some());
    }
}
