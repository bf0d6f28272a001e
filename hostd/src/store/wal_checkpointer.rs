//! The write-ahead log is folded into the database beside the writer, so that nobody waits for it. And what was
//! a secret and was overwritten is still in that log, which is only ever written anew from its start: soon
//! after, it is cut off.

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
    /// Keeps the write-ahead log short and free of secrets, as long as the store is open.
    pub async fn maintain_wal(&self) {
        tokio::join!(self.scrub(), self.checkpoint_when_grown());
    }

    async fn checkpoint_when_grown(&self) {
        loop {
            self.wal_grown().notified().await;
            match self.read(checkpoint_passive).await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => debug!(%error, "the write-ahead log could not be folded"),
            }
        }
    }

    async fn scrub(&self) {
        const PAUSE: Duration = Duration::from_millis(limits::WAL_TRUNCATE_AFTER_MS);
        loop {
            self.secrets_overwritten().notified().await;
            // Many that come together are done at once.
            sleep(PAUSE).await;
            loop {
                match self.fold().await {
                    Ok(true) => break,
                    Ok(false) => debug!("the log is being read, or the disk is low; it is cut off later"),
                    Err(StoreError::Closed) => return,
                    Err(error) => debug!(%error, "the write-ahead log could not be cut off"),
                }
                sleep(PAUSE).await;
            }
        }
    }

    /// Whether it was done: nobody waits for readers.
    async fn fold(&self) -> Result<bool> {
        // What takes long is done here; the writer only has the rest.
        self.read(checkpoint_passive).await?;
        let (sender, reply) = oneshot::channel();
        self.send(WriterMessage::TruncateWal(sender)).await?;
        reply.await.unwrap_or(Err(StoreError::Broken))
    }
}
