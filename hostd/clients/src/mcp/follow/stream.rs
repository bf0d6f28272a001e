//! The response that follows one call: server-sent events, each with an id to resume from.

use super::follower::{Follower, Progress, Step};
use crate::mcp::{
    call::Call,
    event_id::{EventId, Work},
    limits, messages,
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures_util::{future::BoxFuture, stream};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::model::{MetaObject, NotificationMetaObject, ProgressNotificationParam};
use std::{convert::Infallible, time::Duration};

/// Tells buffering proxies to pass this response on at once.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const HEARTBEAT_COMMENT: &[u8] = b": still here\n\n";

/// Follows the work of a call from a position. `resumed`: the client has the first event already.
pub fn response(call: Call, work: Work, position: u64, resumed: bool) -> Response {
    let first = (!resumed && call.session.revision.has_first_event()).then(|| {
        let id = event_id(&call, &work, position);
        Bytes::from(format!("id: {id}\nretry: {}\ndata: \n\n", limits::RETRY_MS))
    });
    let follower = Follower::new(call.clone(), work.clone(), position);
    let sender = Sender { call, work, first, state: State::Follows(advance(follower)) };
    let frames = stream::unfold(sender, |mut sender| async move {
        let frame = sender.next().await?;
        Some((Ok::<_, Infallible>(frame), sender))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

struct Sender {
    call: Call,
    work: Work,
    first: Option<Bytes>,
    state: State,
}

enum State {
    /// The next step is being waited for. Kept across heartbeats: nothing of a step is lost by one.
    Follows(BoxFuture<'static, (Follower, Step)>),
    Ended,
}

fn advance(mut follower: Follower) -> BoxFuture<'static, (Follower, Step)> {
    Box::pin(async move {
        let step = follower.next().await;
        (follower, step)
    })
}

impl Sender {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let State::Follows(pending) = &mut self.state else { return None };
        let (follower, step) = tokio::select! {
            biased;
            found = pending => found,
            // The pending step stays where it is.
            () = tokio::time::sleep(Duration::from_millis(limits::HEARTBEAT_MS)) => {
                return Some(Bytes::from_static(HEARTBEAT_COMMENT));
            }
        };
        match step {
            Step::Progress(progress) => {
                self.state = State::Follows(advance(follower));
                Some(self.progress(progress))
            }
            Step::Done(result) => {
                self.state = State::Ended;
                Some(event(None, &messages::response(self.call.id.clone(), result)))
            }
            Step::Interrupted => {
                self.state = State::Ended;
                None
            }
        }
    }

    fn progress(&self, progress: Progress) -> Bytes {
        let id = event_id(&self.call, &self.work, progress.position);
        let Some(token) = self.call.progress.clone() else { return Bytes::from_static(HEARTBEAT_COMMENT) };
        #[expect(clippy::cast_precision_loss, reason = "progress is a number of JSON")]
        let mut params = ProgressNotificationParam::new(token, progress.position as f64);
        params = params.with_message(progress.message);
        params.meta = progress.meta.map(|meta| NotificationMetaObject(MetaObject(meta)));
        event(Some(&id), &messages::progress(params))
    }
}

fn event_id(call: &Call, work: &Work, position: u64) -> String {
    let id =
        EventId { work: work.clone(), position, request: call.id.clone(), progress: call.progress.clone() };
    id.encode(&call.clients.parts.key, &call.session)
}

fn event(id: Option<&str>, message: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(message.len() + 128);
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    text.extend_from_slice(b"event: message\ndata: ");
    text.extend_from_slice(message);
    text.extend_from_slice(b"\n\n");
    text.into()
}
