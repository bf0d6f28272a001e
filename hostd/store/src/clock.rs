//! Wall-clock time, read once at the start and then advanced by the monotonic clock: setting the wall clock
//! cannot make a deadline pass.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    start_ms: u64,
}

impl Clock {
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }

    pub fn now_ms(&self) -> u64 {
        let run_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.start_ms.saturating_add(run_ms)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}
