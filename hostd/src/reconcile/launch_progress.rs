//! The progress that a long launch reports: published, recorded now and then, and a reason to extend the deadline.

use super::{FleetError, actor::SandboxActor};
use hostd_core::{Transition, limits};
use hostd_drivers::ProgressSink;
use protocol::sanitize::one_line;
use serde_json::json;
use std::sync::{Arc, Mutex};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until},
};
use tracing::warn;

type Text = Option<Arc<str>>;

/// The progress of one attempt.
pub(super) struct LaunchProgress {
    attempt: u32,
    since_ms: u64,
    /// How many texts became events, and the newest text.
    recorded: u32,
    last: Text,
    /// The earliest time at which the next text is recorded.
    next: Instant,
    /// The reports of the launch under way.
    updates: Option<watch::Receiver<Text>>,
}

/// The permit of a launch, shared with the sink that releases it.
pub(super) type LaunchPermit = Arc<Mutex<Option<OwnedSemaphorePermit>>>;

impl SandboxActor {
    /// The sink for the reports of a launch. The first report releases the permit: a launch that waits for something
    /// far away does not keep others from starting.
    pub(super) fn progress_sink(&mut self, permit: LaunchPermit) -> ProgressSink {
        let (sender, updates) = watch::channel::<Text>(None);
        let (attempt, now_ms) = (self.record().attempt, self.fleet.clock.now_ms());
        // Launches of one attempt share its bounds.
        let before = self.launch_progress.take().filter(|progress| progress.attempt == attempt);
        let fresh = LaunchProgress {
            attempt,
            since_ms: now_ms,
            recorded: 0,
            last: None,
            next: Instant::now(),
            updates: None,
        };
        self.launch_progress = Some(LaunchProgress { updates: Some(updates), ..before.unwrap_or(fresh) });
        ProgressSink::new(move |text| {
            drop(permit.lock().ok().and_then(|mut permit| permit.take()));
            sender.send_replace(Some(one_line(text, limits::PROGRESS_MAX_CHARS).into()));
        })
    }

    /// The launch is over: no progress is shown any more.
    pub(super) fn stop_progress(&mut self) {
        if let Some(progress) = &mut self.launch_progress {
            progress.updates = None;
        }
        self.publisher.put_progress(None);
    }

    pub(super) async fn record_progress(&mut self) {
        let every = self.fleet.timing.progress_every();
        let Some(progress) = &mut self.launch_progress else { return };
        let Some(text) = progress.updates.as_mut().and_then(|updates| updates.borrow_and_update().clone())
        else {
            return;
        };
        progress.next = Instant::now() + every;
        // A repeated text is a sign of life, and no event.
        let is_news =
            progress.last.as_ref() != Some(&text) && progress.recorded < limits::PROGRESS_EVENTS_MAX;
        progress.recorded += u32::from(is_news);
        progress.last = Some(text.clone());
        let since_ms = progress.since_ms;
        if let Err(error) = self.write_progress(&text, is_news, since_ms).await {
            warn!(sandbox = %self.id(), %error, "failed to record the progress of a launch");
        }
        self.publisher.put_progress(Some(text));
    }

    async fn write_progress(&mut self, text: &str, is_news: bool, since_ms: u64) -> Result<(), FleetError> {
        let (id, now_ms) = (self.id(), self.fleet.clock.now_ms());
        if is_news {
            self.fleet.store.record_event(&id, "sandbox.progress", json!({ "text": text }), now_ms).await?;
        }
        let Some(operation) = self.record().state.operation.clone() else { return Ok(()) };
        let timing = &self.fleet.timing;
        let wanted_ms = (now_ms + timing.up_ms).min(since_ms + timing.progress_max_ms);
        // Not with every text: each extension is an event.
        let soon = operation.deadline_ms < now_ms + timing.up_ms / 2;
        if soon && wanted_ms > operation.deadline_ms {
            self.transition(Transition::Extend { deadline_ms: wanted_ms }).await?;
        }
        Ok(())
    }
}

/// Returns when there is progress to record. Cutting this off loses nothing.
pub(super) async fn progress_changed(progress: &mut Option<LaunchProgress>) {
    if let Some(LaunchProgress { updates: Some(updates), next, .. }) = progress {
        sleep_until(*next).await;
        if updates.changed().await.is_ok() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
