//! Writes server-sent events, from the subscriber's cursor on: out of the newest batches, which are in memory
//! once for all subscribers, or out of the log. Only the chunk being sent is held for a subscriber.

use super::{
    call::Call,
    error::{CallError, error_chain},
    limits,
    stream_limits::StreamPermit,
};
use axum::{BoxError, body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use futures_util::stream::unfold;
use hostd_metrics::GaugeGuard;
use hostd_store::{EventBatch, EventFilter, Store, StoreError, Subscription, Topic};
use http_body_util::StreamBody;
use hyper::{
    body::Frame,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue},
};
use std::{collections::VecDeque, time::Duration};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;

pub const RETRY_FIELD: &[u8] = b"retry: 1000\n\n";
/// Interval of heartbeat comments on a silent stream.
pub const HEARTBEAT_MS: u64 = 15_000;
pub const HEARTBEAT_COMMENT: &[u8] = b": still here\n\n";
/// Tells buffering proxies to pass this response on at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub struct SseSubscriber {
    store: Store,
    following: Subscription,
    closing: CancellationToken,
    filter: EventFilter,
    /// All events up to this number were sent, or are pending.
    after: u64,
    /// Up to which event history was deleted when the log was read first.
    trimmed: Option<u64>,
    /// Frames to be sent.
    pending: VecDeque<Bytes>,
    /// The task that is followed has ended.
    ended: bool,
    _permit: StreamPermit,
    _counted: GaugeGuard,
}

/// The response of a stream of server-sent events.
pub fn response(frames: Body) -> Response {
    let mut response = Response::new(frames);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

impl SseSubscriber {
    pub fn new(call: &Call, filter: EventFilter, after: u64) -> Result<Self, CallError> {
        let api = &call.api;
        let permit = call.stream_permit()?;
        let store = &api.store;
        let topic = match (filter.task, filter.sandbox) {
            (Some(task), _) => Topic::Task(task),
            (None, Some(sandbox)) => Topic::Sandbox(sandbox),
            (None, None) => Topic::All,
        };
        Ok(Self {
            store: store.clone(),
            following: store.subscribe(topic),
            closing: api.closing.clone(),
            filter,
            after,
            trimmed: None,
            pending: VecDeque::from([Bytes::from_static(RETRY_FIELD)]),
            ended: false,
            _permit: permit,
            _counted: GaugeGuard::new(&api.metrics.event_streams),
        })
    }

    pub fn response(self) -> Response {
        let frames = unfold(Some(self), |subscriber| async {
            let mut subscriber = subscriber?;
            match subscriber.next().await {
                Ok(Some(bytes)) => Some((Ok(Frame::data(bytes)), Some(subscriber))),
                Ok(None) => None,
                // Aborted: the client reconnects with the number of the last event it saw.
                Err(error) => Some((Err(error), None)),
            }
        });
        response(Body::new(StreamBody::new(frames)))
    }

    /// The next chunk of the stream; `None` at its end, and when hostd shuts down.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            if let Some(chunk) = self.next_chunk() {
                return Ok(Some(chunk));
            }
            if self.ended || self.closing.is_cancelled() {
                return Ok(None);
            }
            match self.following.after(self.after, limits::SSE_CHUNK_MAX_BYTES) {
                Some(news) if !news.is_empty() => self.push_batches(news.iter().map(AsRef::as_ref)),
                Some(_) => {
                    tokio::select! {
                        // All branches only wait: nothing is lost when they are dropped.
                        () = self.following.changed() => {}
                        () = self.closing.cancelled() => {}
                        () = sleep(Duration::from_millis(HEARTBEAT_MS)) => {
                            return Ok(Some(Bytes::from_static(HEARTBEAT_COMMENT)));
                        }
                    }
                }
                None => self.read_log().await?,
            }
        }
    }

    /// The next chunk: one batch as it is, shared with other subscribers, or several small ones joined.
    fn next_chunk(&mut self) -> Option<Bytes> {
        let first = self.pending.pop_front()?;
        let fits = |bytes: usize, next: &Bytes| bytes + next.len() <= limits::SSE_CHUNK_MAX_BYTES;
        if !self.pending.front().is_some_and(|next| fits(first.len(), next)) {
            return Some(first);
        }
        let mut joined = BytesMut::from(first);
        while let Some(next) = self.pending.pop_front_if(|next| fits(joined.len(), next)) {
            joined.extend_from_slice(&next);
        }
        Some(joined.freeze())
    }

    fn push_batches<'a>(&mut self, batches: impl Iterator<Item = &'a EventBatch>) {
        for batch in batches {
            if self.filter.admits(batch, self.store.shares()) {
                let frames = batch.select(self.after, &self.filter.kinds);
                if !frames.is_empty() {
                    self.pending.push_back(frames);
                }
                self.ended |= batch.ends && self.filter.task.is_some();
            }
            self.after = self.after.max(batch.last);
        }
    }

    async fn read_log(&mut self) -> Result<(), BoxError> {
        let aborted = |error: &StoreError| warn!(cause = error_chain(error), "event stream aborted");
        let before = self.after;
        let trimmed = self.store.trimmed_through(&self.filter).await.inspect_err(aborted)?;
        let known = *self.trimmed.get_or_insert(trimmed);
        let part = self.store.log(self.filter.clone(), before).await.inspect_err(aborted)?;
        // Deleted while this reader was behind: its client resumes, and is told that there is a gap.
        let trimmed = self.store.trimmed_through(&self.filter).await.inspect_err(aborted)?;
        if trimmed > known && trimmed > before {
            return Err("events were deleted before this stream had sent them".into());
        }
        self.push_batches(part.batches.iter());
        self.after = self.after.max(part.through);
        Ok(())
    }
}
