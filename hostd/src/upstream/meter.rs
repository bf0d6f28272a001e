//! What HTTP does not tell of a line. Shared by the line, the stream below it and the body that is sent on it;
//! one task drives them all.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// The head of an answer, and all that is said before it.
pub const HEAD_MAX_BYTES: usize = 256 << 10;

/// Whether the app's end took what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    Unknown = 0,
    Asked = 1,
    Heard = 2,
    /// It never had the connection: its queue was full.
    Deaf = 3,
}

#[derive(Debug)]
pub struct Meter {
    /// Bytes that may come before the head of the answer is whole.
    head_left: AtomicUsize,
    /// Of the body of the request.
    frames: AtomicUsize,
    hearing: AtomicU8,
}

impl Default for Meter {
    fn default() -> Self {
        let (head_left, frames) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Self { head_left, frames, hearing: AtomicU8::new(Hearing::Unknown as u8) }
    }
}

impl Meter {
    /// A request is sent.
    pub(super) fn begin(&self) {
        self.head_left.store(HEAD_MAX_BYTES, Relaxed);
        self.hearing.store(Hearing::Unknown as u8, Relaxed);
    }

    /// The head of its answer is there: what comes now has no limit.
    pub(super) fn answered(&self) {
        self.head_left.store(usize::MAX, Relaxed);
    }

    pub(super) fn came(&self, bytes: usize) {
        let left = self.head_left.load(Relaxed);
        if left != usize::MAX {
            self.head_left.store(left.saturating_sub(bytes), Relaxed);
        }
    }

    /// More came than a head may have.
    pub(super) fn is_used_up(&self) -> bool {
        self.head_left.load(Relaxed) == 0
    }

    /// Nothing came since the request was sent.
    pub(super) fn is_silent(&self) -> bool {
        self.head_left.load(Relaxed) == HEAD_MAX_BYTES
    }

    pub fn sent_frame(&self) {
        self.frames.fetch_add(1, Relaxed);
    }

    /// Pieces of bodies that went so far.
    pub fn frames(&self) -> usize {
        self.frames.load(Relaxed)
    }

    /// To be found out when the line is driven next.
    pub fn ask(&self) {
        self.hearing.store(Hearing::Asked as u8, Relaxed);
    }

    pub fn forget(&self) {
        self.hearing.store(Hearing::Unknown as u8, Relaxed);
    }

    pub fn tell(&self, hearing: Hearing) {
        self.hearing.store(hearing as u8, Relaxed);
    }

    pub fn hearing(&self) -> Hearing {
        match self.hearing.load(Relaxed) {
            1 => Hearing::Asked,
            2 => Hearing::Heard,
            3 => Hearing::Deaf,
            _ => Hearing::Unknown,
        }
    }
}
