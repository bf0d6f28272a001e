//! A reader of the event stream, as strict as a client may be: a frame that is not exactly as documented
//! is an error.

use crate::Client;
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{Cursor, Event, Fact};
use tokio::time::timeout;

/// An open connection to `/v1/events`.
pub struct EventStream {
    body: Incoming,
    buffer: Vec<u8>,
    /// The cursor of the last event read; events must come in order.
    pub cursor: Cursor,
}

impl EventStream {
    /// Opens the stream from its beginning.
    pub async fn open(client: &Client) -> Result<Self> {
        Self::open_after(client, Cursor::default()).await
    }

    /// Opens the stream after a cursor, which is given as browsers give it.
    pub async fn open_after(client: &Client, cursor: Cursor) -> Result<Self> {
        let request = Request::get("/v1/events").header("last-event-id", cursor.to_string());
        Self::open_with(client, request.body(Empty::new())?, cursor).await
    }

    pub async fn open_with(
        client: &Client,
        request: Request<Empty<bytes::Bytes>>,
        cursor: Cursor,
    ) -> Result<Self> {
        let response = client.open(request).await?;
        let status = response.status();
        if status != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("events answered {status} {}", String::from_utf8_lossy(&body));
        }
        ensure!(response.headers()["content-type"] == "text/event-stream", "{:?}", response.headers());
        let mut stream = Self { body: response.into_body(), buffer: Vec::new(), cursor };
        let first = stream.frame().await?.context("the stream is empty")?;
        ensure!(first == "retry: 1000", "the stream begins with {first:?}");
        Ok(stream)
    }

    /// The next event; nothing when the stream is complete.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        let event = timeout(PATIENCE, self.next_event()).await.context("no event comes")??;
        if let Some(event) = &event {
            ensure!(event.cursor > self.cursor, "{} came after {}", event.cursor, self.cursor);
            self.cursor = event.cursor;
        }
        Ok(event)
    }

    async fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            match self.frame().await? {
                None => return Ok(None),
                Some(comment) if comment.starts_with(':') => {}
                Some(frame) => return parse(&frame).map(Some).with_context(|| frame),
            }
        }
    }

    /// Reads on until an event is as wanted, and gives that one.
    pub async fn until(&mut self, mut wanted: impl FnMut(&Fact) -> bool) -> Result<Event> {
        loop {
            let event = self.next().await?.context("the stream ended")?;
            if wanted(&event.fact) {
                return Ok(event);
            }
        }
    }

    /// Everything up to the end of the stream.
    pub async fn rest(mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }

    /// The text before the next empty line.
    async fn frame(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame: Vec<u8> = self.buffer.drain(..at + 2).collect();
                return Ok(Some(String::from_utf8(frame[..at].to_vec())?));
            }
            match self.body.frame().await {
                Some(frame) => self.buffer.extend(frame?.into_data().unwrap_or_default()),
                None => {
                    ensure!(self.buffer.is_empty(), "the stream ended within a frame");
                    return Ok(None);
                }
            }
        }
    }
}

/// `id`, `event` and `data`, one line each, in this order, saying the same.
fn parse(frame: &str) -> Result<Event> {
    let lines: Vec<&str> = frame.split('\n').collect();
    let [id, kind, data] = lines.as_slice() else { bail!("{} lines", lines.len()) };
    let id: Cursor = id.strip_prefix("id: ").and_then(|text| text.parse().ok()).context("no id")?;
    let kind = kind.strip_prefix("event: ").context("no event")?;
    let event: Event = serde_json::from_str(data.strip_prefix("data: ").context("no data")?)?;
    ensure!(event.cursor == id && event.fact.kind() == kind, "head and data differ");
    Ok(event)
}

/// Every event that is kept, now.
pub async fn events_so_far(client: &Client) -> Result<Vec<Event>> {
    events_after(client, Cursor::default()).await
}

/// Every event after a cursor, now.
pub async fn events_after(client: &Client, cursor: Cursor) -> Result<Vec<Event>> {
    let request = Request::get(format!("/v1/events?follow=0&after={cursor}")).body(Empty::new())?;
    EventStream::open_with(client, request, cursor).await?.rest().await
}
