//! Thaws a frozen sandbox for bytes on an open connection. Does not start one that was stopped: the app that
//! the bytes were for is gone.

use crate::reconcile::{Fleet, PreviewTarget};
use std::io;

/// Thaws the sandbox if it has not stopped since `epoch`, the epoch of the connection that the bytes go on.
/// The lease is taken first, as everywhere: so the sandbox is not put to sleep before the bytes are there.
pub async fn thaw_same_epoch(site: &PreviewTarget, fleet: &Fleet, epoch: u64) -> io::Result<()> {
    let lease = site.lease();
    if !site.is_up() {
        check_epoch(site, epoch)?;
        fleet.thaw(&site.id).await.map_err(io::Error::other)?;
        check_epoch(site, epoch)?;
    }
    drop(lease);
    Ok(())
}

fn check_epoch(site: &PreviewTarget, epoch: u64) -> io::Result<()> {
    if site.connections.epoch() == epoch { Ok(()) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
}
