//! What a launch tells of itself while it takes long: shown, written down now and then, and taken as a sign
//! that it is worth waiting for.

use super::{FleetError, owner::Owner};
use crate::{core::Move, driver::Progress, limits};
use protocol::tame::one_line;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};
use tracing::warn;

type Text = Option<Arc<str>>;

/// What one attempt told.
pub(super) struct Telling {
    attempt: u32,
    /// When it began to.
    since_ms: u64,
    /// How many of its words were written down, and the last of them.
    noted: u32,
    last: Text,
    next: Instant,
    heard: Option<watch::Receiver<Text>>,
}

/// A place among those that start at once.
pub(super) type Turn = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl Owner {
    /// What the driver is given to talk to. Whoever waits for something far away does not keep others from
    /// starting: the first word gives the turn away.
    pub(super) fn listen(&mut self, turn: Turn) -> Progress {
        let (say, heard) = watch::channel::<Text>(None);
        let (attempt, now_ms) = (self.record().attempt, self.fleet.clock.now_ms());
        // Tries of one attempt share its bounds.
        let before = self.telling.take().filter(|telling| telling.attempt == attempt);
        let fresh =
            Telling { attempt, since_ms: now_ms, noted: 0, last: None, next: Instant::now(), heard: None };
        self.telling = Some(Telling { heard: Some(heard), ..before.unwrap_or(fresh) });
        Progress::to(move |text| {
            drop(turn.lock().ok().and_then(|mut turn| turn.take()));
            say.send_replace(Some(one_line(text, limits::PROGRESS_MAX_CHARS).into()));
        })
    }

    /// The launch is over: nothing is being told any more.
    pub(super) fn stop_listening(&mut self) {
        if let Some(telling) = &mut self.telling {
            telling.heard = None;
        }
        self.show(None);
    }

    pub(super) async fn take_down(&mut self) {
        let every = self.fleet.timing.progress_every();
        let Some(telling) = &mut self.telling else { return };
        let Some(text) = telling.heard.as_mut().and_then(|heard| heard.borrow_and_update().clone()) else {
            return;
        };
        telling.next = Instant::now() + every;
        // What is said again is a sign of life, and no news.
        let news = telling.last.as_ref() != Some(&text) && telling.noted < limits::PROGRESS_EVENTS_MAX;
        telling.noted += u32::from(news);
        telling.last = Some(text.clone());
        let since_ms = telling.since_ms;
        if let Err(error) = self.write_progress(&text, news, since_ms).await {
            warn!(sandbox = %self.id(), %error, "could not write down what a launch told");
        }
        self.show(Some(text));
    }

    async fn write_progress(&mut self, text: &str, news: bool, since_ms: u64) -> Result<(), FleetError> {
        let (id, now_ms) = (self.id(), self.fleet.clock.now_ms());
        if news {
            self.fleet.store.note(&id, "sandbox.progress", json!({ "text": text }), now_ms).await?;
        }
        let Some(effort) = self.record().state.effort.clone() else { return Ok(()) };
        let timing = &self.fleet.timing;
        let wanted_ms = (now_ms + timing.up_ms).min(since_ms + timing.progress_max_ms);
        // Not with every word: each is an event.
        let soon = effort.deadline_ms < now_ms + timing.up_ms / 2;
        if soon && wanted_ms > effort.deadline_ms {
            self.change(Move::Extend { deadline_ms: wanted_ms }).await?;
        }
        Ok(())
    }
}

/// Returns when there is something to take down. Nothing is lost when this is cut off.
pub(super) async fn heard(telling: &mut Option<Telling>) {
    if let Some(Telling { heard: Some(heard), next, .. }) = telling {
        sleep_until(*next).await;
        if heard.changed().await.is_ok() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
