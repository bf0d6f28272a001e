//! Removes images that are not used any more: at the start of hostd, and from time to time.

use crate::api::ImageBackend;
use hostd_drivers::UnusedFor;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

const COLLECT_EVERY: Duration = Duration::from_secs(6 * 60 * 60);
const DAY_MS: u64 = 86_400_000;

/// Collects for as long as it is polled. With 0 days, only layers go that no image has.
pub async fn collect_periodically(images: ImageBackend, keep_days: u64) {
    let ms = if keep_days == 0 { u64::MAX } else { keep_days.saturating_mul(DAY_MS) };
    let mut ticks = interval(COLLECT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match images.collect(UnusedFor { ms }).await {
            Ok(found) if found.layers == 0 && found.images.is_empty() => {}
            Ok(found) => {
                info!(images = ?found.images, layers = found.layers, bytes = found.bytes, "unused images removed");
            }
            Err(error) => warn!(%error, "failed to remove unused images"),
        }
    }
}
