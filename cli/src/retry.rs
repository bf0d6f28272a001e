//! Retries with exponential backoff and jitter, for a hostd that may be restarting.

use crate::{client::ClientError, failure::eprint_line, limits};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Prints a notice without disturbing other output.
pub type Notify = Arc<dyn Fn(&str) + Send + Sync>;

pub struct Retry {
    /// Absent: never gives up.
    give_up_after: Option<Duration>,
    initial_delay: Duration,
    max_delay: Duration,
    since: Option<Instant>,
    delay: Duration,
    notified: bool,
    notify: Notify,
}

impl Retry {
    pub fn new() -> Self {
        Self::with(Some(limits::RETRY_GIVE_UP_AFTER), limits::RETRY_DELAY_MAX, Arc::new(eprint_line))
    }

    /// Retries until a permanent error; for event streams.
    pub fn unlimited(notify: Notify) -> Self {
        Self::with(None, limits::EVENT_RETRY_DELAY_MAX, notify)
    }

    fn with(give_up_after: Option<Duration>, max_delay: Duration, notify: Notify) -> Self {
        let initial_delay = limits::RETRY_DELAY_INITIAL;
        Self {
            give_up_after,
            initial_delay,
            max_delay,
            since: None,
            delay: initial_delay,
            notified: false,
            notify,
        }
    }

    /// Resets the backoff after a success.
    pub fn reset(&mut self) {
        self.since = None;
        self.delay = self.initial_delay;
        self.notified = false;
    }

    /// Sets the reconnect delay that hostd requested.
    pub fn set_server_delay(&mut self, pause: Duration) {
        self.initial_delay = pause.min(limits::EVENT_RETRY_SERVER_DELAY_MAX);
        if self.since.is_none() {
            self.delay = self.initial_delay;
        }
    }

    /// Waits before the next attempt; returns the error when it is permanent or the time limit is reached.
    pub async fn backoff(&mut self, error: ClientError) -> Result<(), ClientError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let elapsed = now.duration_since(since);
        if !error.is_transient() || self.give_up_after.is_some_and(|give_up_after| elapsed > give_up_after) {
            return Err(error);
        }
        if !self.notified && elapsed > limits::RETRY_NOTIFY_AFTER {
            self.notified = true;
            (self.notify)(&format!("slipway: connection lost, trying again: {error}"));
        }
        sleep(jittered(self.delay, random())).await;
        self.delay = (self.delay * 2).clamp(self.initial_delay, self.max_delay.max(self.initial_delay));
        Ok(())
    }
}

/// Adds up to half of the delay, so that clients which lost their connection together do not reconnect together.
fn jittered(delay: Duration, random: u32) -> Duration {
    delay + delay.mul_f64(f64::from(random) / f64::from(u32::MAX) / 2.0)
}

fn random() -> u32 {
    // Without random numbers only the jitter is lost.
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
        let mut unlimited = Retry::unlimited(Arc::new(|_| {}));
        for _ in 0..1_000 {
            assert!(unlimited.backoff(ClientError::Incomplete).await.is_ok());
        }
        assert!(unlimited.backoff(ClientError::UnexpectedResponse("?".to_owned())).await.is_err());
        let mut bounded = Retry::new();
        let mut tries = 0;
        while bounded.backoff(ClientError::Incomplete).await.is_ok() {
            tries += 1;
        }
        assert!((100..1_000).contains(&tries), "{tries}");
    }

    #[tokio::test(start_paused = true)]
    async fn trouble_is_told_once_and_the_pause_is_what_hostd_asked_for() {
        let notified = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = Arc::clone(&notified);
        let mut retry = Retry::unlimited(Arc::new(move |_| {
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }));
        retry.set_server_delay(Duration::from_secs(3));
        let start = Instant::now();
        assert!(retry.backoff(ClientError::Incomplete).await.is_ok());
        let waited = start.elapsed();
        assert!(waited >= Duration::from_secs(3) && waited < Duration::from_secs(5), "{waited:?}");
        for _ in 0..9 {
            assert!(retry.backoff(ClientError::Incomplete).await.is_ok());
        }
        assert_eq!(notified.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}
