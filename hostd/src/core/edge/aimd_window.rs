//! How many requests a port may have without an answer. Dev servers have short queues and few threads: what
//! does not fit in the queue is lost without a word.
//!
//! ```text
//!  INITIAL ── delivered: one more ──▶ half of where it last overflowed ── a round delivered: one more ──▶ MAX
//!    ▲                                                                                           │
//!    └───────────────────────────── unheard: half ───────────────────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

pub const INITIAL: usize = 4;
pub const MAX: usize = 128;
/// What overflows at once is one mistake.
const SAME_OVERFLOW: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct AimdWindow {
    size: usize,
    /// From here on it grows slowly.
    linear_from: usize,
    delivered: usize,
    shrunk_at: Option<Instant>,
}

impl Default for AimdWindow {
    fn default() -> Self {
        Self { size: INITIAL, linear_from: MAX, delivered: 0, shrunk_at: None }
    }
}

impl AimdWindow {
    /// A request reached the app. How many more there may be.
    pub fn on_delivered(&mut self) -> usize {
        self.delivered += 1;
        let round = if self.size < self.linear_from { 1 } else { self.size };
        if self.size >= MAX || self.delivered < round {
            return 0;
        }
        self.delivered = 0;
        self.size += 1;
        1
    }

    /// One did not reach it. How many fewer there may be.
    pub fn on_undelivered(&mut self, now: Instant) -> usize {
        if self.shrunk_at.is_some_and(|at| now.saturating_duration_since(at) < SAME_OVERFLOW) {
            return 0;
        }
        let size = (self.size / 2).max(INITIAL);
        let fewer = self.size - size;
        *self = Self { size, linear_from: size, delivered: 0, shrunk_at: Some(now) };
        fewer
    }

    pub fn is_full(&self) -> bool {
        self.size >= MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_quickly_until_something_is_lost_and_slowly_from_there() {
        let (mut window, begun) = (AimdWindow::default(), Instant::now());
        let grown: usize = (0..500).map(|_| window.on_delivered()).sum();
        assert_eq!((grown, window.size, window.is_full()), (MAX - INITIAL, MAX, true));
        assert_eq!(window.on_undelivered(begun), MAX / 2);
        assert_eq!(window.on_undelivered(begun + SAME_OVERFLOW / 2), 0, "the same mistake");
        let grown: usize = (0..MAX / 2).map(|_| window.on_delivered()).sum();
        assert_eq!(grown, 1, "a whole round");
        for round in 1..10 {
            window.on_undelivered(begun + SAME_OVERFLOW * round);
        }
        assert_eq!(window.size, INITIAL, "never fewer");
        assert_eq!(window.on_undelivered(begun + SAME_OVERFLOW * 20), 0);
    }
}
