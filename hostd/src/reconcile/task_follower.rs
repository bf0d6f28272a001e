//! The events of one task, from its runtimed into the store: what comes while a commit is under way is
//! gathered and goes with the next one, so the commits grow with the stream and an idle one waits for none.

use super::task_runner::{CALL_TIMEOUT, TaskError, TaskRunner};
use crate::{
    control::{Control, ControlError, request},
    core::{TaskEnding, TaskLine, TaskUpdate},
    limits,
    store::TaskRecord,
};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Empty};
use hyper::{Method, body::Incoming};
use protocol::{ErrorCode, TaskPhase, TaskView};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;
use tracing::warn;

/// How long runtimed may say nothing at all.
const SILENCE_MAX: Duration = Duration::from_secs(60);

impl TaskRunner {
    /// Until its end, or until the connection breaks; whether it has ended.
    pub(super) async fn follow(&self, mut task: TaskRecord) -> Result<bool, TaskError> {
        let (_, control) = self.fleet.control(&self.sandbox).await?;
        if self.should_end(&task) {
            self.cancel(&task, &control).await?;
        }
        let body = match stream(&control, &task).await {
            Ok(body) => body,
            Err(ControlError::Refused(refused)) if refused.error.code == ErrorCode::HistoryGone => {
                return self.skip(&task, refused.error.detail.oldest.as_deref()).await;
            }
            // A runtimed that lost its own records.
            Err(ControlError::Refused(refused)) if refused.error.code == ErrorCode::NotFound => {
                return self.conclude(TaskEnding::Lost).await;
            }
            // It ended before the last event that is known here, which a loss of power can bring about.
            Err(ControlError::Refused(refused)) if refused.error.code == ErrorCode::InvalidRequest => {
                return self.fetch_ending(&task, &control).await;
            }
            Err(error) => return Err(error.into()),
        };
        let before = task.followed;
        let mut lines =
            TaskLineReader { body, buffer: BytesMut::new(), last: task.followed, ended: None, warned: false };
        loop {
            tokio::select! {
                // What was read is in the buffer; the wish to end it is in the store.
                more = lines.more() => match more {
                    // It has ended, and how cannot be read from here.
                    Err(TaskError::BadDone) => return self.fetch_ending(&task, &control).await,
                    Err(TaskError::Ended) if task.followed == before => {
                        return self.fetch_ending(&task, &control).await;
                    }
                    more => more?,
                },
                () = self.wakeup.notified() => {
                    task.cancelling = true;
                    self.cancel(&task, &control).await?;
                }
            }
            while let Some(batch) = lines.take()? {
                task = self.write(batch, &mut lines).await?;
                if task.done_seq.is_some() {
                    return Ok(true);
                }
            }
        }
    }

    /// Writes some events, and reads on meanwhile.
    async fn write(&self, batch: Vec<TaskLine>, lines: &mut TaskLineReader) -> Result<TaskRecord, TaskError> {
        // Whether or not there is room to write that down.
        if batch.iter().any(shows_task_started) {
            self.on_task_started();
        }
        if batch.iter().any(|line| matches!(line.update, TaskUpdate::Done(_))) {
            self.settle_models().await?;
        }
        let mut written = pin!(self.fleet.store().append_task(self.number, batch));
        loop {
            tokio::select! {
                task = &mut written => return Ok(task?),
                // Bytes are in the buffer or not read at all.
                () = lines.gather(), if lines.has_room() => {}
            }
        }
    }

    /// runtimed has no more events of it, and none of them was `done`.
    async fn fetch_ending(&self, task: &TaskRecord, control: &Control) -> Result<bool, TaskError> {
        let view: TaskView = control.get(&format!("/v1/tasks/{}", task.id), CALL_TIMEOUT).await?;
        match view.result {
            Some(result) if result.status.is_final() => {
                self.conclude(TaskEnding::Reported(Box::new(result))).await
            }
            _ if view.status.is_final() => self.conclude(TaskEnding::Lost).await,
            _ => Err(TaskError::StillRunning),
        }
    }

    /// History was trimmed before it was taken over: said in its place, and left behind.
    async fn skip(&self, task: &TaskRecord, oldest: Option<&str>) -> Result<bool, TaskError> {
        let oldest: u64 = oldest.and_then(|text| text.parse().ok()).unwrap_or_default();
        let lost = oldest.saturating_sub(task.followed + 1);
        if lost == 0 {
            return Err(TaskError::Ended);
        }
        let gap = TaskLine::gap(oldest - 1, self.fleet.clock().now_ms(), lost);
        let task = self.fleet.store().append_task(self.number, vec![gap]).await?;
        Ok(task.done_seq.is_some())
    }
}

/// The first event of a task only says that it waits.
fn shows_task_started(line: &TaskLine) -> bool {
    let begins = matches!(line.update, TaskUpdate::Phase(phase) if phase != TaskPhase::Queued);
    begins || line.number > 1
}

async fn stream(control: &Control, task: &TaskRecord) -> Result<Incoming, ControlError> {
    let path = format!("/v1/tasks/{}/events?follow=1&after={}", task.id, task.followed);
    let request = request(&Method::GET, &path)
        .body(Empty::new().boxed())
        .map_err(|error| ControlError::Malformed(error.to_string()))?;
    Ok(control.stream(request, CALL_TIMEOUT).await?.into_body())
}

/// Lines out of a body.
struct TaskLineReader {
    body: Incoming,
    buffer: BytesMut,
    /// The last event that was taken.
    last: u64,
    /// Why nothing more comes.
    ended: Option<TaskError>,
    warned: bool,
}

impl TaskLineReader {
    fn has_room(&self) -> bool {
        self.ended.is_none() && self.buffer.len() < limits::TASK_GATHER_MAX_BYTES
    }

    /// Waits until something came.
    async fn more(&mut self) -> Result<(), TaskError> {
        let before = self.buffer.len();
        while self.buffer.len() == before {
            if let Some(ended) = self.ended.take() {
                return Err(ended);
            }
            self.gather().await;
        }
        Ok(())
    }

    async fn gather(&mut self) {
        // runtimed says something now and then, if only that it is there.
        let Ok(frame) = timeout(SILENCE_MAX, self.body.frame()).await else {
            self.ended = Some(TaskError::Ended);
            return;
        };
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.buffer.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => self.ended = Some(TaskError::Broken(error)),
            None => self.ended = Some(TaskError::Ended),
        }
    }

    /// The events that are there as a whole; `None` if there is none.
    fn take(&mut self) -> Result<Option<Vec<TaskLine>>, TaskError> {
        let Some(end) = memchr::memrchr(b'\n', &self.buffer) else {
            return if self.buffer.len() > limits::TASK_LINE_MAX_BYTES {
                Err(TaskError::TooLong)
            } else {
                Ok(None)
            };
        };
        let whole = self.buffer.split_to(end + 1).freeze();
        let mut lines = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &whole) {
            let line = whole.slice(start..end);
            start = end + 1;
            lines.extend(self.parse(&line));
        }
        Ok(Some(lines).filter(|lines| !lines.is_empty()))
    }

    fn parse(&mut self, line: &Bytes) -> Option<TaskLine> {
        // An empty one only says that somebody is there.
        if line.is_empty() {
            return None;
        }
        match TaskLine::parse(line) {
            Ok(line) if line.number > self.last => {
                self.last = line.number;
                Some(line)
            }
            Ok(_) => None,
            Err(error) => {
                // Said once: there may be any number of them.
                if !std::mem::replace(&mut self.warned, true) {
                    warn!(%error, "an event of a task was left out");
                }
                if memchr::memmem::find(line, b"\"type\":\"done\"").is_some() {
                    self.ended = Some(TaskError::BadDone);
                }
                None
            }
        }
    }
}
