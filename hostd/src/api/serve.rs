//! Serves client connections over TCP, with or without TLS, and the Unix socket, each with a deadline for its handshake
//! and its request heads.
//!
//! ```text
//!  accept ─▶ permit ─▶ TLS handshake, ALPN ─┬─▶ http1: one request at a time, WebSockets
//!                 └──▶ clear text ──────────┤
//!                                           └─▶ http2 (TLS only): many requests at a time
//! ```

mod http1;
mod http2;
#[cfg(test)]
mod http2_tests;
#[cfg(test)]
mod tests;

use super::{
    connection_permits::{ActiveRequest, ConnectionLimiter, ConnectionPermit, Eviction},
    limits as api,
    metrics::ApiMetrics,
    peer::Peer,
};
use axum::{Router, body::Body, response::Response};
use bytes::Bytes;
use hostd_core::{connection_admission::AdmissionLimits, limits};
use hostd_drivers::Stream;
use hostd_metrics::GaugeGuard;
use hostd_net::{
    connections::{self, Accept, IpPrefix, ServeOptions},
    tls::Tls,
};
use hyper::{Request, body::Body as HttpBody};
use nix::sys::{
    resource::{Resource, getrlimit},
    socket::{setsockopt, sockopt::TcpUserTimeout},
};
use std::{convert::Infallible, future::pending, io, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::debug;

/// A raw response: there is no permit to serve the connection with hyper.
const FULL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 157\r\n\
Connection: close\r\nRetry-After: 1\r\n\r\n\
{\"error\":{\"code\":\"too_many\",\"message\":\"too many connections to the API, in all or from your address; close some, or try again in a moment\",\"retryable\":true}}";
/// The same where TLS is spoken: a fatal alert, internal_error.
const FULL_ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

pub enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener, Tls),
    Unix(UnixListener),
}

struct TcpClients {
    listener: TcpListener,
    encrypted: bool,
}

impl Accept for TcpClients {
    type Io = TcpStream;
    type Peer = Peer;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, from) = self.listener.accept().await?;
        stream.set_nodelay(true)?;
        // Without it a peer that reads nothing would keep its permit for ever.
        setsockopt(&stream, TcpUserTimeout, &api::TCP_USER_TIMEOUT_MS)?;
        let peer = Peer::Tcp { from, local: stream.local_addr()?, encrypted: self.encrypted };
        Ok((stream, peer))
    }

    fn limited_ip(peer: &Peer) -> Option<IpPrefix> {
        match peer {
            Peer::Tcp { from, .. } => IpPrefix::of(from.ip()),
            Peer::Unix { .. } => None,
        }
    }
}

struct UnixClients(UnixListener);

impl Accept for UnixClients {
    type Io = UnixStream;
    type Peer = Peer;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.0.accept().await?;
        let uid = stream.peer_cred()?.uid();
        Ok((stream, Peer::Unix { uid }))
    }
}

/// What all connections of a listener share.
#[derive(Clone)]
struct Serving {
    router: Router,
    metrics: ApiMetrics,
    shutdown: CancellationToken,
}

/// Serves until `shutdown`; then waits, up to a limit, for requests in flight.
pub async fn serve(listener: Listener, router: Router, metrics: ApiMetrics, shutdown: CancellationToken) {
    serve_at_most(connections_max(), listener, Serving { router, metrics, shutdown }).await;
}

/// Connections of each listener: a fraction of the available file descriptors.
pub fn connections_max() -> usize {
    let (descriptors, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    let part = usize::try_from(descriptors / api::CONNECTION_FD_FRACTION).unwrap_or(usize::MAX);
    part.clamp(api::CONNECTIONS_MIN, limits::CONNECTIONS_MAX)
}

async fn serve_at_most(all: usize, listener: Listener, serving: Serving) {
    let options = ServeOptions {
        connections_max: all,
        queue_when_full: false,
        per_ip_max: all.div_ceil(api::PER_IP_FRACTION),
        full_response: FULL_RESPONSE,
        drain_max: Duration::from_millis(api::DRAIN_MAX_MS),
        refused: serving.metrics.connections_refused.clone(),
        threads: None,
    };
    // Evicted connections need a moment to end.
    let with_evictions = |options: ServeOptions| ServeOptions {
        connections_max: all + all.div_ceil(4),
        queue_when_full: true,
        ..options
    };
    let permits = || Some(ConnectionLimiter::new(AdmissionLimits::of(all)));
    match listener {
        Listener::Tcp(listener) => {
            let clients = TcpClients { listener, encrypted: false };
            serve_clients(clients, with_evictions(options), permits(), serving, clear_text).await;
        }
        Listener::Tls(listener, tls) => {
            let clients = TcpClients { listener, encrypted: true };
            let options = ServeOptions { full_response: FULL_ALERT, ..with_evictions(options) };
            let handshake = move |stream| encrypted(tls.clone(), stream);
            serve_clients(clients, options, permits(), serving, handshake).await;
        }
        Listener::Unix(listener) => {
            serve_clients(UnixClients(listener), options, None, serving, clear_text).await;
        }
    }
}

/// A connection on which HTTP is spoken.
enum HttpStream {
    Http1(Box<dyn Stream>),
    Http2(Box<dyn Stream>),
}

async fn clear_text(stream: impl Stream) -> io::Result<HttpStream> {
    Ok(HttpStream::Http1(Box::new(stream)))
}

async fn encrypted(tls: Tls, stream: TcpStream) -> io::Result<HttpStream> {
    let stream = tls.accept(stream).await?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream: Box<dyn Stream> = Box::new(stream);
    Ok(if http2 { HttpStream::Http2(stream) } else { HttpStream::Http1(stream) })
}

async fn serve_clients<L, F>(
    clients: L,
    options: ServeOptions,
    permits: Option<ConnectionLimiter>,
    serving: Serving,
    handshake: impl Fn(L::Io) -> F,
) where
    L: Accept<Peer = Peer>,
    F: Future<Output = io::Result<HttpStream>> + Send + 'static,
{
    let shutdown = serving.shutdown.clone();
    let on_connection = move |stream, peer| {
        let permit = permits.as_ref().map(ConnectionLimiter::open);
        let counted = GaugeGuard::new(&serving.metrics.connections);
        let (handshake, serving) = (handshake(stream), serving.clone());
        async move {
            let _counted = counted;
            serve_connection(handshake, ClientConnection { peer, permit }, serving).await;
        }
    };
    connections::serve(clients, options, on_connection, shutdown).await;
}

/// The peer of a connection, and its permit if the listener has permits.
#[derive(Clone)]
struct ClientConnection {
    peer: Peer,
    permit: Option<Arc<ConnectionPermit>>,
}

impl ClientConnection {
    /// Returns when the connection is evicted.
    async fn evicted(&self) -> Eviction {
        match &self.permit {
            Some(permit) => permit.evicted().await,
            None => pending().await,
        }
    }

    /// Whether a request on it was authenticated. Always on the Unix socket.
    fn is_authenticated(&self) -> bool {
        self.permit.as_ref().is_none_or(|permit| permit.is_authenticated())
    }

    /// Passes a request to the router, and returns its response. The request is in flight until the other value is
    /// dropped.
    async fn respond<B>(
        &self,
        mut router: Router,
        mut request: Request<B>,
        active: Option<Arc<ActiveRequest>>,
    ) -> Result<(Response<Body>, Option<Arc<ActiveRequest>>), Infallible>
    where
        B: HttpBody<Data = Bytes, Error = hyper::Error> + Send + 'static,
    {
        request.extensions_mut().insert(self.peer);
        if let (Some(permit), Some(active)) = (&self.permit, &active) {
            request.extensions_mut().insert(permit.clone());
            request.extensions_mut().insert(active.clone());
        }
        Ok((router.call(request).await?, active))
    }
}

async fn serve_connection(
    handshake: impl Future<Output = io::Result<HttpStream>>,
    client: ClientConnection,
    serving: Serving,
) {
    let stream = tokio::select! {
        stream = handshake => stream,
        // Nothing was requested yet.
        () = serving.shutdown.cancelled() => return,
        _ = client.evicted() => return,
    };
    let ended = match stream {
        Ok(HttpStream::Http1(stream)) => http1::serve(stream, client, serving).await,
        Ok(HttpStream::Http2(stream)) => http2::serve(stream, client, serving).await,
        Err(error) => {
            debug!(%error, "TLS handshake failed");
            return;
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended with an error");
    }
}
