//! Counters below HTTP: whether a request was delivered, and how much came before the response. Shared by a
//! connection, the stream below it and the body that is sent on it; one task drives them all.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Size of the head of a response, with all interim responses before it.
pub const HEAD_MAX_BYTES: usize = 256 << 10;

/// Whether the app's kernel acknowledged what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Unknown = 0,
    Probing = 1,
    Delivered = 2,
    /// The kernel never had the connection: the queue of the port was full.
    Lost = 3,
}

#[derive(Debug)]
pub struct DeliveryMeter {
    /// Bytes that may come before the head of the response is complete.
    head_left: AtomicUsize,
    /// Frames of request bodies that were sent.
    frames: AtomicUsize,
    delivery: AtomicU8,
}

impl Default for DeliveryMeter {
    fn default() -> Self {
        let (head_left, frames) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        Self { head_left, frames, delivery: AtomicU8::new(Delivery::Unknown as u8) }
    }
}

impl DeliveryMeter {
    /// Called before a request is sent.
    pub(super) fn on_request(&self) {
        self.head_left.store(HEAD_MAX_BYTES, Relaxed);
        self.delivery.store(Delivery::Unknown as u8, Relaxed);
    }

    /// Called with the head of the response: what comes now has no limit.
    pub(super) fn on_response(&self) {
        self.head_left.store(usize::MAX, Relaxed);
    }

    pub(super) fn on_bytes(&self, bytes: usize) {
        let left = self.head_left.load(Relaxed);
        if left != usize::MAX {
            self.head_left.store(left.saturating_sub(bytes), Relaxed);
        }
    }

    /// More bytes came than a head may have.
    pub(super) fn is_head_too_large(&self) -> bool {
        self.head_left.load(Relaxed) == 0
    }

    /// No byte came since the request was sent.
    pub(super) fn has_received_nothing(&self) -> bool {
        self.head_left.load(Relaxed) == HEAD_MAX_BYTES
    }

    pub fn on_body_frame(&self) {
        self.frames.fetch_add(1, Relaxed);
    }

    /// Frames of request bodies that were sent so far.
    pub fn body_frames(&self) -> usize {
        self.frames.load(Relaxed)
    }

    /// Asks for the state of delivery, to be found out when the connection is driven next.
    pub fn probe(&self) {
        self.delivery.store(Delivery::Probing as u8, Relaxed);
    }

    pub fn reset(&self) {
        self.delivery.store(Delivery::Unknown as u8, Relaxed);
    }

    pub fn set(&self, delivery: Delivery) {
        self.delivery.store(delivery as u8, Relaxed);
    }

    pub fn delivery(&self) -> Delivery {
        match self.delivery.load(Relaxed) {
            1 => Delivery::Probing,
            2 => Delivery::Delivered,
            3 => Delivery::Lost,
            _ => Delivery::Unknown,
        }
    }
}
