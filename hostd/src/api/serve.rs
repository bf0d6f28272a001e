//! Serves client connections over TCP and the Unix socket, each with a deadline for its request heads.

use super::{
    connection_permits::{ConnectionLimiter, ConnectionPermit, Eviction},
    limits as api,
    metrics::ApiMetrics,
    peer::Peer,
};
use axum::{Router, body::Body};
use hostd_core::{connection_admission::AdmissionLimits, limits};
use hostd_drivers::Stream;
use hostd_metrics::GaugeGuard;
use hostd_net::{
    backpressure::{SourceWindow, WindowBody, WindowIo, WriteWindow},
    connections::{self, Accept, IpPrefix, ServeOptions},
};
use http_body_util::BodyExt as _;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::{
    resource::{Resource, getrlimit},
    socket::{setsockopt, sockopt::TcpUserTimeout},
};
use std::{convert::Infallible, future::pending, io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, UnixListener},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::debug;

/// A raw response: there is no permit to serve the connection with hyper.
const FULL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 157\r\n\
Connection: close\r\nRetry-After: 1\r\n\r\n\
{\"error\":{\"code\":\"too_many\",\"message\":\"too many connections to the API, in all or from your address; close some, or try again in a moment\",\"retryable\":true}}";

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accept for Listener {
    type Io = Box<dyn Stream>;
    type Peer = Peer;

    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                stream.set_nodelay(true)?;
                // Without it a peer that reads nothing would keep its permit for ever.
                setsockopt(&stream, TcpUserTimeout, &api::TCP_USER_TIMEOUT_MS)?;
                let local = stream.local_addr()?;
                Ok((Box::new(stream), Peer::Tcp { from, local }))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let uid = stream.peer_cred()?.uid();
                Ok((Box::new(stream), Peer::Unix { uid }))
            }
        }
    }

    fn limited_ip(peer: &Peer) -> Option<IpPrefix> {
        match peer {
            Peer::Tcp { from, .. } => IpPrefix::of(from.ip()),
            Peer::Unix { .. } => None,
        }
    }
}

/// Serves until `shutdown`; then waits, up to a limit, for requests in flight.
pub async fn serve(listener: Listener, router: Router, metrics: ApiMetrics, shutdown: CancellationToken) {
    serve_at_most(connections_max(), listener, router, metrics, shutdown).await;
}

/// Connections of each listener: a fraction of the available file descriptors.
pub fn connections_max() -> usize {
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let part = usize::try_from(descriptors / api::CONNECTION_FD_FRACTION).unwrap_or(usize::MAX);
    part.clamp(api::CONNECTIONS_MIN, limits::CONNECTIONS_MAX)
}

async fn serve_at_most(
    all: usize,
    listener: Listener,
    router: Router,
    metrics: ApiMetrics,
    shutdown: CancellationToken,
) {
    let drain = Duration::from_millis(api::DRAIN_MAX_MS);
    let admissions = match &listener {
        Listener::Tcp(_) => Some(ConnectionLimiter::new(AdmissionLimits::of(all))),
        Listener::Unix(_) => None,
    };
    // Evicted connections need a moment to end.
    let waits = admissions.is_some();
    let most = if waits { all + all.div_ceil(4) } else { all };
    let share = all.div_ceil(api::PER_IP_FRACTION);
    let options = ServeOptions {
        connections_max: most,
        queue_when_full: waits,
        per_ip_max: share,
        full_response: FULL_RESPONSE,
        drain_max: drain,
        refused: metrics.connections_refused.clone(),
        threads: None,
    };
    let closing = shutdown.clone();
    let on_connection = move |stream, peer| {
        let (router, closing) = (router.clone(), closing.clone());
        let permit = admissions.as_ref().map(ConnectionLimiter::open);
        let counted = GaugeGuard::new(&metrics.connections);
        async move {
            let _counted = counted;
            let evicted = evicted(permit.clone());
            let serving =
                serve_connection(stream, ClientConnection { peer, permit }, router, (closing, evicted));
            serving.await;
        }
    };
    connections::serve(listener, options, on_connection, shutdown).await;
}

/// Returns when the connection is evicted.
async fn evicted(permit: Option<Arc<ConnectionPermit>>) -> Eviction {
    match permit {
        Some(permit) => permit.evicted().await,
        None => pending().await,
    }
}

/// The peer of a connection, and its permit if the listener has permits.
struct ClientConnection {
    peer: Peer,
    permit: Option<Arc<ConnectionPermit>>,
}

async fn serve_connection(
    stream: Box<dyn Stream>,
    client: ClientConnection,
    router: Router,
    (shutdown, evicted): (CancellationToken, impl Future<Output = Eviction>),
) {
    let window = Arc::<WriteWindow>::default();
    let of_bodies = window.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client.peer);
        request.extensions_mut().insert(SourceWindow(of_bodies.clone()));
        let busy = client.permit.as_ref().map(|permit| {
            request.extensions_mut().insert(permit.clone());
            permit.begin()
        });
        let (mut router, window) = (router.clone(), of_bodies.clone());
        async move {
            let response = router.call(request).await?;
            // The request is in flight until all of the body was sent, or dropped.
            let held = |body: Body| {
                body.map_frame(move |frame| {
                    let _busy = &busy;
                    frame
                })
            };
            Ok::<_, Infallible>(response.map(|body| WindowBody::to(window, held(body))))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_TIMEOUT_MS))
        .max_buf_size(api::HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(WindowIo::new(stream, window)), service)
        .with_upgrades();
    let mut connection = Box::pin(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // The request in flight is finished below; no other one is started.
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        eviction = evicted => match eviction {
            Eviction::Immediate => return,
            Eviction::AfterResponse => {
                connection.as_mut().graceful_shutdown();
                // A peer that does not read the rest of its response must not keep the permit.
                let closing = Duration::from_millis(api::CLOSING_MS);
                timeout(closing, connection).await.unwrap_or(Ok(()))
            }
        },
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended with an error");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use tokio::{
        io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
        net::{TcpStream, UnixStream},
    };

    async fn request(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
        // A refused connection may be answered before the request is sent.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut answer = vec![0; 1024];
        let length = stream.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    fn serving(all: usize, listener: Listener) -> (CancellationToken, tokio::task::JoinHandle<()>) {
        let shutdown = CancellationToken::new();
        let router = Router::new().fallback(async || "served");
        let server =
            tokio::spawn(serve_at_most(all, listener, router, ApiMetrics::default(), shutdown.clone()));
        (shutdown, server)
    }

    #[tokio::test]
    async fn a_connection_over_the_limit_on_the_unix_socket_gets_503() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (shutdown, server) = serving(1, Listener::Unix(UnixListener::bind(&path).unwrap()));
        let mut first = UnixStream::connect(&path).await.unwrap();
        assert!(request(&mut first).await.ends_with("served"));
        let mut second = UnixStream::connect(&path).await.unwrap();
        assert!(request(&mut second).await.starts_with("HTTP/1.1 503 "));
        assert!(request(&mut first).await.ends_with("served"), "the first one still has its place");
        shutdown.cancel();
        server.await.unwrap();
        assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0, "an idle connection is closed in the shutdown");
    }

    #[tokio::test]
    async fn idle_connections_without_a_token_are_evicted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Two permits for connections without a token.
        let (shutdown, server) = serving(16, Listener::Tcp(listener));
        let mut open = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(request(&mut stream).await.ends_with("served"));
            open.push(stream);
        }
        for (number, stream) in open.iter_mut().enumerate() {
            let served = request(stream).await.ends_with("served");
            assert_eq!(served, number >= 38, "connection {number}");
        }
        shutdown.cancel();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_stalled_reader_bounds_what_is_buffered() {
        const PIECE_BYTES: usize = 10_000;
        let taken = Arc::<std::sync::atomic::AtomicUsize>::default();
        let count = taken.clone();
        let router = Router::new().fallback(async move || {
            let endless = std::iter::repeat_with(move || {
                count.fetch_add(PIECE_BYTES, Ordering::Relaxed);
                Ok::<_, Infallible>(vec![b'x'; PIECE_BYTES])
            });
            Body::from_stream(futures_util::stream::iter(endless))
        });
        let (near, mut far) = tokio::io::duplex(1024);
        let client = ClientConnection { peer: Peer::Unix { uid: 0 }, permit: None };
        let served = serve_connection(Box::new(near), client, router, (CancellationToken::new(), pending()));
        let reading = async {
            far.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            let held = taken.load(Ordering::Relaxed);
            assert!((1..=64 << 10).contains(&held), "{held} bytes were taken");
            // A reader that goes on gets more.
            far.read_exact(&mut vec![0; 1 << 20]).await.unwrap();
            assert!(taken.load(Ordering::Relaxed) > 1 << 20);
        };
        tokio::select! {
            () = served => panic!("it ended"),
            () = reading => {}
        }
    }

    #[test]
    fn the_raw_response_is_valid_http() {
        connections::check_raw_response(FULL_RESPONSE);
    }
}
