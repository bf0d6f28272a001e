//! The write-ahead log is folded into the database beside the writer, so that nobody waits for it. And what was
//! a secret and was overwritten is still in that log, which is only ever written anew from its start: soon
//! after, it is cut off.

use super::{
    error::{Result, StoreError},
    handle::Store,
    journal::fold_beside,
    limits,
    writer::Message,
};
use std::time::Duration;
use tokio::{sync::oneshot, time::sleep};
use tracing::debug;

impl Store {
    /// Keeps the write-ahead log short and free of secrets, as long as the store is open.
    pub async fn keep_log(&self) {
        tokio::join!(self.scrub(), self.fold_much());
    }

    async fn fold_much(&self) {
        loop {
            self.much().notified().await;
            match self.read(fold_beside).await {
                Ok(()) => {}
                Err(StoreError::Closed) => return,
                Err(error) => debug!(%error, "the write-ahead log could not be folded"),
            }
        }
    }

    async fn scrub(&self) {
        const PAUSE: Duration = Duration::from_millis(limits::SCRUB_AFTER_MS);
        loop {
            self.stale().notified().await;
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
        self.read(fold_beside).await?;
        let (reply, answer) = oneshot::channel();
        self.send(Message::Fold(reply)).await?;
        answer.await.unwrap_or(Err(StoreError::Broken))
    }
}
