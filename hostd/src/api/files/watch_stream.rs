//! One subscriber of a watch, as server-sent events.

use super::{
    super::{limits::SSE_CHUNK_MAX_BYTES, sse_writer, stream_limits::StreamPermit},
    watch::{Since, Watch},
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

pub struct WatchSubscriber {
    watch: Arc<Watch>,
    newest: watch::Receiver<(u64, bool)>,
    /// All changes up to this number were sent.
    after: u64,
    /// What is sent before any change.
    first: Option<Bytes>,
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
        let (user, newest) = (watch.user(), watch.newest.subscribe());
        let now = newest.borrow().0;
        let (after, first) = match last_event {
            None => (now, frame(&watch.epoch, now, "ready", "{}")),
            Some(last) => match resumed(last, &watch) {
                Some(after) => (after, Bytes::from_static(sse_writer::RETRY_FIELD)),
                None => (now, overflow(&watch.epoch, now)),
            },
        };
        Self { watch, newest, after, first: Some(first), closing, _user: user, _permit: permit }
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
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            // Looked at before the changes, so that those before the end are sent.
            let ended = self.newest.borrow_and_update().1;
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
                changed = self.newest.changed() => changed.ok()?,
                () = self.closing.cancelled() => {}
                () = sleep(Duration::from_millis(sse_writer::HEARTBEAT_MS)) => {
                    return Some(Bytes::from_static(sse_writer::HEARTBEAT_COMMENT));
                }
            }
        }
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
