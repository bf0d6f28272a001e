//! How many requests a port may have without an answer. Dev servers have short queues and few threads: what
//! does not fit in the queue is lost without a word.
//!
//! ```text
//!  FIRST ── heard: one more ──▶ half of where it last overflowed ── a round heard: one more ──▶ MOST
//!    ▲                                                                                           │
//!    └───────────────────────────── unheard: half ───────────────────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

pub const FIRST: usize = 4;
pub const MOST: usize = 128;
/// What overflows at once is one mistake.
const CALM: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Window {
    size: usize,
    /// From here on it grows slowly.
    wary_from: usize,
    heard: usize,
    shrunk: Option<Instant>,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: FIRST, wary_from: MOST, heard: 0, shrunk: None }
    }
}

impl Window {
    /// A request reached the app. How many more there may be.
    pub fn heard(&mut self) -> usize {
        self.heard += 1;
        let round = if self.size < self.wary_from { 1 } else { self.size };
        if self.size >= MOST || self.heard < round {
            return 0;
        }
        self.heard = 0;
        self.size += 1;
        1
    }

    /// One did not reach it. How many fewer there may be.
    pub fn unheard(&mut self, now: Instant) -> usize {
        if self.shrunk.is_some_and(|at| now.saturating_duration_since(at) < CALM) {
            return 0;
        }
        let size = (self.size / 2).max(FIRST);
        let fewer = self.size - size;
        *self = Self { size, wary_from: size, heard: 0, shrunk: Some(now) };
        fewer
    }

    pub fn is_full(&self) -> bool {
        self.size >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_quickly_until_something_is_lost_and_slowly_from_there() {
        let (mut window, begun) = (Window::default(), Instant::now());
        let grown: usize = (0..500).map(|_| window.heard()).sum();
        assert_eq!((grown, window.size, window.is_full()), (MOST - FIRST, MOST, true));
        assert_eq!(window.unheard(begun), MOST / 2);
        assert_eq!(window.unheard(begun + CALM / 2), 0, "the same mistake");
        let grown: usize = (0..MOST / 2).map(|_| window.heard()).sum();
        assert_eq!(grown, 1, "a whole round");
        for round in 1..10 {
            window.unheard(begun + CALM * round);
        }
        assert_eq!(window.size, FIRST, "never fewer");
        assert_eq!(window.unheard(begun + CALM * 20), 0);
    }
}
