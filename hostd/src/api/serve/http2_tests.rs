//! HTTP/2 on one connection, with a client that reads slowly or not at all.

use super::*;
use axum::http::StatusCode;
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::{io::duplex, task::JoinHandle};

const PIECE_BYTES: usize = 10_000;

type Client = SendRequest<Empty<Bytes>>;

/// A server whose responses never end, and which counts what it gave of them.
fn endless(taken: &Arc<AtomicUsize>) -> Router {
    let taken = taken.clone();
    Router::new().fallback(async move || {
        let pieces = std::iter::repeat_with(move || {
            taken.fetch_add(PIECE_BYTES, Relaxed);
            Ok::<_, Infallible>(vec![b'x'; PIECE_BYTES])
        });
        Body::from_stream(futures_util::stream::iter(pieces))
    })
}

/// A client connected to that router, by a connection that has no permit or this one.
async fn connected(
    router: Router,
    permit: Option<Arc<ConnectionPermit>>,
) -> (Client, JoinHandle<hyper::Result<()>>, CancellationToken) {
    let (near, far) = duplex(64 << 10);
    let shutdown = CancellationToken::new();
    let serving = Serving { router, metrics: ApiMetrics::default(), shutdown: shutdown.clone() };
    let client = ClientConnection { peer: Peer::Unix { uid: 0 }, permit };
    let served = tokio::spawn(http2::serve(Box::new(near), client, serving));
    // Windows as large as they may be: what bounds the server is not the client's restraint.
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 30)
        .handshake(TokioIo::new(far))
        .await
        .unwrap();
    tokio::spawn(connection);
    (sender, served, shutdown)
}

async fn get(client: &mut Client) -> hyper::Result<hyper::Response<Incoming>> {
    client.send_request(Request::get("https://localhost/").body(Empty::new()).unwrap()).await
}

fn permit() -> Arc<ConnectionPermit> {
    ConnectionLimiter::new(AdmissionLimits::of(16)).open()
}

#[tokio::test]
async fn stalled_readers_of_one_connection_bound_what_is_buffered() {
    const STREAMS: usize = 20;
    let taken = Arc::default();
    let (mut client, served, _shutdown) = connected(endless(&taken), None).await;
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(get(&mut client).await.unwrap());
    }
    let mut before = 0;
    // Until nothing moves any more.
    while before != taken.load(Relaxed) {
        before = taken.load(Relaxed);
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }
    // The window of the client, and what the server holds beside it.
    let most = STREAMS * ((1 << 20) + api::HTTP2_SEND_BUFFER_BYTES + 3 * PIECE_BYTES);
    assert!(before <= most, "{before} bytes were taken, {most} at most");
    // One that goes on reading gets more, while the others stand still.
    let mut reader = open.pop().unwrap().into_body();
    let mut read = 0;
    while read < 8 << 20 {
        read += reader.frame().await.unwrap().unwrap().data_ref().unwrap().len();
    }
    assert!(taken.load(Relaxed) - before < (10 << 20), "only the reader's stream moves");
    drop(open);
    served.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_requests_is_closed_and_one_with_a_quiet_stream_is_not() {
    let quiet = Router::new()
        .fallback(async || Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, Infallible>>()));
    let (mut client, served, _shutdown) = connected(quiet, Some(permit())).await;
    let stream = get(&mut client).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!served.is_finished(), "the stream has no news, that is all");
    drop(stream);
    // The client may have hung up first.
    let _ = served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_authenticated_and_reads_nothing_is_closed() {
    let taken = Arc::default();
    let (mut client, served, _shutdown) = connected(endless(&taken), Some(permit())).await;
    let _unread = get(&mut client).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), served).await;
    let _ = ended.expect("closed").unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_eviction_ends_the_connection_and_its_requests() {
    let limiter = ConnectionLimiter::new(AdmissionLimits { unauthenticated: 1, callers: 1, reserved: 1 });
    let taken = Arc::default();
    let (mut client, served, _shutdown) = connected(endless(&taken), Some(limiter.open())).await;
    let response = get(&mut client).await.unwrap();
    let _replacing = limiter.open();
    let _ = served.await.unwrap();
    let mut body = response.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    assert!(get(&mut client).await.is_err());
}

#[tokio::test]
async fn requests_in_flight_are_finished_at_a_shutdown() {
    let (begun, go_on) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
    let signals = (begun.clone(), go_on.clone());
    let router = Router::new().fallback(async move || {
        signals.0.notify_one();
        signals.1.notified().await;
        "done"
    });
    let (mut client, served, shutdown) = connected(router, None).await;
    let mut other = client.clone();
    let (answer, ()) = tokio::join!(get(&mut client), async {
        begun.notified().await;
        shutdown.cancel();
        go_on.notify_one();
    });
    let answer = answer.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "done");
    let _ = served.await.unwrap();
    assert!(get(&mut other).await.is_err());
}
