//! The stream that a page listens to while it waits for its app: which step runs, and when to move on. It
//! only looks: it wakes nobody, and keeps up nobody but whom a request woke.

use super::{
    body::Answer,
    excuse::Visitor,
    hold::Stage,
    limits,
    page::{HEARTBEAT, OPENING, Refusal, frame},
    state::Edge,
};
use crate::{
    core::{Cause, Patience, Progress, progress},
    reconcile::{PreviewTarget, RequestPermit, WaitPermit},
};
use bytes::Bytes;
use futures_util::stream;
use hyper::{
    Response,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use std::{sync::Arc, time::Instant};
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::sleep,
};

struct Waiter {
    edge: Arc<Edge>,
    site: Arc<PreviewTarget>,
    visitor: Visitor,
    patience: Patience,
    since: Instant,
    /// What was said last, and when.
    said: Option<(Progress, Instant)>,
    done: bool,
    /// What a request began goes on while somebody looks.
    _flight: Option<watch::Receiver<Stage>>,
    _places: (OwnedSemaphorePermit, WaitPermit),
    _visit: RequestPermit,
}

impl Edge {
    pub(super) fn wait(
        self: &Arc<Self>,
        visitor: Visitor,
        site: Arc<PreviewTarget>,
        visit: RequestPermit,
        patience: Patience,
    ) -> Response<Answer> {
        let Some(places) = self.waiters.clone().try_acquire_owned().ok().zip(site.wait()) else {
            return self.refuse(visitor.reader, Refusal::TooMany);
        };
        let (since, flight) = (Instant::now(), self.going(visitor.preview));
        let waiter = Waiter {
            edge: self.clone(),
            site,
            visitor,
            patience,
            since,
            said: None,
            done: false,
            _flight: flight,
            _places: places,
            _visit: visit,
        };
        let mut response = Response::new(Answer::Events(Box::pin(stream::unfold(waiter, next))));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// The next thing to say; nothing after the last.
async fn next(mut waiter: Waiter) -> Option<(Bytes, Waiter)> {
    if waiter.said.is_none() {
        let first = waiter.look().await;
        let bytes = [OPENING, &frame(&first)].concat();
        return Some((bytes.into(), waiter.saying(first)));
    }
    while !waiter.done {
        waiter.pause().await;
        let seen = waiter.look().await;
        match &waiter.said {
            Some((said, _)) if *said != seen => return Some((frame(&seen), waiter.saying(seen))),
            Some((said, at)) if at.elapsed() > limits::HEARTBEAT => {
                let said = said.clone();
                return Some((Bytes::from_static(HEARTBEAT), waiter.saying(said)));
            }
            _ => {}
        }
    }
    None
}

impl Waiter {
    fn saying(mut self, progress: Progress) -> Self {
        self.done = match progress {
            Progress::Step { .. } => false,
            Progress::Ready | Progress::Asleep | Progress::Failed => true,
        };
        self.said = Some((progress, Instant::now()));
        self
    }

    async fn pause(&mut self) {
        let record = self.site.record();
        tokio::select! {
            // All of them only wait.
            () = self.edge.closing.cancelled() => self.done = true,
            () = self.site.changed(&record) => {}
            () = sleep(limits::WAITER_LOOK) => {}
        }
        self.done |= self.since.elapsed() > limits::WAITER_MAX;
    }

    async fn look(&self) -> Progress {
        let (site, port) = (&self.site, self.visitor.preview.port);
        if site.is_up() && site.listens(port).await {
            return Progress::Ready;
        }
        let record = site.record();
        let inner = if record.state.is_up() { site.status().await } else { None };
        let facts = self.edge.facts(&self.visitor, &record, inner.as_deref(), Cause::Waking);
        progress(&facts, self.patience)
    }
}
