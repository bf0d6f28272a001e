//! One connection or request that was let through: what it moved, whether it may go on, and that it is told when
//! it is over, however that comes about.

use super::{limits, sandbox_egress::SandboxEgress, server_connection::ServerConnection};
use crate::core::egress::{Decision, Denial, Destination, EventCounts, EventKey};
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

pub struct TrackedConnection {
    sandbox_egress: Arc<SandboxEgress>,
    destination: Destination,
    address: IpAddr,
    key: EventKey,
    started: Instant,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
    _permit: OwnedSemaphorePermit,
}

/// Why a trip is cut off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutReason {
    #[error("it is denied now, by {}", .0.rule())]
    Denied(Denial),
    #[error("nothing moved for a long time")]
    Idle,
    #[error("the sandbox has used up the bytes it may send and receive")]
    QuotaExceeded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

impl TrackedConnection {
    pub fn new(
        sandbox_egress: Arc<SandboxEgress>,
        destination: Destination,
        address: IpAddr,
        key: EventKey,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let started = Instant::now();
        let (bytes_up, bytes_down) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self {
            sandbox_egress,
            destination,
            address,
            key,
            started,
            bytes_up,
            bytes_down,
            _permit: permit,
        })
    }

    /// Counts what was read, before it is passed on.
    pub fn count(&self, direction: Direction, bytes: usize) -> Result<(), CutReason> {
        let bytes = bytes as u64;
        match direction {
            Direction::Up => self.bytes_up.fetch_add(bytes, Ordering::Relaxed),
            Direction::Down => self.bytes_down.fetch_add(bytes, Ordering::Relaxed),
        };
        if self.sandbox_egress.count_bytes(bytes) { Ok(()) } else { Err(CutReason::QuotaExceeded) }
    }

    /// The line that it went on is free for the next.
    pub fn return_to_pool(&self, connection: Box<ServerConnection>) {
        self.sandbox_egress.pool().put(&self.destination, connection);
    }

    /// The most that the sandbox may send and receive.
    pub fn max_bytes(&self) -> u64 {
        self.sandbox_egress.max_bytes()
    }

    /// Returns when it must end.
    pub async fn until_cut(self: Arc<Self>) -> CutReason {
        tokio::select! {
            // Both only wait and look.
            denial = self.until_denied() => CutReason::Denied(denial),
            () = self.until_idle() => CutReason::Idle,
        }
    }

    async fn until_denied(&self) -> Denial {
        let mut changes = self.sandbox_egress.rule_changes();
        loop {
            // First: it may have changed since it was let through.
            match self.sandbox_egress.decide(&self.destination, self.address) {
                Decision::Denied(denial) => return denial,
                Decision::Allowed(_) => {}
            }
            changes.next().await;
        }
    }

    /// While the sandbox is frozen, nothing can move.
    async fn until_idle(&self) {
        let (mut before, mut still_ms) = (self.total_bytes(), 0);
        while still_ms < limits::IDLE_MAX_MS {
            sleep(Duration::from_millis(limits::IDLE_CHECK_MS)).await;
            let total = self.total_bytes();
            let frozen = self.sandbox_egress.record().state.status == SandboxStatus::Paused;
            still_ms = if total == before && !frozen { still_ms + limits::IDLE_CHECK_MS } else { 0 };
            before = total;
        }
    }

    fn total_bytes(&self) -> u64 {
        self.bytes_up.load(Ordering::Relaxed).wrapping_add(self.bytes_down.load(Ordering::Relaxed))
    }
}

impl Drop for TrackedConnection {
    fn drop(&mut self) {
        let counts = EventCounts {
            times: 0,
            ended: 1,
            bytes_up: self.bytes_up.load(Ordering::Relaxed),
            bytes_down: self.bytes_down.load(Ordering::Relaxed),
            duration_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            address: Some(self.address),
        };
        self.sandbox_egress.record_event(self.key.clone(), counts);
    }
}
