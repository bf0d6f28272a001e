//! A task and its events, to its result.

use super::{
    follower::{Progress, Reopening, Step},
    task_text::event_text,
};
use crate::{
    ApiClient,
    mcp::{call::Call, lines::Lines, tools::task_result},
};
use hyper::{
    Method, StatusCode,
    header::{ACCEPT, HeaderValue},
};
use protocol::{
    TaskId,
    api::{SandboxId, TaskAnswer, TaskEventView},
};

const DONE: &str = "done";

pub struct TaskFollower {
    call: Call,
    path: String,
    /// The number of the last event.
    position: u64,
    events: Events,
    reopening: Reopening,
}

enum Events {
    Closed,
    Open(Lines),
    Ended,
}

impl TaskFollower {
    pub fn new(call: Call, sandbox: SandboxId, task: &TaskId, position: u64) -> Self {
        let path = format!("/v1/sandboxes/{sandbox}/tasks/{task}");
        Self { call, path, position, events: Events::Closed, reopening: Reopening::default() }
    }

    pub async fn next(&mut self) -> Step {
        loop {
            let step = match &mut self.events {
                Events::Closed => self.open().await,
                Events::Ended => self.result().await,
                Events::Open(lines) => match lines.next_event().await {
                    Ok(data) => self.read(&data),
                    Err(_) => {
                        self.events = Events::Closed;
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
        let mut request = ApiClient::request(Method::GET, &format!("{}/events", self.path));
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if self.position > 0 {
            headers.insert("last-event-id", HeaderValue::from(self.position));
        }
        match self.call.api.send(request).await {
            Ok(response) if response.status() == StatusCode::NO_CONTENT => self.events = Events::Ended,
            Ok(response) => self.events = Events::Open(Lines::new(response.into_body())),
            Err(failure) => return self.reopening.after(failure).await,
        }
        None
    }

    fn read(&mut self, data: &[u8]) -> Option<Step> {
        let event = serde_json::from_slice::<TaskEventView>(data).ok()?;
        self.reopening.reset();
        self.position = event.seq;
        if event.kind == DONE {
            self.events = Events::Ended;
            return None;
        }
        let message = event_text(&event)?;
        self.call.progress.as_ref()?;
        Some(Step::Progress(Progress { position: self.position, message, meta: None }))
    }

    async fn result(&mut self) -> Option<Step> {
        match self.call.api.get::<TaskAnswer>(&self.path).await {
            Ok(task) => Some(Step::Done(Box::new(task_result(&task)))),
            Err(failure) => self.reopening.after(failure).await,
        }
    }
}
