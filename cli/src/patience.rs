//! How long to go on asking a hostd that does not answer: it may only be restarting.

use crate::{client::ClientError, failure::eprint_line, limits};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Says something to the person without disturbing what else is on the screen.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

pub struct Patience {
    /// How long to try; for ever when absent.
    bound: Option<Duration>,
    first: Duration,
    most: Duration,
    since: Option<Instant>,
    delay: Duration,
    told: bool,
    tell: Tell,
}

impl Patience {
    pub fn new() -> Self {
        Self::with(Some(limits::PATIENCE), limits::RETRY_MOST, Arc::new(eprint_line))
    }

    /// Goes on until an answer is final: for followers, who can do nothing better than wait.
    pub fn endless(tell: Tell) -> Self {
        Self::with(None, limits::FEED_RETRY_MOST, tell)
    }

    fn with(bound: Option<Duration>, most: Duration, tell: Tell) -> Self {
        let first = limits::RETRY_FIRST;
        Self { bound, first, most, since: None, delay: first, told: false, tell }
    }

    /// hostd answered: the next trouble is a new one.
    pub fn renew(&mut self) {
        self.since = None;
        self.delay = self.first;
        self.told = false;
    }

    /// hostd said how long to wait before a reconnect.
    pub fn asked(&mut self, pause: Duration) {
        self.first = pause.min(limits::FEED_RETRY_ASKED_MOST);
        if self.since.is_none() {
            self.delay = self.first;
        }
    }

    /// Waits before the next try; gives the error back when another try is pointless or it was tried long
    /// enough.
    pub async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let tried = now.duration_since(since);
        if !error.passes() || self.bound.is_some_and(|bound| tried > bound) {
            return Err(error);
        }
        if !self.told && tried > limits::SILENCE_TOLD_AFTER {
            self.told = true;
            (self.tell)(&format!("slipway: connection lost, trying again: {error}"));
        }
        sleep(jittered(self.delay, random())).await;
        self.delay = (self.delay * 2).clamp(self.first, self.most.max(self.first));
        Ok(())
    }
}

/// Never less than the delay, and at most half as much again: those who were cut off together come back apart.
fn jittered(delay: Duration, random: u32) -> Duration {
    delay + delay.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

fn random() -> u32 {
    // Without random numbers everybody comes back at once, which is no reason to fail.
    getrandom::u32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_adds_at_most_half() {
        let delay = Duration::from_secs(2);
        assert_eq!(jittered(delay, 0), delay);
        assert_eq!(jittered(delay, u32::MAX), Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_follower_never_gives_up_but_on_a_final_answer() {
        let mut endless = Patience::endless(Arc::new(|_| {}));
        for _ in 0..1_000 {
            assert!(endless.wait(ClientError::Early).await.is_ok());
        }
        assert!(endless.wait(ClientError::Strange("?".to_owned())).await.is_err());
        let mut bounded = Patience::new();
        let mut tries = 0;
        while bounded.wait(ClientError::Early).await.is_ok() {
            tries += 1;
        }
        assert!((100..1_000).contains(&tries), "{tries}");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_the_pause_is_what_hostd_asked_for() {
        let told = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&told);
        let mut patience = Patience::endless(Arc::new(move |_| {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }));
        patience.asked(Duration::from_secs(3));
        let start = Instant::now();
        assert!(patience.wait(ClientError::Early).await.is_ok());
        let waited = start.elapsed();
        assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(5), "{waited:?}");
        for _ in 0..9 {
            assert!(patience.wait(ClientError::Early).await.is_ok());
        }
        assert_eq!(told.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}
