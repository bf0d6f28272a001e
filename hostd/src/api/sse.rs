//! Events as server-sent events: read from the log in batches, from where the subscriber is. The watch on
//! the newest number only says that there is more; one batch is all that is ever held.

use super::{failure::chain, limits, views};
use crate::store::{EventFilter, EventRecord, Store};
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use http_body_util::StreamBody;
use hyper::{
    body::Frame,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use std::{fmt::Write, time::Duration};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub struct Subscriber {
    store: Store,
    head: watch::Receiver<u64>,
    closing: CancellationToken,
    filter: EventFilter,
    /// Everything up to here was looked at.
    after: u64,
    greeted: bool,
}

impl Subscriber {
    pub fn new(store: &Store, closing: &CancellationToken, filter: EventFilter, after: u64) -> Self {
        Self {
            store: store.clone(),
            head: store.head(),
            closing: closing.clone(),
            filter,
            after,
            greeted: false,
        }
    }

    pub fn response(self) -> Response {
        let frames = unfold(Some(self), |subscriber| async {
            let mut subscriber = subscriber?;
            match subscriber.next().await {
                Ok(Some(bytes)) => Some((Ok(Frame::data(bytes)), Some(subscriber))),
                Ok(None) => None,
                // Cut off: the client comes back with the number of the last event it saw.
                Err(error) => Some((Err(error), None)),
            }
        });
        let mut response = Response::new(Body::new(StreamBody::new(frames)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// The next piece of the stream; `None` when hostd shuts down.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        if !self.greeted {
            self.greeted = true;
            return Ok(Some(Bytes::from_static(b"retry: 1000\n\n")));
        }
        loop {
            if self.closing.is_cancelled() {
                return Ok(None);
            }
            // Read before the log is: what is committed later wakes the next round.
            let head = *self.head.borrow_and_update();
            if head > self.after {
                let batch = self.read().await?;
                self.after = match batch.last() {
                    Some(last) if batch.len() >= limits::SSE_BATCH => last.seq,
                    Some(last) => last.seq.max(head),
                    None => head,
                };
                if !batch.is_empty() {
                    return Ok(Some(render(&batch)));
                }
                continue;
            }
            tokio::select! {
                // All only wait: nothing is lost by any of them being dropped.
                changed = self.head.changed() => if changed.is_err() { return Ok(None) },
                () = self.closing.cancelled() => return Ok(None),
                () = sleep(Duration::from_millis(limits::HEARTBEAT_MS)) => {
                    return Ok(Some(Bytes::from_static(b": still here\n\n")));
                }
            }
        }
    }

    async fn read(&self) -> Result<Vec<EventRecord>, BoxError> {
        let read = self.store.events(self.filter.clone(), self.after, limits::SSE_BATCH).await;
        read.map_err(|error| {
            warn!(cause = chain(&error), "a stream of events was cut off");
            error.into()
        })
    }
}

fn render(batch: &[EventRecord]) -> Bytes {
    let mut text = String::new();
    for record in batch {
        // JSON has no line breaks of its own.
        let data = serde_json::to_string(&views::event(record)).unwrap_or_default();
        let _ = write!(text, "id: {}\nevent: {}\ndata: {data}\n\n", record.seq, record.kind);
    }
    text.into()
}
