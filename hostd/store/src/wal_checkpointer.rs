//! Background checkpoints of the WAL, so that the writer does not wait for them. Overwritten secrets stay in
//! the WAL until it is truncated, since SQLite only reuses it from its start; so it is truncated soon after a
//! secret was overwritten.

use super::{
    error::{Result, StoreError},
    handle::Store,
    limits,
    wal::checkpoint_passive,
    writer::WriterMessage,
};
use std::time::Duration;
use tokio::{sync::oneshot, time::sleep};
use tracing::debug;

impl Store {
    /// Keeps the WAL short and free of overwritten secrets while the store is open.
    pub async fn maintain_wal(&self) {
        tokio::join!(self.scrub(), self.checkpoint_when_grown());
    }

    async fn checkpoint_when_grown(&self) {
        loop {
            self.wal_grown().notified().await;
            match self.read(checkpoint_passive).await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => debug!(%error, "failed to checkpoint the WAL"),
            }
        }
    }

    async fn scrub(&self) {
        const PAUSE: Duration = Duration::from_millis(limits::WAL_TRUNCATE_AFTER_MS);
        loop {
            self.secrets_overwritten().notified().await;
            // A single truncation serves all secrets of this interval.
            sleep(PAUSE).await;
            loop {
                match self.truncate_wal().await {
                    Ok(true) => break,
                    Ok(false) => debug!("WAL truncation deferred: a reader holds it, or the disk is full"),
                    Err(StoreError::Closed) => return,
                    Err(error) => debug!(%error, "failed to truncate the WAL"),
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Checkpoints and truncates the WAL. Returns whether it was done: readers are not waited for.
    async fn truncate_wal(&self) -> Result<bool> {
        // The long part runs on a reader connection; the writer only truncates.
        self.read(checkpoint_passive).await?;
        let (sender, reply) = oneshot::channel();
        self.send(WriterMessage::TruncateWal(sender)).await?;
        reply.await.unwrap_or(Err(StoreError::Broken))
    }
}
