//! The time limit of a verb on a tree, whose content is hostile.

use crate::{Exchange, FilesError, limits::TREE_MAX_MS};
use std::time::{Duration, Instant};

/// Entries visited between two looks at the clock.
const LOOK_EVERY: u32 = 256;

/// Checked once per entry.
pub struct Deadline {
    at: Instant,
    limit: Duration,
    visited: u32,
}

impl Deadline {
    pub fn of_tree() -> Self {
        Self::within(Duration::from_millis(TREE_MAX_MS))
    }

    pub fn within(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit, visited: 0 }
    }

    /// Leaves out time in which the verb waited for its caller.
    pub fn extend(&mut self, waited: Duration) {
        self.at += waited;
    }

    /// Ends a verb that takes too long, or whose caller is gone.
    pub fn check(&mut self, exchange: &dyn Exchange) -> Result<(), FilesError> {
        self.visited += 1;
        if self.visited.is_multiple_of(LOOK_EVERY) { self.check_now(exchange) } else { Ok(()) }
    }

    /// For steps that take long by themselves.
    pub fn check_now(&self, exchange: &dyn Exchange) -> Result<(), FilesError> {
        if exchange.is_cancelled() {
            return Err(FilesError::Cancelled);
        }
        if Instant::now() < self.at {
            return Ok(());
        }
        let message = format!("the tree took longer than {} s: name a smaller one", self.limit.as_secs());
        Err(FilesError::TimedOut { message })
    }
}
