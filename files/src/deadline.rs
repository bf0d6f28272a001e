//! How long a verb may work on a tree that somebody else made.

use crate::{Exchange, FilesError, limits::TREE_MAX_MS};
use std::time::{Duration, Instant};

/// Entries visited between two looks at the clock.
const LOOK_EVERY: u32 = 256;

/// Checked once per entry.
pub struct Deadline {
    at: Instant,
    visited: u32,
}

impl Deadline {
    pub fn of_tree() -> Self {
        Self { at: Instant::now() + Duration::from_millis(TREE_MAX_MS), visited: 0 }
    }

    /// Ends a verb that takes too long, or whose caller is gone.
    pub fn check(&mut self, exchange: &dyn Exchange) -> Result<(), FilesError> {
        self.visited += 1;
        if !self.visited.is_multiple_of(LOOK_EVERY) {
            return Ok(());
        }
        if exchange.is_cancelled() {
            return Err(FilesError::Cancelled);
        }
        if Instant::now() < self.at {
            return Ok(());
        }
        let message = format!("the tree took longer than {} s: name a smaller one", TREE_MAX_MS / 1000);
        Err(FilesError::TimedOut { message })
    }
}
