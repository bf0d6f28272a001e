//! One request and its response: the connection is allowed by `reach`, has TLS unless the server is this machine, and is
//! kept for the next request.

use super::{
    reach::Reach,
    url::{Origin, Url},
    waits::Waits,
};
use crate::{
    RegistryAllowlist,
    limits::{HEAD_MAX_BYTES, PLAIN_SERVERS_MAX, POOLED_ALL_MAX, POOLED_IDLE_MAX_MS, POOLED_MAX},
};
use bytes::Bytes;
use hostd_core::egress::reserved;
use hostd_net::{
    http1::{Http1Connection, Http1Pool, PoolLimits, Pooled, ResponseBody, WhenFull},
    outbound::{OutboundConnector, OutboundError},
};
use http_body_util::Empty;
use hyper::{Request, client::conn::http1::Builder, http::response};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

const LIMITS: PoolLimits = PoolLimits {
    per_key_max: POOLED_MAX,
    all_max: POOLED_ALL_MAX,
    when_full: WhenFull::ReplaceOldest,
    idle_max: Duration::from_millis(POOLED_IDLE_MAX_MS),
};

type Stream = Either<TcpStream, TlsStream<TcpStream>>;
type Connection = Http1Connection<Stream, Empty<Bytes>>;
type Pool = Http1Pool<Origin, Box<Connection>>;

pub struct Transport {
    connector: OutboundConnector,
    allowlist: RegistryAllowlist,
    pool: Arc<Mutex<Pool>>,
    /// Servers of this machine that speak HTTP where TLS was tried.
    plain: Mutex<HashSet<Origin>>,
    waits: Waits,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address policy refuses the server.
    #[error("{why}")]
    NotAllowed { why: String },
    /// A retry may succeed.
    #[error("{why}")]
    Transient { why: String },
    /// There is no such server, or it does not prove that it is the one.
    #[error("{why}")]
    Unreachable { why: String },
    /// A response points to an address that is not followed.
    #[error("{why}")]
    BadRedirect { why: String },
}

/// A response whose body is still to come.
pub struct HttpResponse {
    pub head: response::Parts,
    pub body: TransportBody,
    /// The address that gave the response, without TLS if there was none.
    pub url: Url,
}

/// The body of a response. Its connection is kept when the body has ended.
pub struct TransportBody {
    body: ResponseBody<Stream, Empty<Bytes>>,
    origin: Origin,
    pool: Arc<Mutex<Pool>>,
    /// For the whole body, where it is collected.
    pub collect_max: Duration,
}

/// A connection that was opened for a request.
struct Opened {
    connection: Box<Connection>,
    url: Url,
    /// Why the connection has no TLS although that was tried.
    tls_failure: Option<String>,
}

impl Transport {
    pub fn new(connector: OutboundConnector, allowlist: RegistryAllowlist, waits: Waits) -> Self {
        let pool = Arc::new(Mutex::new(Http1Pool::new(LIMITS)));
        Self { connector, allowlist, pool, plain: Mutex::default(), waits }
    }

    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Sends a request that `make` makes for the header `Host`. Called twice if a kept connection turns out to be
    /// closed.
    pub async fn send(
        &self,
        url: &Url,
        make: impl Fn(&Url) -> Result<Request<Empty<Bytes>>, TransportError>,
    ) -> Result<HttpResponse, TransportError> {
        let reach = Reach::of(url, &self.allowlist).map_err(|why| TransportError::NotAllowed { why })?;
        let is_plain = lock(&self.plain).contains(&url.origin);
        let tried = if is_plain { url.without_tls() } else { url.clone() };
        if let Some(mut connection) = self.take(&tried.origin)
            && let Ok(Ok(response)) = timeout(self.waits.head, connection.send(make(&tried)?)).await
        {
            return Ok(self.response(response, connection, tried));
        }
        let Opened { mut connection, url: used, tls_failure } = self.open(&tried, reach).await?;
        let failed = |why: String| match &tls_failure {
            None => TransportError::Transient { why },
            Some(tls) => TransportError::Transient { why: format!("{tls}; and without TLS: {why}") },
        };
        match timeout(self.waits.head, connection.send(make(&used)?)).await {
            Ok(Ok(response)) => {
                if tls_failure.is_some() {
                    self.remember_plain(url.origin.clone());
                }
                Ok(self.response(response, connection, used))
            }
            Ok(Err(error)) => Err(failed(format!("no response from {used}: {error}"))),
            Err(_) => Err(failed(format!("no response from {used} within {} s", self.waits.head.as_secs()))),
        }
    }

    /// Opens a connection. TLS that fails is left out if the server is this machine, as with Docker.
    async fn open(&self, url: &Url, reach: Reach) -> Result<Opened, TransportError> {
        let stream = self.connect(url, reach).await?;
        let host = url.origin.host.to_string();
        if !url.origin.secure {
            return opened(Either::Left(stream), url.clone(), None).await;
        }
        let is_this_machine = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        match self.connector.connect_tls(&host, stream).await {
            Ok(stream) => opened(Either::Right(stream), url.clone(), None).await,
            Err(error) if is_this_machine && !error.is_timeout() => {
                let plain = url.without_tls();
                let stream = self.connect(&plain, reach).await?;
                opened(Either::Left(stream), plain, Some(error.to_string())).await
            }
            Err(error) if error.is_timeout() => Err(TransportError::Transient { why: error.to_string() }),
            Err(error) => Err(TransportError::Unreachable { why: error.to_string() }),
        }
    }

    /// Connects to an address that the server may have. Without TLS that is only this machine.
    async fn connect(&self, url: &Url, reach: Reach) -> Result<TcpStream, TransportError> {
        let Origin { secure, host, port } = &url.origin;
        let is_allowed = |address: std::net::IpAddr| {
            reach.allows(address) && (*secure || address.to_canonical().is_loopback())
        };
        let connected = self.connector.connect(&host.to_string(), *port, is_allowed).await;
        connected.map_err(|error| match error {
            OutboundError::NotAllowed { address, .. } if reach.allows(address) => {
                TransportError::NotAllowed { why: format!("{url} has no encryption") }
            }
            OutboundError::NotAllowed { address, .. } => {
                let kind = reserved(address).map_or("not public", |kind| kind.label());
                let listed = &url.authority;
                TransportError::NotAllowed {
                    why: format!(
                        "{listed} has the address {address} ({kind}) and is not in SLIPWAY_IMAGE_REGISTRIES, where the operator lists such registries"
                    ),
                }
            }
            OutboundError::NoHost { .. } => TransportError::Unreachable { why: error.to_string() },
            OutboundError::Lookup { .. } | OutboundError::Connect { .. } | OutboundError::Tls { .. } => {
                TransportError::Transient { why: error.to_string() }
            }
        })
    }

    fn response(
        &self,
        response: hyper::Response<hyper::body::Incoming>,
        connection: Box<Connection>,
        url: Url,
    ) -> HttpResponse {
        let (head, incoming) = response.into_parts();
        let body = TransportBody {
            body: ResponseBody::new(incoming, connection),
            origin: url.origin.clone(),
            pool: Arc::clone(&self.pool),
            collect_max: self.waits.document,
        };
        HttpResponse { head, body, url }
    }

    fn take(&self, origin: &Origin) -> Option<Box<Connection>> {
        let now = Instant::now();
        let mut pool = lock(&self.pool);
        pool.prune(now);
        pool.take(origin, now, LIMITS.idle_max, |_| true)
    }

    fn remember_plain(&self, origin: Origin) {
        let mut plain = lock(&self.plain);
        if plain.len() >= PLAIN_SERVERS_MAX {
            plain.clear();
        }
        plain.insert(origin);
    }
}

impl TransportBody {
    /// Returns the next piece, none at the end.
    pub async fn next(&mut self) -> Option<hyper::Result<Bytes>> {
        let next = std::future::poll_fn(|cx| self.body.poll_data(cx)).await;
        if next.is_none()
            && let Some(mut connection) = self.body.take_connection()
            && Pooled::is_reusable(&mut connection)
        {
            lock(&self.pool).put(&self.origin, Instant::now(), connection);
        }
        next
    }
}

async fn opened(stream: Stream, url: Url, tls_failure: Option<String>) -> Result<Opened, TransportError> {
    let connection = Http1Connection::handshake(stream, Builder::new().max_header_size(HEAD_MAX_BYTES)).await;
    let connection = connection.map_err(|error| TransportError::Transient { why: error.to_string() })?;
    Ok(Opened { connection: Box::new(connection), url, tls_failure })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
