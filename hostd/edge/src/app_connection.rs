//! A raw connection to a port of an app, for callers that bring bytes of their own: the tunnels of the API. It counts
//! as traffic of the sandbox as a preview does, heartbeats excepted; a silent one does not keep the sandbox awake.

use crate::{
    limits, preview_target::PreviewTarget, traffic::PreviewStream, wake::thaw_same_epoch, waker::Waker,
};
use hostd_core::{AppPort, edge::expects_listener};
use hostd_drivers::Stream;
use hostd_store::Clock;
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};
use tokio::time::sleep;

pub struct AppConnection {
    pub stream: Box<dyn Stream>,
    pub activity: AppActivity,
}

/// The part of a connection that the idle policy sees.
pub struct AppActivity {
    target: Arc<PreviewTarget>,
    /// How often the sandbox had stopped when the connection was opened.
    epoch: u64,
    traffic: Mutex<PreviewStream>,
}

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialError {
    /// Nothing listens, and no service is expected to.
    PortClosed,
    /// A service that should listen is still starting.
    Starting,
    /// The dial was not even tried.
    TooMany,
    /// The queue of the port is full, and the app accepts nothing from it.
    TimedOut,
}

impl AppConnection {
    /// Connects to a port of a sandbox that is up; waits a while where a service is expected to listen soon. The
    /// caller holds a lease until this returns.
    pub async fn open(target: Arc<PreviewTarget>, port: AppPort, clock: &Clock) -> Result<Self, DialError> {
        let started = Instant::now();
        let ports = target.record().blueprint.ports.clone();
        // Opened before the dial: the wait for a service is activity too.
        let traffic = Mutex::new(target.traffic.stream());
        loop {
            // Read before the dial: a connection to a sandbox that stopped meanwhile belongs to its old life.
            let epoch = target.connections.epoch();
            let failed = match target.dial(port.get()).await {
                Ok(stream) => {
                    return Ok(Self { stream, activity: AppActivity { target, epoch, traffic } });
                }
                Err(error) => dial_error(&error),
            };
            if failed != DialError::PortClosed {
                return Err(failed);
            }
            let status = target.status().await;
            let now_ms = clock.now_ms();
            // A PID 1 that is late says neither yes nor no.
            if !status.is_none_or(|status| expects_listener(&status, port.get(), &ports, now_ms)) {
                return Err(DialError::PortClosed);
            }
            if started.elapsed() > limits::HOLD_MAX || !target.is_up() {
                return Err(DialError::Starting);
            }
            sleep((started.elapsed() / 8).clamp(limits::TRY_MIN, limits::TRY_MAX)).await;
        }
    }
}

impl AppActivity {
    /// Records bytes in either direction.
    pub fn record_bytes(&self, bytes: usize) {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner).record_bytes(bytes);
    }

    /// Thaws a sandbox that dozed off, for bytes that are about to be sent; an error where it stopped meanwhile.
    pub async fn thaw(&self, waker: &dyn Waker) -> io::Result<()> {
        thaw_same_epoch(&self.target, waker, self.epoch).await
    }
}

fn dial_error(error: &io::Error) -> DialError {
    if error.kind() == io::ErrorKind::ResourceBusy {
        DialError::TooMany
    } else if error.kind() == io::ErrorKind::TimedOut {
        DialError::TimedOut
    } else {
        DialError::PortClosed
    }
}
