//! A sandbox, until no operation is in progress. Its events are opened before it is looked at, so that no change is
//! missed between the two.

use super::follower::{Progress, Reopening, Step};
use crate::{
    ApiClient,
    mcp::{address::Address, call::Call, limits, lines::Lines, tools::sandbox_result},
};
use hyper::{
    Method,
    header::{ACCEPT, HeaderValue},
};
use protocol::api::{EventView, SandboxId, SandboxStatus, SandboxView};
use std::time::Duration;
use tokio::time::timeout;

const LOOK_EVERY: Duration = Duration::from_millis(limits::LOOK_EVERY_MS);

pub struct SandboxFollower {
    call: Call,
    path: String,
    /// The number of the last event.
    position: u64,
    events: Option<Lines>,
    /// Whether the sandbox may have changed since it was looked at.
    changed: bool,
    reopening: Reopening,
}

impl SandboxFollower {
    pub fn new(call: Call, sandbox: SandboxId, position: u64) -> Self {
        let path = format!("/v1/sandboxes/{sandbox}");
        Self { call, path, position, events: None, changed: true, reopening: Reopening::default() }
    }

    pub async fn next(&mut self) -> Step {
        loop {
            let step = match &mut self.events {
                None => self.open().await,
                Some(_) if self.changed => self.look().await,
                // What is shown of a sandbox may be behind its events for a moment: it is looked at again. Nothing of
                // an event is lost by the timeout, the lines keep what they have read.
                Some(lines) => match timeout(LOOK_EVERY, lines.next_event()).await {
                    Ok(Ok(data)) => self.read(&data),
                    Err(_) => {
                        self.changed = true;
                        None
                    }
                    Ok(Err(_)) => {
                        self.events = None;
                        self.reopening.after_cut().await
                    }
                },
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    async fn open(&mut self) -> Option<Step> {
        let address = Address::new(format!("{}/events", self.path)).query("kind", "sandbox.");
        let address = address.query("since", &self.position.to_string()).build();
        let mut request = ApiClient::request(Method::GET, &address);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        match self.call.api.send(request).await {
            Ok(response) => {
                self.events = Some(Lines::new(response.into_body()));
                self.changed = true;
                None
            }
            Err(failure) => self.reopening.after(failure).await,
        }
    }

    async fn look(&mut self) -> Option<Step> {
        match self.call.api.get::<SandboxView>(&self.path).await {
            Ok(sandbox) => {
                self.changed = false;
                let settled = sandbox.phase.is_none() && sandbox.status != SandboxStatus::Creating;
                settled.then(|| Step::Done(Box::new(sandbox_result(&sandbox))))
            }
            Err(failure) => self.reopening.after(failure).await,
        }
    }

    fn read(&mut self, data: &[u8]) -> Option<Step> {
        let event = serde_json::from_slice::<EventView>(data).ok()?;
        self.reopening.reset();
        self.position = event.seq;
        self.changed = true;
        self.call.progress.as_ref()?;
        let detail = event.data.get("text").and_then(|text| text.as_str());
        let name = event.kind.trim_start_matches("sandbox.");
        let message = detail.map_or_else(|| name.to_owned(), |detail| format!("{name}: {detail}"));
        Some(Step::Progress(Progress { position: self.position, message, meta: None }))
    }
}
