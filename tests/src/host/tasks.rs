//! Tasks through hostd: submitted, followed to their end, and looked at.

use super::{Caller, until};
use crate::{frames::Frames, sandbox::PATIENCE};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper::http::request::Builder;
use protocol::api::TaskEventView;
use serde_json::{Value, json};
use tokio::time::timeout;

/// A task in a sandbox.
#[derive(Debug, Clone)]
pub struct Job {
    pub sandbox: String,
    pub id: String,
}

impl Job {
    pub fn path(&self) -> String {
        format!("/v1/sandboxes/{}/tasks/{}", self.sandbox, self.id)
    }

    pub fn events(&self) -> String {
        format!("{}/events", self.path())
    }
}

/// The body of a task that runs a shell line.
pub fn shell(line: &str) -> Value {
    json!({"prompt": "do it", "command": ["sh", "-c", line]})
}

impl Caller {
    pub async fn submit(&self, sandbox: &str, body: &Value) -> Result<Job> {
        let path = format!("/v1/sandboxes/{sandbox}/tasks");
        let task: Value = self.post(&path, body).await?.expect(202)?;
        ensure!(task["sandbox_id"] == sandbox, "{task}");
        let job = Job { sandbox: sandbox.to_owned(), id: task["id"].as_str().context("an id")?.to_owned() };
        ensure!(task["events_url"] == job.events(), "{task}");
        Ok(job)
    }

    /// Follows a task to its end: all its events, checked to be complete.
    pub async fn events_of(&self, job: &Job) -> Result<Vec<TaskEventView>> {
        let mut feed = TaskFeed::open(self, job, 0).await?.context("a stream")?;
        feed.rest().await?;
        complete(&feed.events)?;
        Ok(feed.events)
    }

    /// The same from the log, page by page.
    pub async fn pages_of(&self, job: &Job) -> Result<Vec<TaskEventView>> {
        let mut events: Vec<TaskEventView> = Vec::new();
        loop {
            let since = events.last().map_or(0, |last| last.seq);
            let path = format!("{}?follow=0&limit=1000&since={since}", job.events());
            let mut page: Value = self.get(&path).await?.expect(200)?;
            events.extend(serde_json::from_value::<Vec<TaskEventView>>(page["items"].take())?);
            if page.get("next").is_none() {
                return Ok(events);
            }
        }
    }

    /// The result in `done`.
    pub async fn result_of(&self, job: &Job) -> Result<Value> {
        let events = self.events_of(job).await?;
        Ok(events.last().context("a done")?.fact["result"].clone())
    }

    /// Waits until the task has a phase.
    pub async fn reaches(&self, job: &Job, phase: &str) -> Result<Value> {
        until(phase, async || {
            let task: Value = self.get(&job.path()).await?.expect(200)?;
            ensure!(task["phase"] == phase || task["phase"] != "done", "it has ended: {task}");
            Ok((task["phase"] == phase).then_some(task))
        })
        .await
    }
}

/// Checks that events of the sandbox are numbered from 1 without a gap, and that `done` is last and occurs
/// once.
pub fn complete(events: &[TaskEventView]) -> Result<()> {
    for (event, expected) in events.iter().filter(|event| event.number.is_some()).zip(1..) {
        ensure!(event.number == Some(expected), "event {expected} is {event:?}");
    }
    let dones = events.iter().filter(|event| event.kind == "done").count();
    ensure!(dones == 1, "{dones} ends in {} events", events.len());
    ensure!(events.last().is_some_and(|last| last.kind == "done"), "something comes after done");
    Ok(())
}

/// A viewer of a task.
pub struct TaskFeed {
    frames: Frames,
    pub events: Vec<TaskEventView>,
    /// The number of the last event read.
    pub seen: u64,
}

impl TaskFeed {
    /// Goes on after an event, which is named as browsers do; nothing when there is nothing more to see.
    pub async fn open(caller: &Caller, job: &Job, seen: u64) -> Result<Option<Self>> {
        let mut request = Request::get(job.events());
        if seen > 0 {
            request = request.header("last-event-id", seen.to_string());
        }
        Self::ask(caller, request, seen).await
    }

    /// The same, named in the address.
    pub async fn since(caller: &Caller, job: &Job, seen: u64) -> Result<Option<Self>> {
        Self::ask(caller, Request::get(format!("{}?since={seen}", job.events())), seen).await
    }

    /// Only events after `seen` may come.
    pub async fn ask(caller: &Caller, request: Builder, seen: u64) -> Result<Option<Self>> {
        let request = request.header("accept", "text/event-stream").body(Empty::<Bytes>::new())?;
        let response = timeout(PATIENCE, caller.open(request)).await.context("it is never answered")??;
        if response.status() == 204 {
            return Ok(None);
        }
        let frames = timeout(PATIENCE, Frames::of(response)).await.context("the stream says nothing")??;
        Ok(Some(Self { frames, events: Vec::new(), seen }))
    }

    /// The next event; nothing at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<&TaskEventView>> {
        let frame = timeout(PATIENCE, self.frames.next()).await.context("no event comes")??;
        let Some(frame) = frame else { return Ok(None) };
        let event: TaskEventView = serde_json::from_str(&frame.data)?;
        let same = frame.id == event.seq.to_string() && frame.kind == event.kind;
        ensure!(same, "head and data differ: {} {} {}", frame.id, frame.kind, frame.data);
        ensure!(event.seq > self.seen, "{} came after {}", event.seq, self.seen);
        self.seen = event.seq;
        self.events.push(event);
        Ok(self.events.last())
    }

    /// To the end of the stream.
    pub async fn rest(&mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// Until an event is as wanted.
    pub async fn until(&mut self, wanted: impl Fn(&TaskEventView) -> bool) -> Result<()> {
        loop {
            let event = self.next().await?.context("the stream ended")?;
            if wanted(event) {
                return Ok(());
            }
        }
    }
}

/// Returns the output of an agent line by line and byte for byte, with partial lines joined.
pub fn lines(events: &[TaskEventView]) -> Result<Vec<Vec<u8>>> {
    let (mut all, mut line) = (Vec::new(), Vec::new());
    for event in events.iter().filter(|event| event.kind == "message") {
        let text = event.fact["text"].as_str().context("a text")?;
        match event.fact.get("encoding").and_then(Value::as_str) {
            None => line.extend_from_slice(text.as_bytes()),
            Some("base64") => line.extend(STANDARD.decode(text)?),
            Some(other) => bail!("encoding {other}"),
        }
        if event.fact.get("partial").is_none_or(|partial| partial == false) {
            all.push(std::mem::take(&mut line));
        }
    }
    ensure!(line.is_empty(), "the last line goes on");
    Ok(all)
}

/// The texts of an agent's messages.
pub fn messages(events: &[TaskEventView]) -> Vec<&str> {
    let said = events.iter().filter(|event| event.kind == "message");
    said.filter_map(|event| event.fact["text"].as_str()).collect()
}
