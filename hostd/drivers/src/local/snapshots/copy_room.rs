//! Asks, while a tree is copied, whether there is room for more of it.

use super::super::super::DriverError;
use std::{fmt, io, sync::Arc};

/// What is copied before it is asked again.
const ASKED_EVERY_BYTES: u64 = 16 << 20;
const ASKED_EVERY_ENTRIES: u64 = 10_000;

/// The question: may a copy go on, after so many bytes? It is asked on a thread that may block.
type Check = dyn Fn(u64) -> Result<(), DriverError> + Send + Sync;

/// The room for a copy; without end by default.
#[derive(Clone, Default)]
pub struct CopyRoom {
    check: Option<Arc<Check>>,
}

/// What was copied of a tree.
#[derive(Debug, Default)]
pub struct CopyMeter {
    bytes: u64,
    asked_at_bytes: u64,
    entries_since: u64,
}

impl CopyRoom {
    pub fn checked_by(check: impl Fn(u64) -> Result<(), DriverError> + Send + Sync + 'static) -> Self {
        Self { check: Some(Arc::new(check)) }
    }
}

impl fmt::Debug for CopyRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CopyRoom").field("has_end", &self.check.is_some()).finish()
    }
}

impl CopyMeter {
    pub fn add_entry(&mut self, room: &CopyRoom) -> io::Result<()> {
        self.entries_since += 1;
        self.ask_if_due(room)
    }

    pub fn add_bytes(&mut self, bytes: u64, room: &CopyRoom) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.ask_if_due(room)
    }

    fn ask_if_due(&mut self, room: &CopyRoom) -> io::Result<()> {
        let is_due = self.entries_since >= ASKED_EVERY_ENTRIES
            || self.bytes - self.asked_at_bytes >= ASKED_EVERY_BYTES;
        let Some(check) = room.check.as_ref().filter(|_| is_due) else { return Ok(()) };
        (self.asked_at_bytes, self.entries_since) = (self.bytes, 0);
        check(self.bytes).map_err(io::Error::other)
    }
}
