//! What a launch tells of itself while it takes long: shown, written down now and then, and taken as a sign
//! that it is worth waiting for.

use super::{FleetError, actor::SandboxActor};
use crate::{core::Transition, driver::ProgressSink, limits};
use protocol::sanitize::one_line;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};
use tracing::warn;

type Text = Option<Arc<str>>;

/// What one attempt told.
pub(super) struct LaunchProgress {
    attempt: u32,
    /// When it began to.
    since_ms: u64,
    /// How many of its words were written down, and the last of them.
    noted: u32,
    last: Text,
    next: Instant,
    updates: Option<watch::Receiver<Text>>,
}

/// A place among those that start at once.
pub(super) type LaunchPermit = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl SandboxActor {
    /// What the driver is given to talk to. Whoever waits for something far away does not keep others from
    /// starting: the first word gives the turn away.
    pub(super) fn progress_sink(&mut self, permit: LaunchPermit) -> ProgressSink {
        let (say, updates) = watch::channel::<Text>(None);
        let (attempt, now_ms) = (self.record().attempt, self.fleet.clock.now_ms());
        // Tries of one attempt share its bounds.
        let before = self.launch_progress.take().filter(|launch_progress| launch_progress.attempt == attempt);
        let fresh = LaunchProgress {
            attempt,
            since_ms: now_ms,
            noted: 0,
            last: None,
            next: Instant::now(),
            updates: None,
        };
        self.launch_progress = Some(LaunchProgress { updates: Some(updates), ..before.unwrap_or(fresh) });
        ProgressSink::new(move |text| {
            drop(permit.lock().ok().and_then(|mut permit| permit.take()));
            say.send_replace(Some(one_line(text, limits::PROGRESS_MAX_CHARS).into()));
        })
    }

    /// The launch is over: nothing is being told any more.
    pub(super) fn stop_progress(&mut self) {
        if let Some(launch_progress) = &mut self.launch_progress {
            launch_progress.updates = None;
        }
        self.publish_progress(None);
    }

    pub(super) async fn record_progress(&mut self) {
        let every = self.fleet.timing.progress_every();
        let Some(launch_progress) = &mut self.launch_progress else { return };
        let Some(text) =
            launch_progress.updates.as_mut().and_then(|updates| updates.borrow_and_update().clone())
        else {
            return;
        };
        launch_progress.next = Instant::now() + every;
        // What is said again is a sign of life, and no news.
        let news = launch_progress.last.as_ref() != Some(&text)
            && launch_progress.noted < limits::PROGRESS_EVENTS_MAX;
        launch_progress.noted += u32::from(news);
        launch_progress.last = Some(text.clone());
        let since_ms = launch_progress.since_ms;
        if let Err(error) = self.write_progress(&text, news, since_ms).await {
            warn!(sandbox = %self.id(), %error, "could not write down what a launch told");
        }
        self.publish_progress(Some(text));
    }

    async fn write_progress(&mut self, text: &str, news: bool, since_ms: u64) -> Result<(), FleetError> {
        let (id, now_ms) = (self.id(), self.fleet.clock.now_ms());
        if news {
            self.fleet.store.record_event(&id, "sandbox.progress", json!({ "text": text }), now_ms).await?;
        }
        let Some(operation) = self.record().state.operation.clone() else { return Ok(()) };
        let timing = &self.fleet.timing;
        let wanted_ms = (now_ms + timing.up_ms).min(since_ms + timing.progress_max_ms);
        // Not with every word: each is an event.
        let soon = operation.deadline_ms < now_ms + timing.up_ms / 2;
        if soon && wanted_ms > operation.deadline_ms {
            self.transition(Transition::Extend { deadline_ms: wanted_ms }).await?;
        }
        Ok(())
    }
}

/// Returns when there is something to take down. Nothing is lost when this is cut off.
pub(super) async fn progress_changed(launch_progress: &mut Option<LaunchProgress>) {
    if let Some(LaunchProgress { updates: Some(updates), next, .. }) = launch_progress {
        sleep_until(*next).await;
        if updates.changed().await.is_ok() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
