//! A reader of runtimed's event stream. An event that comes twice or out of order is an error.

use crate::{
    Client,
    frames::{Frame, Frames},
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, ensure};
use http_body_util::Empty;
use hyper::Request;
use protocol::{Cursor, Event, Fact};
use tokio::time::timeout;

/// An open connection to `/v1/events`.
pub struct EventStream {
    frames: Frames,
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
        Ok(Self { frames: Frames::of(client.open(request).await?).await?, cursor })
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
        let frame = self.frames.next().await?;
        ensure!(frame.is_some() || self.frames.is_whole(), "the stream ended within a frame");
        frame.map(|frame| parse(&frame)).transpose()
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
}

/// Head and data must say the same.
fn parse(frame: &Frame) -> Result<Event> {
    let event: Event = serde_json::from_str(&frame.data)?;
    let same = frame.id == event.cursor.to_string() && frame.kind == event.fact.kind();
    ensure!(same, "head and data differ: {} {} {}", frame.id, frame.kind, frame.data);
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
