//! HTTP/2 on one connection: many requests at a time, each of which counts like a connection of its own.
//!
//! Flow control bounds what is held for a client that does not read: of each response at most two chunks and
//! `HTTP2_SEND_BUFFER_BYTES`. A connection without requests, or whose client reads none of its responses, is closed
//! (`core::http2_watch`), since its TCP connection looks alive. WebSockets stay on HTTP/1.1: extended CONNECT is not
//! offered, so browsers open a connection of their own for them.

use super::{ClientConnection, Eviction, Serving, api, limits};
use axum::{BoxError, body::Body};
use bytes::Bytes;
use hostd_core::http2_watch::{ConnectionWatch, Observation, WatchLimits, WatchVerdict};
use hostd_drivers::Stream;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{sleep, timeout};

pub(super) async fn serve(
    stream: Box<dyn Stream>,
    client: ClientConnection,
    serving: Serving,
) -> hyper::Result<()> {
    let traffic = Arc::<Traffic>::default();
    let service = {
        let (client, router, traffic) = (client.clone(), serving.router.clone(), traffic.clone());
        service_fn(move |request: Request<Incoming>| {
            let active = client.permit.as_ref().map(|permit| Arc::new(permit.begin_multiplexed()));
            let in_flight = InFlight::begin(traffic.clone());
            let (client, router) = (client.clone(), router.clone());
            async move {
                let (response, active) = client.respond(router, request, active).await?;
                let body = |body| TrackedBody { body, in_flight, _active: active };
                Ok::<_, Infallible>(response.map(body))
            }
        })
    };
    // A task of a stream ends with the connection: dropping it resets all of them.
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(api::HTTP2_PING_MS))
        .keep_alive_timeout(Duration::from_millis(api::HTTP2_PONG_MAX_MS))
        .max_concurrent_streams(api::HTTP2_STREAMS_MAX)
        .max_header_list_size(api::HTTP2_HEADERS_MAX_BYTES)
        .max_pending_accept_reset_streams(api::HTTP2_PENDING_RESETS_MAX)
        .max_local_error_reset_streams(api::HTTP2_LOCAL_RESETS_MAX)
        .initial_stream_window_size(api::HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(api::HTTP2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(api::HTTP2_SEND_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = Box::pin(connection);
    let closing = tokio::select! {
        ended = connection.as_mut() => return ended,
        // Requests in flight are finished below; no other one is started.
        () = serving.shutdown.cancelled() => Duration::from_millis(traffic.shutdown_ms()),
        eviction = client.evicted() => match eviction {
            Eviction::Immediate => return Ok(()),
            // A peer that does not read the rest of its responses must not keep the permit.
            Eviction::AfterResponse => Duration::from_millis(api::CLOSING_MS),
        },
        // Only waits.
        left = watch(&traffic, &client) => match left {
            Some(left) => left,
            None => return Ok(()),
        },
    };
    connection.as_mut().graceful_shutdown();
    timeout(closing, connection).await.unwrap_or(Ok(()))
}

/// Returns when the connection must be closed: how long the rest of its responses may take, or nothing if its client
/// reads none of them.
async fn watch(traffic: &Traffic, client: &ClientConnection) -> Option<Duration> {
    let mut watch = ConnectionWatch::default();
    let limits =
        WatchLimits { interval_ms: limits::HEAD_TIMEOUT_MS, unread_max_ms: api::TCP_USER_TIMEOUT_MS.into() };
    loop {
        sleep(Duration::from_millis(limits.interval_ms)).await;
        let authenticated = client.is_authenticated();
        match watch.observe(traffic.observation(authenticated), limits) {
            WatchVerdict::Keep => {}
            WatchVerdict::CloseUnread => return None,
            WatchVerdict::CloseIdle => {
                // What is left of the last responses is with the protocol, which does not tell.
                let left_ms = if authenticated { limits.unread_max_ms } else { limits.interval_ms };
                return Some(Duration::from_millis(left_ms));
            }
        }
    }
}

/// What happens on one connection.
#[derive(Default)]
struct Traffic {
    /// Requests begun and chunks taken of responses.
    progress: AtomicU64,
    in_flight: AtomicUsize,
    /// Responses whose last chunk still waits for the client.
    unread: AtomicUsize,
}

impl Traffic {
    /// How long the connection may take to end at shutdown. Without requests only the goodbye is left, which a client may
    /// never answer.
    fn shutdown_ms(&self) -> u64 {
        if self.in_flight.load(Relaxed) == 0 { api::CLOSING_MS } else { api::DRAIN_MAX_MS }
    }

    fn observation(&self, authenticated: bool) -> Observation {
        Observation {
            progress: self.progress.load(Relaxed),
            in_flight: self.in_flight.load(Relaxed),
            unread: self.unread.load(Relaxed),
            authenticated,
        }
    }
}

/// One request in flight, until dropped.
struct InFlight {
    traffic: Arc<Traffic>,
    unread: bool,
}

impl InFlight {
    fn begin(traffic: Arc<Traffic>) -> Self {
        traffic.in_flight.fetch_add(1, Relaxed);
        traffic.progress.fetch_add(1, Relaxed);
        Self { traffic, unread: false }
    }

    /// Called before a chunk is taken, which means that the client took the one before.
    fn take_chunk(&mut self) {
        self.traffic.progress.fetch_add(1, Relaxed);
        self.set_unread(false);
    }

    fn set_unread(&mut self, unread: bool) {
        match (self.unread, unread) {
            (false, true) => drop(self.traffic.unread.fetch_add(1, Relaxed)),
            (true, false) => drop(self.traffic.unread.fetch_sub(1, Relaxed)),
            (false, false) | (true, true) => {}
        }
        self.unread = unread;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.set_unread(false);
        self.traffic.in_flight.fetch_sub(1, Relaxed);
    }
}

/// The body of a response. Its request is in flight until all of it was taken, or dropped.
struct TrackedBody<A> {
    body: Body,
    in_flight: InFlight,
    _active: A,
}

impl<A: Unpin> HttpBody for TrackedBody<A> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.in_flight.take_chunk();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.in_flight.set_unread(frame.is_some());
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
