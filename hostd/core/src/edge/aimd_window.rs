//! How many requests a port may have without a response: additive increase, multiplicative decrease. Dev servers
//! have short queues and few threads: a request that does not fit in the queue is lost silently.
//!
//! ```text
//!  INITIAL ── delivered: one more ──▶ half of where it last overflowed ── a round delivered: one more ──▶ MAX
//!    ▲                                                                                                    │
//!    └──────────────────────────────────── undelivered: half ─────────────────────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

pub const INITIAL: usize = 4;
pub const MAX: usize = 128;
/// Losses within this time count as one overflow.
const SAME_OVERFLOW: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct AimdWindow {
    size: usize,
    /// From this size on the window grows by one per round.
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
    /// Called when a request reached the app; returns by how many the window grew.
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

    /// Called when a request did not reach the app; returns by how many the window shrank.
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
    #[expect(
        clippy::disallowed_methods,
        reason = "an arbitrary start: there is no other way to make an `Instant`"
    )]
    fn the_window_grows_fast_until_a_loss_and_slowly_from_there() {
        let (mut window, started) = (AimdWindow::default(), Instant::now());
        let grown: usize = (0..500).map(|_| window.on_delivered()).sum();
        assert_eq!((grown, window.size, window.is_full()), (MAX - INITIAL, MAX, true));
        assert_eq!(window.on_undelivered(started), MAX / 2);
        assert_eq!(window.on_undelivered(started + SAME_OVERFLOW / 2), 0, "the same overflow");
        let grown: usize = (0..MAX / 2).map(|_| window.on_delivered()).sum();
        assert_eq!(grown, 1, "a whole round");
        for round in 1..10 {
            window.on_undelivered(started + SAME_OVERFLOW * round);
        }
        assert_eq!(window.size, INITIAL, "never fewer");
        assert_eq!(window.on_undelivered(started + SAME_OVERFLOW * 20), 0);
    }
}
