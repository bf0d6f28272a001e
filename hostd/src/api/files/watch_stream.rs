//! One subscriber of a watch, as server-sent events.

use super::{
    super::{limits::SSE_CHUNK_MAX_BYTES, sse_writer, stream_limits::StreamPermit},
    watch::{Since, Watch, WatchProgress},
};
use axum::{BoxError, body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::body::Frame;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

/// Changes joined to one chunk.
const CHANGES_AT_ONCE: usize = 256;

/// How a subscriber begins.
enum Greeting {
    Ready,
    /// After an event of this watch.
    Resumed {
        after: u64,
    },
    /// After an event of another watch.
    Overflow,
}

pub struct WatchSubscriber {
    watch: Arc<Watch>,
    progress: watch::Receiver<WatchProgress>,
    /// All changes up to this number were sent.
    after: u64,
    /// What is told before any change.
    greeting: Option<Greeting>,
    closing: CancellationToken,
    _user: watch::Receiver<()>,
    _permit: StreamPermit,
}

impl WatchSubscriber {
    pub fn new(
        watch: Arc<Watch>,
        last_event: Option<&str>,
        closing: CancellationToken,
        permit: StreamPermit,
    ) -> Self {
        let (user, progress) = (watch.user(), watch.progress.subscribe());
        let greeting = match last_event.map(|last| resumed(last, &watch)) {
            None => Greeting::Ready,
            Some(Some(after)) => Greeting::Resumed { after },
            Some(None) => Greeting::Overflow,
        };
        Self { watch, progress, after: 0, greeting: Some(greeting), closing, _user: user, _permit: permit }
    }

    pub fn response(self) -> Response {
        let frames = unfold(self, |mut subscriber| async {
            let bytes = subscriber.next().await?;
            Some((Ok::<_, BoxError>(Frame::data(bytes)), subscriber))
        });
        sse_writer::response(Body::new(StreamBody::new(frames)))
    }

    /// The next bytes; `None` when the watch has ended or hostd shuts down.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return self.greet(greeting).await;
        }
        loop {
            // Looked at before the changes, so that those before the end are sent.
            let ended = self.progress.borrow_and_update().has_ended;
            match self.watch.since(self.after, CHANGES_AT_ONCE) {
                Since::Gone { newest } => {
                    self.after = newest;
                    return Some(overflow(&self.watch.epoch, newest));
                }
                Since::Changes(frames) if !frames.is_empty() => return Some(self.joined(frames)),
                Since::Changes(_) if ended || self.closing.is_cancelled() => return None,
                Since::Changes(_) => {}
            }
            tokio::select! {
                // All branches only wait: nothing is lost when they are dropped.
                changed = self.progress.changed() => changed.ok()?,
                () = self.closing.cancelled() => {}
                () = sleep(Duration::from_millis(sse_writer::HEARTBEAT_MS)) => {
                    return Some(Bytes::from_static(sse_writer::HEARTBEAT_COMMENT));
                }
            }
        }
    }

    /// The first bytes. What a client lists after them is whole with the changes that follow, so they wait until every
    /// directory is watched.
    async fn greet(&mut self, greeting: Greeting) -> Option<Bytes> {
        let settled = self.progress.wait_for(|progress| progress.is_ready || progress.has_ended);
        let newest = tokio::select! {
            // Both branches only wait.
            settled = settled => settled.ok()?.newest,
            () = self.closing.cancelled() => return None,
        };
        self.after = newest;
        Some(match greeting {
            Greeting::Ready => frame(&self.watch.epoch, newest, "ready", "{}"),
            Greeting::Overflow => overflow(&self.watch.epoch, newest),
            Greeting::Resumed { after } => {
                self.after = after;
                Bytes::from_static(sse_writer::RETRY_FIELD)
            }
        })
    }

    /// As many changes as fit into one chunk.
    fn joined(&mut self, frames: Vec<Bytes>) -> Bytes {
        let mut joined = BytesMut::new();
        for frame in frames {
            if !joined.is_empty() && joined.len() + frame.len() > SSE_CHUNK_MAX_BYTES {
                break;
            }
            joined.extend_from_slice(&frame);
            self.after += 1;
        }
        joined.freeze()
    }
}

/// The number of an event of this watch.
fn resumed(last: &str, watch: &Watch) -> Option<u64> {
    let (epoch, number) = last.rsplit_once('-')?;
    number.parse().ok().filter(|_| epoch == watch.epoch)
}

fn overflow(epoch: &str, number: u64) -> Bytes {
    frame(epoch, number, "overflow", r#"{"reason":"changes since the last event are not kept: list again"}"#)
}

fn frame(epoch: &str, number: u64, event: &str, data: &str) -> Bytes {
    format!("retry: 1000\nid: {epoch}-{number}\nevent: {event}\ndata: {data}\n\n").into()
}
