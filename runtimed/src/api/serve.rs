//! The two listeners: bounded accept, one task per connection; a panic costs one request.

use super::lingering_stream::{BodyExpected, LingeringStream};
use super::response::{self, HttpResponse, Refusal, refuse};
use super::upgrade::PendingUpgrade;
use super::{control, public};
use crate::core::rate_limit::TokenBucket;
use crate::limits::{
    CONTROL_CONNECTIONS_MAX, HEAD_TIMEOUT_MS, PUBLIC_CONNECTIONS_MAX, PUBLIC_REQUESTS_BURST,
    PUBLIC_REQUESTS_PER_SECOND,
};
use crate::supervisor::Handle;
use crate::sys::clock::monotonic_ms;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::ErrorCode;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// Accepting ended, which it never should.
#[derive(Debug)]
pub struct AcceptEnded;

/// Pause after a failed accept: descriptors may be free again by then.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const HEAD_MAX_BYTES: usize = 32 << 10;

pub async fn serve_control(listener: UnixListener, handle: Handle) -> AcceptEnded {
    accept(listener, CONTROL_CONNECTIONS_MAX, |stream| {
        let handle = handle.clone();
        let pending_upgrade = PendingUpgrade::default();
        let next = pending_upgrade.clone();
        let work = connection(stream, move |request| {
            let (handle, pending_upgrade) = (handle.clone(), pending_upgrade.clone());
            async move { control::handle_request(&handle, request, &pending_upgrade).await }
        });
        async move {
            work.await;
            if let Some(work) = next.take() {
                work.await;
            }
        }
    })
    .await
}

pub async fn serve_public(listener: UnixListener, handle: Handle) -> AcceptEnded {
    let bucket = TokenBucket::new(PUBLIC_REQUESTS_PER_SECOND, PUBLIC_REQUESTS_BURST, monotonic_ms());
    let bucket = Arc::new(Mutex::new(bucket));
    accept(listener, PUBLIC_CONNECTIONS_MAX, |stream| {
        let (handle, bucket) = (handle.clone(), Arc::clone(&bucket));
        connection(stream, move |request| {
            let granted = bucket.lock().is_ok_and(|mut bucket| bucket.take(monotonic_ms()));
            let handle = handle.clone();
            async move {
                if granted {
                    return public::handle_request(&handle, request).await;
                }
                let message =
                    format!("more than {PUBLIC_REQUESTS_PER_SECOND} requests a second; wait a moment");
                Err(refuse(ErrorCode::RateLimited, message))
            }
        })
    })
    .await
}

/// Accepts connections; beyond `max` they wait in the kernel's queue until one ends.
async fn accept<F>(listener: UnixListener, max: usize, mut serve: impl FnMut(UnixStream) -> F) -> AcceptEnded
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Both arms only take what is ready.
            accepted = listener.accept(), if connections.len() < max => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream))),
                Err(error) => {
                    tracing::warn!(%error, "failed to accept connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "connection task panicked");
            }
        }
    }
}

/// Serves one connection until it ends or is upgraded.
fn connection<F>(
    stream: UnixStream,
    answer: impl Fn(Request<Incoming>) -> F + Send + 'static,
) -> impl Future<Output = ()>
where
    F: Future<Output = Result<HttpResponse, Refusal>> + Send + 'static,
{
    let body = BodyExpected::default();
    let lingering = LingeringStream::new(stream, body.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let body = body.clone();
        body.set(!request.body().is_end_stream());
        let answered = CatchPanic(Box::pin(answer(request)));
        async move {
            let answer = answered.await.unwrap_or_else(|refusal| response::error_response(&refusal));
            if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                // What comes from here on belongs to the other protocol.
                body.set(false);
            }
            Ok::<Response<_>, Infallible>(answer)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(HEAD_TIMEOUT_MS))
        .max_buf_size(HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(lingering), service)
        .with_upgrades();
    async move {
        if let Err(error) = serving.await {
            tracing::debug!(%error, "connection ended early");
        }
    }
}

/// A handler whose panic becomes an error response.
struct CatchPanic<F>(Pin<Box<F>>);

impl<F: Future<Output = Result<HttpResponse, Refusal>>> Future for CatchPanic<F> {
    type Output = Result<HttpResponse, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        // State of the handler is dropped with it; it shares nothing with others.
        catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)))
            .unwrap_or_else(|_| Poll::Ready(Err(refuse(ErrorCode::Internal, "the request handler panicked"))))
    }
}
