//! Copies the events of one task from runtimed into the store. Events that come while a commit is under way go with
//! the next one, so commits grow with the load and a single event waits for none.

use super::task_runner::{CALL_TIMEOUT, TaskError, TaskRunner};
use bytes::{Bytes, BytesMut};
use hostd_core::{TaskEnding, TaskLine, TaskUpdate, limits};
use hostd_drivers::control::{Control, ControlError, request};
use hostd_store::TaskRecord;
use http_body_util::{BodyExt, Empty};
use hyper::{Method, body::Incoming};
use protocol::{ErrorCode, TaskPhase, TaskView};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;
use tracing::warn;

/// The longest silence of runtimed, which sends empty lines as a sign of life.
const SILENCE_MAX: Duration = Duration::from_secs(60);

impl TaskRunner {
    /// Follows until the task ends or the connection breaks. Returns whether the task has ended.
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
            // runtimed lost its own records.
            Err(ControlError::Refused(refused)) if refused.error.code == ErrorCode::NotFound => {
                return self.conclude(TaskEnding::Lost).await;
            }
            // runtimed's log ends before the last event that hostd has, as it can after a loss of power.
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
                // Safe to cut off: bytes that were read are in the buffer, and a cancellation is in the store.
                more = lines.more() => match more {
                    // The task has ended with an event that cannot be read.
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
                if batch.iter().any(|line| matches!(line.update, TaskUpdate::Done(_))) {
                    self.record_changes(&task, &batch, &control).await?;
                }
                task = self.write(batch, &mut lines).await?;
                if task.done_seq.is_some() {
                    return Ok(true);
                }
            }
        }
    }

    /// Writes a batch of events, and reads on meanwhile.
    async fn write(&self, batch: Vec<TaskLine>, lines: &mut TaskLineReader) -> Result<TaskRecord, TaskError> {
        // The grant opens even when the disk has no room to record the event.
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
                // Safe to cut off: bytes are in the buffer or not read at all.
                () = lines.gather(), if lines.has_room() => {}
            }
        }
    }

    /// Asks runtimed for the result of a task whose events ended without `done`.
    async fn fetch_ending(&self, task: &TaskRecord, control: &Control) -> Result<bool, TaskError> {
        let view: TaskView = control.get(&format!("/v1/tasks/{}", task.id), CALL_TIMEOUT).await?;
        match view.result {
            Some(result) if result.status.is_final() => {
                self.record_changes(task, &[], control).await?;
                self.conclude(TaskEnding::Reported(Box::new(result))).await
            }
            _ if view.status.is_final() => self.conclude(TaskEnding::Lost).await,
            _ => Err(TaskError::StillRunning),
        }
    }

    /// Skips history that runtimed trimmed before hostd read it; a notice takes its place.
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

/// Whether an event shows that runtimed has started the task: the first one may only say that it is queued.
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

/// Reads lines from a response body.
struct TaskLineReader {
    body: Incoming,
    buffer: BytesMut,
    /// The number of the last event that was read.
    last: u64,
    /// The reason why the stream ended.
    ended: Option<TaskError>,
    /// An invalid event was logged: there may be any number of them.
    warned: bool,
}

impl TaskLineReader {
    fn has_room(&self) -> bool {
        self.ended.is_none() && self.buffer.len() < limits::TASK_GATHER_MAX_BYTES
    }

    /// Waits until more bytes are in the buffer.
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

    /// The complete events in the buffer; `None` if there is none.
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
        // An empty line is a sign of life.
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
                if !std::mem::replace(&mut self.warned, true) {
                    warn!(%error, "dropped an invalid event of a task");
                }
                if memchr::memmem::find(line, b"\"type\":\"done\"").is_some() {
                    self.ended = Some(TaskError::BadDone);
                }
                None
            }
        }
    }
}
