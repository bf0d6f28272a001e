//! Relays bytes between a caller and runtimed as they come. Nothing is buffered, so a slow reader slows down
//! only its own stream, and when one side disconnects the other one does too.

use super::{
    call::Call,
    error::{CallError, CallResult},
    limits as api,
};
use axum::{BoxError, body::Body, response::Response};
use bytes::Bytes;
use hostd_core::limits;
use hostd_drivers::control::{self, Control, ControlError};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Method,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Mutex,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::sync::oneshot;
use tokio_util::sync::WaitForCancellationFutureOwned;

const LAST_EVENT_ID: &str = "last-event-id";
/// Returns 200 while PID 1 is healthy.
pub const HEALTH_PATH: &str = "/healthz";
pub const CONTROL_TIMEOUT: Duration = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);

/// A path of runtimed's API. The types of the parts guarantee that they are safe in a path.
pub fn runtimed_path(parts: &[&str]) -> String {
    format!("/v1/{}", parts.join("/"))
}

/// Relays runtimed's response to a `GET`.
pub async fn response(call: &Call, control: Control, path: &str) -> CallResult {
    let mut request = control::request(&Method::GET, path);
    for name in [ACCEPT.as_str(), LAST_EVENT_ID] {
        if let Some(value) = call.headers.get(name) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Empty::new().boxed()).map_err(|error| malformed(&error))?;
    let (parts, incoming) = control.stream(request, CONTROL_TIMEOUT).await?.into_parts();
    let closing = Box::pin(call.api.closing.clone().cancelled_owned());
    let mut response = Response::new(Body::new(ResponseRelay { incoming, closing, _awake: control }));
    *response.status_mut() = parts.status;
    if let Some(kind) = parts.headers.get(CONTENT_TYPE) {
        response.headers_mut().insert(CONTENT_TYPE, kind.clone());
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A body streamed from runtimed. Aborted, not ended, when hostd shuts down: its reader must not take partial
/// output for all of it.
struct ResponseRelay {
    incoming: Incoming,
    closing: Pin<Box<WaitForCancellationFutureOwned>>,
    _awake: Control,
}

impl HttpBody for ResponseRelay {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.closing.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err("hostd is shutting down".into())));
        }
        Pin::new(&mut self.incoming).poll_frame(cx).map(|frame| frame.map(|each| each.map_err(Into::into)))
    }
}

/// Sends a `POST` to runtimed whose response has no body.
pub async fn post(control: &Control, path: &str, body: Bytes) -> Result<(), ControlError> {
    let request = control::request(&Method::POST, path).body(http_body_util::Full::new(body).boxed());
    control.stream(request.map_err(|error| malformed(&error))?, CONTROL_TIMEOUT).await.map(drop)
}

/// Streams the body of a request to runtimed.
pub async fn request_body(control: &Control, path: &str, body: Body) -> Result<(), CallError> {
    let (broken, cut) = oneshot::channel();
    let feed = RequestRelay { body: Mutex::new(body), broken: Some(broken) };
    let request =
        control::request(&Method::POST, path).body(feed.boxed()).map_err(|error| malformed(&error))?;
    let within = Duration::from_millis(api::STDIN_MAX_MS);
    tokio::select! {
        // Dropping the request closes its connection: runtimed sees a body that ended too early, and keeps
        // the input open.
        done = control.stream(request, within) => Ok(done.map(drop)?),
        Ok(()) = cut => Err(super::request_body::malformed()),
    }
}

/// The caller's body as one that cannot fail: an error is reported through `broken`. The mutex is never
/// contended, it makes the body `Sync`.
struct RequestRelay {
    body: Mutex<Body>,
    broken: Option<oneshot::Sender<()>>,
}

impl HttpBody for RequestRelay {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.body.get_mut().expect("never locked");
        match ready!(Pin::new(body).poll_frame(cx)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            None => Poll::Ready(None),
            Some(Err(_)) => {
                if let Some(broken) = self.broken.take() {
                    let _ = broken.send(());
                }
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.lock().map(|body| body.size_hint()).unwrap_or_default()
    }
}

fn malformed(error: &hyper::http::Error) -> ControlError {
    ControlError::Malformed(error.to_string())
}
