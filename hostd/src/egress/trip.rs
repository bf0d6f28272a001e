//! One connection or request that was let through: what it moved, whether it may go on, and that it is told when
//! it is over, however that comes about.

use super::{limits, line::Line, passage::Passage};
use crate::core::egress::{Asked, Key, More, Verdict, Why};
use protocol::api::SandboxStatus;
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::OwnedSemaphorePermit, time::sleep};

pub struct Trip {
    passage: Arc<Passage>,
    asked: Asked,
    address: IpAddr,
    key: Key,
    began: Instant,
    up: AtomicU64,
    down: AtomicU64,
    _place: OwnedSemaphorePermit,
}

/// Why a trip is cut off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cut {
    #[error("it is denied now, by {}", .0.rule())]
    Denied(Why),
    #[error("nothing moved for a long time")]
    Idle,
    #[error("the sandbox has used up the bytes it may send and receive")]
    Spent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

impl Trip {
    pub fn new(
        passage: Arc<Passage>,
        asked: Asked,
        address: IpAddr,
        key: Key,
        place: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let began = Instant::now();
        let (up, down) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { passage, asked, address, key, began, up, down, _place: place })
    }

    /// Counts what was read, before it is passed on.
    pub fn moves(&self, way: Way, bytes: usize) -> Result<(), Cut> {
        let bytes = bytes as u64;
        match way {
            Way::Up => self.up.fetch_add(bytes, Ordering::Relaxed),
            Way::Down => self.down.fetch_add(bytes, Ordering::Relaxed),
        };
        if self.passage.spend(bytes) { Ok(()) } else { Err(Cut::Spent) }
    }

    /// The line that it went on is free for the next.
    pub fn keep(&self, line: Box<Line>) {
        self.passage.lines().put(&self.asked, line);
    }

    /// The most that the sandbox may send and receive.
    pub fn max_bytes(&self) -> u64 {
        self.passage.max_bytes()
    }

    /// Returns when it must end.
    pub async fn cut(self: Arc<Self>) -> Cut {
        tokio::select! {
            // Both only wait and look.
            why = self.denied() => Cut::Denied(why),
            () = self.idle() => Cut::Idle,
        }
    }

    async fn denied(&self) -> Why {
        let mut changes = self.passage.changes();
        loop {
            // First: it may have changed since it was let through.
            match self.passage.judge(&self.asked, self.address) {
                Verdict::Denied(why) => return why,
                Verdict::Allowed(_) => {}
            }
            changes.next().await;
        }
    }

    /// While the sandbox is frozen, nothing can move.
    async fn idle(&self) {
        let (mut seen, mut still_ms) = (self.moved(), 0);
        while still_ms < limits::IDLE_MAX_MS {
            sleep(Duration::from_millis(limits::IDLE_LOOK_MS)).await;
            let moved = self.moved();
            let frozen = self.passage.record().state.status == SandboxStatus::Paused;
            still_ms = if moved == seen && !frozen { still_ms + limits::IDLE_LOOK_MS } else { 0 };
            seen = moved;
        }
    }

    fn moved(&self) -> u64 {
        self.up.load(Ordering::Relaxed).wrapping_add(self.down.load(Ordering::Relaxed))
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        let more = More {
            times: 0,
            ended: 1,
            bytes_up: self.up.load(Ordering::Relaxed),
            bytes_down: self.down.load(Ordering::Relaxed),
            duration_ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            address: Some(self.address),
        };
        self.passage.tell(self.key.clone(), more);
    }
}
