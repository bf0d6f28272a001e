//! When an answer has been silent for too long.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// How long nothing came while somebody waited for it.
pub struct Silence {
    idle: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    pub fn new(idle: Duration) -> Self {
        Self { idle, since: None, timer: None }
    }

    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Something came.
    pub fn broken(&mut self) {
        self.since = None;
    }

    /// Ready when it was too long. The timer is not set anew for every piece: it looks again when it rings.
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
