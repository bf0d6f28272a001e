//! Bytes for an app that is frozen thaw it. They do not start what was stopped: the app they were for is gone.

use crate::reconcile::{Fleet, PreviewTarget};
use std::io;

/// `epoch` is that of the line on which they go. The lease is taken first, as everywhere: then it is not put to
/// sleep before the bytes are there.
pub async fn rouse(site: &PreviewTarget, fleet: &Fleet, epoch: u64) -> io::Result<()> {
    let lease = site.lease();
    if !site.is_up() {
        same_life(site, epoch)?;
        fleet.thaw(&site.id).await.map_err(io::Error::other)?;
        same_life(site, epoch)?;
    }
    drop(lease);
    Ok(())
}

fn same_life(site: &PreviewTarget, epoch: u64) -> io::Result<()> {
    if site.lines.epoch() == epoch { Ok(()) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
}
