//! What hostd streams to a caller: events, output, terminals. Strict, as a client may be.

use super::Caller;
use crate::output::Follower;
use crate::sandbox::PATIENCE;
use crate::viewer::Viewer;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::body::Incoming;
use protocol::Chunk;
use protocol::api::EventView;
use tokio::time::timeout;

/// An open stream of server-sent events. An event that comes twice or out of order is an error.
pub struct Feed {
    body: Incoming,
    buffer: Vec<u8>,
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
        ensure!(response.status() == 200, "{path} answered {}", response.status());
        ensure!(response.headers()["content-type"] == "text/event-stream", "{:?}", response.headers());
        let mut feed = Self { body: response.into_body(), buffer: Vec::new(), seen };
        let first = timeout(PATIENCE, feed.frame()).await.context("the stream says nothing")??;
        ensure!(first.as_deref() == Some("retry: 1000"), "the stream begins with {first:?}");
        Ok(feed)
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

    async fn next_event(&mut self) -> Result<Option<EventView>> {
        loop {
            match self.frame().await? {
                None => return Ok(None),
                Some(comment) if comment.starts_with(':') => {}
                Some(frame) => return parse(&frame).map(Some).with_context(|| frame),
            }
        }
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
                None => return Ok(None),
            }
        }
    }
}

/// `id`, `event` and `data`, one line each, in this order, saying the same.
fn parse(frame: &str) -> Result<EventView> {
    let lines: Vec<&str> = frame.split('\n').collect();
    let [id, kind, data] = lines.as_slice() else { bail!("{} lines", lines.len()) };
    let event: EventView = serde_json::from_str(data.strip_prefix("data: ").context("no data")?)?;
    ensure!(*id == format!("id: {}", event.seq) && *kind == format!("event: {}", event.kind), "heads differ");
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

    /// Attaches to a terminal; `query` is what stands after its name.
    pub async fn attach(&self, sandbox: &str, exec: &str, query: &str) -> Result<Viewer> {
        let request = Request::get(format!("/v1/sandboxes/{sandbox}/terminals/{exec}{query}"))
            .header("connection", "Upgrade")
            .header("upgrade", "slipway-terminal")
            .body(Empty::<Bytes>::new())?;
        Viewer::of(self.open(request).await?).await
    }
}
