//! A strict client of hostd's streams: events and output.

use super::Caller;
use crate::{
    frames::{Frame, Frames},
    output::Follower,
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use protocol::Chunk;
use protocol::api::EventView;
use tokio::time::timeout;

/// An open stream of server-sent events. An event that comes twice or out of order is an error.
pub struct Feed {
    frames: Frames,
    /// The number of the last event read.
    pub seen: u64,
}

impl Feed {
    /// Opens a path of events after an event, which is named as browsers do.
    pub async fn open(caller: &Caller, path: &str, seen: u64) -> Result<Self> {
        let mut request = Request::get(path).header("accept", "text/event-stream");
        if seen > 0 {
            request = request.header("last-event-id", seen.to_string());
        }
        let response = caller.open(request.body(Empty::<Bytes>::new())?).await?;
        let frames = timeout(PATIENCE, Frames::of(response)).await.context("the stream says nothing")??;
        Ok(Self { frames, seen })
    }

    /// The next event; nothing when the stream is complete.
    pub async fn next(&mut self) -> Result<Option<EventView>> {
        let event = timeout(PATIENCE, self.next_event()).await.context("no event comes")??;
        if let Some(event) = &event {
            ensure!(event.seq > self.seen, "{} came after {}", event.seq, self.seen);
            self.seen = event.seq;
        }
        Ok(event)
    }

    /// Everything up to and with the first event that is as wanted.
    pub async fn until(&mut self, wanted: impl Fn(&EventView) -> bool) -> Result<Vec<EventView>> {
        let mut events = Vec::new();
        while !events.last().is_some_and(&wanted) {
            events.push(self.next().await?.with_context(|| format!("ended after {events:?}"))?);
        }
        Ok(events)
    }

    /// A stream that hostd's death cut off may end anywhere.
    async fn next_event(&mut self) -> Result<Option<EventView>> {
        self.frames.next().await?.map(|frame| parse(&frame)).transpose()
    }
}

/// Head and data must say the same.
fn parse(frame: &Frame) -> Result<EventView> {
    let event: EventView = serde_json::from_str(&frame.data)?;
    let same = frame.id == event.seq.to_string() && frame.kind == event.kind;
    ensure!(same, "head and data differ: {} {} {}", frame.id, frame.kind, frame.data);
    Ok(event)
}

impl Caller {
    /// Follows output or a log, a path that answers NDJSON.
    pub async fn follow(&self, path: &str) -> Result<Follower> {
        Follower::of(self.open(Request::get(path).body(Empty::<Bytes>::new())?).await?).await
    }

    /// Waits until a log holds `sign`; what it had until then.
    pub async fn follow_until(&self, path: &str, sign: &str) -> Result<String> {
        let reading = async {
            let mut follower = self.follow(path).await?;
            let mut seen = String::new();
            while !seen.contains(sign) {
                let chunk = follower.next().await?.with_context(|| format!("{path} only has {seen:?}"))?;
                if let Chunk::Output { payload, .. } = chunk {
                    seen += &String::from_utf8_lossy(&crate::output::bytes_of(&payload)?);
                }
            }
            Ok(seen)
        };
        timeout(PATIENCE, reading).await.with_context(|| format!("{path} never has {sign:?}"))?
    }
}
