//! Thaws a frozen sandbox for bytes on an open connection. Does not start one that was stopped: the app that
//! the bytes were for is gone.

use crate::{preview_target::PreviewTarget, waker::Waker};
use std::io;

/// Thaws the sandbox if it has not stopped since `epoch`, the epoch of the connection that the bytes go on.
/// The lease is taken first, as everywhere: so the sandbox is not put to sleep before the bytes are there.
pub async fn thaw_same_epoch(target: &PreviewTarget, waker: &dyn Waker, epoch: u64) -> io::Result<()> {
    let lease = target.lease();
    if !target.is_up() {
        check_epoch(target, epoch)?;
        waker.thaw(&target.id).await.map_err(io::Error::other)?;
        check_epoch(target, epoch)?;
    }
    drop(lease);
    Ok(())
}

fn check_epoch(target: &PreviewTarget, epoch: u64) -> io::Result<()> {
    if target.connections.epoch() == epoch { Ok(()) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
}
