//! Detects a response that has sent nothing for too long.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Measures how long no piece came while the agent waited for one.
pub struct IdleTimeout {
    idle: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimeout {
    pub fn new(idle: Duration) -> Self {
        Self { idle, since: None, timer: None }
    }

    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Starts over: a piece came.
    pub fn reset(&mut self) {
        self.since = None;
    }

    /// Ready when the timeout has passed. The timer is not reset for every piece, but checks when it fires.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.idle)));
        loop {
            ready!(timer.as_mut().poll(cx));
            let until = since + self.idle;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(until);
        }
    }
}
