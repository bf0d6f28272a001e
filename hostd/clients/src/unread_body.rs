//! What a request sends beyond what its handler read. It is read before the response goes out: a connection with an unread
//! body is closed, and a client that sends its next request on it would get no response.

use axum::{
    BoxError,
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use http_body_util::BodyExt;
use hyper::{
    Request,
    body::{Frame, SizeHint},
    header::{CONNECTION, HeaderValue},
};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::timeout;

/// What is read at most; of a body with more the connection is closed, and the response says so.
const DRAIN_MAX_BYTES: usize = 16 << 20;
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// A body of which the rest can be read when its reader is gone.
#[derive(Clone)]
struct SharedBody {
    /// Never contended: the rest is read when the handler has returned.
    body: Arc<Mutex<Body>>,
}

/// Has a request handled, and reads what is left of its body.
pub async fn handle<F>(request: Request<Body>, handler: impl FnOnce(Request<Body>) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let (parts, body) = request.into_parts();
    let shared = SharedBody { body: Arc::new(Mutex::new(body)) };
    let mut response = handler(Request::from_parts(parts, Body::new(shared.clone()))).await;
    let drained = timeout(DRAIN_MAX, shared.drain()).await;
    if drained != Ok(true) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl SharedBody {
    /// Whether the body ended within the limit.
    async fn drain(mut self) -> bool {
        let mut read = 0;
        while let Some(frame) = self.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > DRAIN_MAX_BYTES {
                return false;
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Body> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut body = self.lock();
        Pin::new(&mut *body).poll_frame(cx).map(|frame| frame.map(|each| each.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_handler_may_leave_a_body_unread() {
        for (chunks, closes) in [(0, false), (3, false), (17, true)] {
            let taken = Arc::new(AtomicUsize::new(0));
            let count = taken.clone();
            let body = stream::iter(0..chunks).map(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, BoxError>(Bytes::from(vec![0; 1 << 20]))
            });
            let request = Request::new(Body::from_stream(body));
            let response = handle(request, |_| async { Response::new(Body::empty()) }).await;
            assert_eq!(response.headers().contains_key(CONNECTION), closes, "{chunks}");
            assert_eq!(taken.load(Ordering::Relaxed), chunks);
        }
    }
}
