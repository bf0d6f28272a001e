//! How long to go on asking a hostd that does not answer: it may only be restarting.

use crate::{client::ClientError, failure::eprint_line, limits};
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub struct Patience {
    since: Option<Instant>,
    delay: Duration,
    told: bool,
}

impl Patience {
    pub fn new() -> Self {
        Self { since: None, delay: limits::RETRY_FIRST, told: false }
    }

    /// hostd answered: the next trouble is a new one.
    pub fn renew(&mut self) {
        *self = Self::new();
    }

    /// Waits before the next try; gives the error back when another try is pointless or it was tried long
    /// enough.
    pub async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if !error.passes() || now.duration_since(since) > limits::PATIENCE {
            return Err(error);
        }
        if !self.told && now.duration_since(since) > limits::SILENCE_TOLD_AFTER {
            self.told = true;
            eprint_line(&format!("slipway: {error}; waiting for it"));
        }
        sleep(self.delay).await;
        self.delay = (self.delay * 2).min(limits::RETRY_MOST);
        Ok(())
    }
}
