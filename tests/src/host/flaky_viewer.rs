//! A viewer of a task on a bad network: it hangs up at any moment, stays away for a while, reads slowly, and
//! comes back after what it has, through any number of hostds.

use super::{Caller, Job, TaskFeed, complete};
use crate::{frames::is_cut, random::Random, sandbox::PATIENCE};
use anyhow::{Context, Result, ensure};
use protocol::api::TaskEventView;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// A sandbox may be frozen until chance lets it go on.
const ALONE_MAX: Duration = PATIENCE.saturating_mul(5);

pub struct FlakyViewer {
    pub caller: Caller,
    pub job: Job,
    pub random: Random,
    pub events: Vec<TaskEventView>,
    /// How often it was connected, and hung up or was cut off.
    pub cuts: usize,
}

impl FlakyViewer {
    pub fn new(caller: &Caller, job: &Job, random: Random) -> Self {
        Self { caller: caller.clone(), job: job.clone(), random, events: Vec::new(), cuts: 0 }
    }

    /// Comes again and again until it is told that there is nothing more; what it saw must be complete.
    pub async fn follow(mut self) -> Result<Self> {
        let mut alone_since = Instant::now();
        loop {
            let before = self.events.len();
            match self.visit().await {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) if is_cut(&error) => sleep(Duration::from_millis(5)).await,
                Err(error) => return Err(error),
            }
            if self.events.len() > before {
                alone_since = Instant::now();
            }
            ensure!(alone_since.elapsed() < ALONE_MAX, "{} stands at {before} events", self.job.path());
        }
        complete(&self.events).with_context(|| self.job.path())?;
        Ok(self)
    }

    /// Whether there is nothing more to see.
    async fn visit(&mut self) -> Result<bool> {
        let seen = self.events.last().map_or(0, |event| event.seq);
        let feed = match self.random.below(2) {
            0 => TaskFeed::open(&self.caller, &self.job, seen).await?,
            _ => TaskFeed::since(&self.caller, &self.job, seen).await?,
        };
        let Some(mut feed) = feed else {
            ensure!(self.has_all(), "told to stop after {} events", self.events.len());
            return Ok(true);
        };
        self.cuts += 1;
        let read = self.read(&mut feed).await;
        // Events received before the stream broke count too.
        self.events.append(&mut feed.events);
        if read? {
            ensure!(self.has_all(), "the stream ended after {} events", self.events.len());
        }
        Ok(false)
    }

    /// Reads until it has enough of it; whether that was the end of the stream.
    async fn read(&mut self, feed: &mut TaskFeed) -> Result<bool> {
        let many = self.random.below(300);
        let slow_ms = if self.random.below(8) == 0 { 1 + self.random.below(10) } else { 0 };
        let stays = Duration::from_millis(1 + self.random.below(400));
        let reading = async {
            for _ in 0..many {
                if slow_ms > 0 {
                    sleep(Duration::from_millis(slow_ms)).await;
                }
                if feed.next().await?.is_none() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // Hanging up in the middle of whatever comes.
        timeout(stays, reading).await.unwrap_or(Ok(false))
    }

    fn has_all(&self) -> bool {
        self.events.last().is_some_and(|last| last.kind == "done")
    }
}
