//! The event stream of a page that waits for its app: which step runs, and when to reload. Only observes:
//! wakes no sandbox, and keeps up only a wake that a request began.

use super::{
    error_page::{HEARTBEAT, OPENING, Refusal, Visitor, frame},
    limits,
    response_body::ResponseBody,
    state::Edge,
    wake::WakeStage,
};
use crate::preview_target::{PreviewTarget, RequestPermit, WaitPermit};
use bytes::Bytes;
use futures_util::stream;
use hostd_core::{NoResponse, WaitMode, WaitProgress, progress};
use hyper::{
    Response,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use std::{sync::Arc, time::Instant};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::sleep,
};

struct ProgressStream {
    edge: Arc<Edge>,
    target: Arc<PreviewTarget>,
    visitor: Visitor,
    mode: WaitMode,
    since: Instant,
    /// The event that was sent last, and when.
    sent: Option<(WaitProgress, Instant)>,
    done: bool,
    /// Keeps the wake that a request began going while the page is open.
    _wake: Option<watch::Receiver<WakeStage>>,
    _permits: (OwnedSemaphorePermit, WaitPermit),
    _visit: RequestPermit,
}

impl Edge {
    pub(super) fn progress_response(
        self: &Arc<Self>,
        visitor: Visitor,
        target: Arc<PreviewTarget>,
        visit: RequestPermit,
        mode: WaitMode,
    ) -> Response<ResponseBody> {
        let Some(permits) = self.waiting_pages.clone().try_acquire_owned().ok().zip(target.wait()) else {
            return self.refuse(visitor.format, Refusal::TooMany);
        };
        let (since, wake) = (Instant::now(), self.running_wake(visitor.preview));
        let progress = ProgressStream {
            edge: self.clone(),
            target,
            visitor,
            mode,
            since,
            sent: None,
            done: false,
            _wake: wake,
            _permits: permits,
            _visit: visit,
        };
        let mut response = Response::new(ResponseBody::Events(Box::pin(stream::unfold(progress, next))));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Returns the next event; none after the last.
async fn next(mut stream: ProgressStream) -> Option<(Bytes, ProgressStream)> {
    if stream.sent.is_none() {
        let first = stream.observe().await;
        let bytes = [OPENING, &frame(&first)].concat();
        return Some((bytes.into(), stream.sending(first)));
    }
    while !stream.done {
        stream.pause().await;
        let seen = stream.observe().await;
        let Some((sent, at)) = &stream.sent else { continue };
        if *sent != seen {
            return Some((frame(&seen), stream.sending(seen)));
        }
        if at.elapsed() > limits::HEARTBEAT {
            return Some((Bytes::from_static(HEARTBEAT), stream.sending(seen)));
        }
    }
    None
}

impl ProgressStream {
    fn sending(mut self, progress: WaitProgress) -> Self {
        self.done = match progress {
            WaitProgress::Step { .. } => false,
            WaitProgress::Ready | WaitProgress::Asleep | WaitProgress::Failed => true,
        };
        self.sent = Some((progress, Instant::now()));
        self
    }

    async fn pause(&mut self) {
        let record = self.target.record();
        tokio::select! {
            // All branches only wait.
            () = self.edge.closing.cancelled() => self.done = true,
            () = self.target.changed(&record) => {}
            () = sleep(limits::WAITING_PAGE_LOOK) => {}
        }
        self.done |= self.since.elapsed() > limits::WAITING_PAGE_MAX;
    }

    async fn observe(&self) -> WaitProgress {
        let (target, port) = (&self.target, self.visitor.preview.port);
        if target.is_up() && target.listens(port).await {
            return WaitProgress::Ready;
        }
        let record = target.record();
        let status = if record.state.is_up() { target.status().await } else { None };
        let facts = self.edge.facts(&self.visitor, &record, status.as_deref(), NoResponse::Waking);
        progress(&facts, self.mode)
    }
}
