//! Deletes what is kept no longer, again and again, and gives its space back.

use crate::reconcile::Fleet;
use hostd_store::{Clock, HistoryPolicy, Store, StoreError, TrimmedHistory};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The interval between two runs, and the shortest where little history is kept.
const INTERVAL_MAX_MS: u64 = 3_600_000;
const INTERVAL_MIN_MS: u64 = 1_000;
/// Runs in the time that history is kept: it is older than that by this part at most.
const RUNS_PER_KEEP: u64 = 4;

/// Runs until hostd ends.
pub async fn run(
    fleet: &Fleet,
    store: &Store,
    (history, audit_keep_ms): (HistoryPolicy, Option<u64>),
    (clock, closing): (Clock, &CancellationToken),
) {
    let interval_ms = (history.keep_ms / RUNS_PER_KEEP).clamp(INTERVAL_MIN_MS, INTERVAL_MAX_MS);
    loop {
        fleet.remove_expired_snapshots().await;
        if let Err(error) = store.delete_expired(clock.now_ms(), audit_keep_ms).await {
            warn!(%error, "failed to delete expired rows");
        }
        if let Err(error) = trim(fleet, store, history, clock.now_ms()).await {
            warn!(%error, "failed to delete old history");
        }
        tokio::select! {
            // Both futures only wait, so cancelling either is safe.
            () = closing.cancelled() => return,
            () = tokio::time::sleep(Duration::from_millis(interval_ms)) => {}
        }
    }
}

async fn trim(fleet: &Fleet, store: &Store, history: HistoryPolicy, now_ms: u64) -> Result<(), StoreError> {
    // While a driver does not say what is left, no record of a sandbox goes.
    let with_files = fleet.sandboxes_with_leftovers().await;
    let trimmed = store.trim_history(history, with_files.as_ref(), now_ms).await?;
    let freed_pages = store.shrink().await?;
    if trimmed != TrimmedHistory::default() || freed_pages > 0 {
        info!(?trimmed, freed_pages, "old history deleted");
    }
    Ok(())
}
