//! Copies runtimed's events into the store, each once, for as long as the sandbox runs.

use super::{
    actor::SandboxActor,
    fleet::Inner,
    sse_parser::{EventTooLong, SseParser},
};
use hostd_core::limits;
use hostd_drivers::control::{Control, ControlError, request};
use hostd_store::StoreError;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, body::Incoming, header::ACCEPT};
use protocol::{Cursor, ErrorCode, Event, api::SandboxId};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// The pause after a broken connection: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    EventTooLong(#[from] EventTooLong),
    #[error("the stream of events broke")]
    Broken(#[source] hyper::Error),
    #[error("the stream of events ended")]
    Ended,
}

struct EventFollower {
    sandbox: SandboxId,
    fleet: Arc<Inner>,
    control: Control,
    cursor: Cursor,
}

impl SandboxActor {
    /// Follows the events until the run ends.
    pub(super) fn follow(&mut self) {
        if self.connections.follower.is_some() {
            return;
        }
        let record = self.record();
        let (fleet, control) = (self.fleet.clone(), self.connections.control.clone());
        let follower = EventFollower { sandbox: record.id, fleet, control, cursor: record.followed };
        let until = self.stop().child_token();
        self.fleet.tasks.spawn(follower.run(until.clone()));
        self.connections.follower = Some(until.drop_guard());
    }
}

impl EventFollower {
    async fn run(mut self, until: CancellationToken) {
        // Safe to cut off: events that were not written are requested again, by cursor.
        tokio::select! {
            () = until.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        let mut pause = RETRY_MIN;
        loop {
            let before = self.cursor;
            match self.read().await {
                Ok(never) => match never {},
                Err(FollowError::Control(ControlError::Refused(body)))
                    if body.error.code == ErrorCode::HistoryGone =>
                {
                    self.skip(body.error.detail.oldest.as_deref()).await;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    debug!(sandbox = %self.sandbox, error, "stream of events broke; following again");
                }
            }
            pause = if self.cursor == before { (pause * 2).min(RETRY_MAX) } else { RETRY_MIN };
            sleep(pause).await;
        }
    }

    /// Reads until the connection breaks.
    async fn read(&mut self) -> Result<std::convert::Infallible, FollowError> {
        let path = match self.cursor {
            cursor if cursor == Cursor::default() => "/v1/events?follow=1".to_owned(),
            cursor => format!("/v1/events?follow=1&after={cursor}"),
        };
        let request = request(&Method::GET, &path)
            .header(ACCEPT, "text/event-stream")
            .body(Empty::new().boxed())
            .map_err(|error| ControlError::Malformed(error.to_string()))?;
        let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
        let mut body = self.control.stream(request, within).await?.into_body();
        let mut events = SseParser::default();
        loop {
            events.push(&piece(&mut body).await?);
            self.take(&mut events).await?;
        }
    }

    /// Writes every whole event that was received, in batches.
    async fn take(&mut self, events: &mut SseParser) -> Result<(), FollowError> {
        let mut batch = Vec::new();
        while let Some(data) = events.next()? {
            match serde_json::from_str::<Event>(&data) {
                Ok(event) => batch.push(event),
                Err(error) => {
                    warn!(sandbox = %self.sandbox, %error, "dropped an unreadable event");
                }
            }
            if batch.len() == limits::EVENTS_BATCH {
                self.write(std::mem::take(&mut batch)).await?;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.write(batch).await }
    }

    async fn write(&mut self, batch: Vec<Event>) -> Result<(), FollowError> {
        self.cursor = self.fleet.store.append_events(&self.sandbox, batch).await?;
        Ok(())
    }

    /// Skips history that runtimed trimmed before hostd read it, and records the gap.
    async fn skip(&mut self, oldest: Option<&str>) {
        let oldest: Cursor = oldest.and_then(|text| text.parse().ok()).unwrap_or_default();
        let data =
            json!({"after": self.cursor, "oldest": oldest, "reason": "trimmed before it was taken over"});
        let now_ms = self.fleet.clock.now_ms();
        if let Err(error) = self.fleet.store.record_event(&self.sandbox, "gap", data, now_ms).await {
            warn!(sandbox = %self.sandbox, %error, "failed to record a gap in the events");
            return;
        }
        self.cursor = Cursor { seq: oldest.seq.saturating_sub(1), ..oldest };
    }
}

/// Returns the next bytes. Frames without data are skipped.
async fn piece(body: &mut Incoming) -> Result<bytes::Bytes, FollowError> {
    loop {
        let frame = body.frame().await.ok_or(FollowError::Ended)?.map_err(FollowError::Broken)?;
        if let Ok(data) = frame.into_data() {
            return Ok(data);
        }
    }
}
