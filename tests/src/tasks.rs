//! Tasks in a sandbox: asking for them, waiting for their end, reading their events as strictly as a client
//! may.

use crate::{Client, sandbox::PATIENCE};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{Encoding, Stream, TaskEvent, TaskFact, TaskPhase, TaskResult, TaskView, Text};
use serde_json::{Value, json};
use tokio::time::timeout;

/// A task whose agent is a shell line; nothing is waited for after it.
pub fn task(id: &str, line: &str) -> Value {
    let agent = json!({"kind": "command", "argv": ["bash", "-c", line]});
    json!({"id": id, "prompt": "do it", "agent": agent, "health_timeout_ms": 0})
}

/// The same with further fields.
pub fn task_with(id: &str, line: &str, fields: Value) -> Value {
    let mut request = task(id, line);
    if let (Some(request), Value::Object(fields)) = (request.as_object_mut(), fields) {
        request.extend(fields);
    }
    request
}

/// Asks for a task, which must be taken.
pub async fn submit(client: &Client, request: Value) -> Result<TaskView> {
    let answer = client.post("/v1/tasks", &request).await?;
    ensure!(answer.status == 202, "tasks answered {} {}", answer.status, answer.text());
    answer.json()
}

pub async fn view(client: &Client, id: &str) -> Result<TaskView> {
    client.get(&format!("/v1/tasks/{id}")).await?.json()
}

/// Waits for the end of a task.
pub async fn ended(client: &Client, id: &str) -> Result<TaskResult> {
    let answer = client.get(&format!("/v1/tasks/{id}?wait_ms=60000")).await?;
    let view: TaskView = answer.json()?;
    view.result.clone().with_context(|| format!("task {id} did not end: {view:?}"))
}

/// Runs a task to its end.
pub async fn run(client: &Client, request: Value) -> Result<TaskResult> {
    let id = submit(client, request).await?.id;
    ended(client, id.as_str()).await
}

pub async fn cancel(client: &Client, id: &str, grace_ms: u64) -> Result<TaskResult> {
    let answer = client.post(&format!("/v1/tasks/{id}/cancel"), &json!({"grace_ms": grace_ms})).await?;
    ensure!(answer.status == 202, "cancel answered {} {}", answer.status, answer.text());
    ended(client, id).await
}

/// An open stream of a task's events: each must come right after the one before.
pub struct TaskStream {
    body: Incoming,
    buffer: Vec<u8>,
    sse: bool,
    pub seq: u64,
}

impl TaskStream {
    pub async fn open(client: &Client, id: &str, after: u64, sse: bool) -> Result<Self> {
        let request = Request::get(format!("/v1/tasks/{id}/events?after={after}&follow=1"));
        let accept = if sse { "text/event-stream" } else { "application/x-ndjson" };
        let response = client.open(request.header("accept", accept).body(Empty::<Bytes>::new())?).await?;
        if response.status() != 200 {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            bail!("events answered {status} {}", String::from_utf8_lossy(&body));
        }
        Ok(Self { body: response.into_body(), buffer: Vec::new(), sse, seq: after })
    }

    /// The next event; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<TaskEvent>> {
        let separator: &[u8] = if self.sse { b"\n\n" } else { b"\n" };
        loop {
            let found = self.buffer.windows(separator.len()).position(|window| window == separator);
            if let Some(at) = found {
                let frame: Vec<u8> = self.buffer.drain(..at + separator.len()).collect();
                let Some(event) = parse(std::str::from_utf8(&frame[..at])?, self.sse)? else { continue };
                ensure!(event.seq == self.seq + 1, "{} came after {}", event.seq, self.seq);
                self.seq = event.seq;
                return Ok(Some(event));
            }
            match timeout(PATIENCE, self.body.frame()).await.context("no event comes")? {
                Some(frame) => self.buffer.extend(frame?.into_data().unwrap_or_default()),
                None => {
                    ensure!(self.buffer.is_empty(), "the stream ended within an event");
                    return Ok(None);
                }
            }
        }
    }

    pub async fn until(&mut self, wanted: impl Fn(&TaskFact) -> bool) -> Result<TaskEvent> {
        loop {
            let event = self.next().await?.context("the stream ended")?;
            if wanted(&event.fact) {
                return Ok(event);
            }
        }
    }
}

fn parse(frame: &str, sse: bool) -> Result<Option<TaskEvent>> {
    if !sse {
        // An empty line is a keep-alive.
        return if frame.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_str(frame)?)) };
    }
    if frame.starts_with(':') || frame.starts_with("retry:") {
        return Ok(None);
    }
    let lines: Vec<&str> = frame.split('\n').collect();
    let [id, kind, data] = lines.as_slice() else { bail!("{} lines", lines.len()) };
    let event: TaskEvent = serde_json::from_str(data.strip_prefix("data: ").context("no data")?)?;
    ensure!(
        *id == format!("id: {}", event.seq) && *kind == format!("event: {}", event.fact.kind()),
        "{frame}"
    );
    Ok(Some(event))
}

/// Everything from the first event to the end, which must be `done`, last and once.
pub async fn story(client: &Client, id: &str) -> Result<Vec<TaskEvent>> {
    let mut stream = TaskStream::open(client, id, 0, false).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await? {
        events.push(event);
    }
    let ends: Vec<usize> = (0..events.len()).filter(|at| events[*at].fact.kind() == "done").collect();
    ensure!(ends == [events.len() - 1], "done at {ends:?} of {}", events.len());
    Ok(events)
}

pub fn phases(events: &[TaskEvent]) -> Vec<TaskPhase> {
    let phase = |event: &TaskEvent| match event.fact {
        TaskFact::Status { phase, .. } => Some(phase),
        _ => None,
    };
    events.iter().filter_map(phase).collect()
}

/// Returns the output on one stream, line by line.
pub fn said(events: &[TaskEvent], of: Stream) -> Result<Vec<Vec<u8>>> {
    let (mut all, mut line) = (Vec::new(), Vec::new());
    for event in events {
        let text: &Text = match &event.fact {
            TaskFact::Message(text) if of == Stream::Stdout => text,
            TaskFact::Log { stream, text, .. } if *stream == of => text,
            _ => continue,
        };
        match text.encoding {
            Encoding::Utf8 => line.extend(text.text.bytes()),
            Encoding::Base64 => line.extend(STANDARD.decode(&text.text)?),
        }
        if !text.partial {
            all.push(std::mem::take(&mut line));
        }
    }
    Ok(all)
}
