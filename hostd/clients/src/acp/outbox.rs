//! Where messages to an editor go: into its WebSocket or its stream of server-sent events, or into the responses that a
//! connection by HTTP keeps until they were read.

use super::kept_stream::KeptStream;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A message to an editor.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// The event that it tells of; all messages up to it were sent before.
    pub seq: Option<u64>,
    pub message: Value,
}

/// The editor does not read any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

#[derive(Clone)]
pub enum Outbox {
    Stream(mpsc::Sender<Outgoing>),
    Kept(Arc<KeptStream>),
}

impl Outbox {
    /// Waits for room. Safe to cancel: then the message was not sent.
    pub async fn send(&self, outgoing: Outgoing) -> Result<(), Gone> {
        match self {
            Self::Stream(sender) => sender.send(outgoing).await.map_err(|_| Gone),
            Self::Kept(kept) => kept.push(&outgoing.message).await,
        }
    }

    pub async fn tell(&self, message: Value) -> Result<(), Gone> {
        self.send(Outgoing { seq: None, message }).await
    }
}
