//! An admitted connection or request: counts its bytes, says when it must be cut, and records its end when it
//! is dropped.

use super::{
    limits, metrics::EgressMetrics, sandbox_egress::SandboxEgress, server_connection::ServerConnection,
};
use hostd_core::egress::{Decision, Denial, Destination, EventCounts, EventKey};
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

/// Why a connection is cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CutReason {
    #[error("denied now, by {}", .0.rule())]
    Denied(Denial),
    #[error("idle for too long")]
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

    /// Counts bytes that were read, before they are written.
    pub fn count(&self, direction: Direction, bytes: usize) -> Result<(), CutReason> {
        let bytes = bytes as u64;
        match direction {
            Direction::Up => self.bytes_up.fetch_add(bytes, Ordering::Relaxed),
            Direction::Down => self.bytes_down.fetch_add(bytes, Ordering::Relaxed),
        };
        if self.sandbox_egress.count_bytes(direction, bytes) { Ok(()) } else { Err(CutReason::QuotaExceeded) }
    }

    /// Returns the connection of a finished request to the pool.
    pub fn return_to_pool(&self, connection: Box<ServerConnection>) {
        self.sandbox_egress.pool().put(&self.destination, connection);
    }

    pub fn metrics(&self) -> &EgressMetrics {
        self.sandbox_egress.metrics()
    }

    /// The byte quota of the sandbox.
    pub fn max_bytes(&self) -> u64 {
        self.sandbox_egress.max_bytes()
    }

    /// Returns when the connection must be cut.
    pub async fn until_cut(self: Arc<Self>) -> CutReason {
        tokio::select! {
            // Cancelling either arm loses nothing: both only wait and check.
            denial = self.until_denied() => CutReason::Denied(denial),
            () = self.until_idle() => CutReason::Idle,
        }
    }

    async fn until_denied(&self) -> Denial {
        let mut changes = self.sandbox_egress.rule_changes();
        loop {
            // Checked before waiting: the rules may have changed since the request was admitted.
            match self.sandbox_egress.decide(&self.destination, self.address) {
                Decision::Denied(denial) => return denial,
                Decision::Allowed(_) => {}
            }
            changes.next().await;
        }
    }

    /// Returns when no byte has moved for too long. Time does not count while the sandbox is frozen.
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
