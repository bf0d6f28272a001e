//! Accepts connections of browsers: HTTP/1.1 and HTTP/2, in clear text or by TLS, one task for each.

use super::{
    limits,
    peeked::PeekedStream,
    request::{ClientConnection, HandedOver, handle},
    response_body::ResponseBody,
    smuggling_guard::{HeadRecorder, RecordedHeads},
    splice::{AppEnd, splice},
    state::Edge,
};
use bytes::Bytes;
use hostd_metrics::GaugeGuard;
use hostd_net::{
    backpressure::{Transfer, WindowBody, WindowIo, WriteWindow},
    connections::{self, Accept, IpPrefix, ServeOptions},
    tls::Tls,
};
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nix::sys::socket::{
    setsockopt,
    sockopt::{KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval, TcpUserTimeout},
};
use std::{future::poll_fn, io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};
use tracing::debug;

/// The response to a connection over the limit, as raw bytes: it gets no HTTP connection that could format
/// one.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 114\r\n\
Connection: close\r\nRetry-After: 1\r\n\r\n\
{\"error\":{\"code\":\"too_many\",\"message\":\"too many connections to previews; try again in a moment\",\"retryable\":true}}";

/// Serves until shutdown; then waits at most `DRAIN_MAX` for requests in flight.
pub async fn serve(listener: TcpListener, edge: Arc<Edge>) {
    let options = ServeOptions {
        connections_max: edge.connections_max,
        queue_when_full: false,
        per_ip_max: edge.per_peer_max(),
        full_response: FULL,
        drain_max: limits::DRAIN_MAX,
        refused: edge.metrics.connections_refused.clone(),
        threads: Some(edge.threads.clone()),
    };
    let closing = edge.closing.clone();
    let serve_connection = move |stream: TcpStream, _| {
        // Deregisters the socket from this thread; the thread that serves it registers it again.
        let (stream, edge) = (stream.into_std(), edge.clone());
        async move {
            match stream.and_then(TcpStream::from_std) {
                Ok(stream) => serve_connection(stream, edge).await,
                Err(error) => debug!(%error, "failed to register an accepted connection"),
            }
        }
    };
    connections::serve(EdgeListener(listener), options, serve_connection, closing).await;
}

struct EdgeListener(TcpListener);

impl Accept for EdgeListener {
    type Io = TcpStream;
    type Peer = IpAddr;

    async fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (stream, from) = self.0.accept().await?;
        stream.set_nodelay(true)?;
        // Upgraded connections may be silent for ever; a dead peer must be noticed all the same.
        setsockopt(&stream, KeepAlive, &true)?;
        setsockopt(&stream, TcpKeepIdle, &limits::KEEPALIVE_S)?;
        setsockopt(&stream, TcpKeepInterval, &limits::KEEPALIVE_S)?;
        setsockopt(&stream, TcpKeepCount, &3)?;
        setsockopt(&stream, TcpUserTimeout, &limits::PEER_SILENT_MAX_MS)?;
        Ok((stream, from.ip()))
    }

    fn limited_ip(from: &IpAddr) -> Option<IpPrefix> {
        IpPrefix::of(*from)
    }
}

async fn serve_connection(stream: TcpStream, edge: Arc<Edge>) {
    let ended = match &edge.tls {
        Some(tls) => serve_tls(stream, tls.clone(), edge).await,
        None => serve_clear_text(stream, edge).await,
    };
    if let Err(error) = ended {
        debug!(%error, "preview connection ended with an error");
    }
}

async fn serve_clear_text(stream: TcpStream, edge: Arc<Edge>) -> io::Result<()> {
    let (http2, stream) = tokio::select! {
        // Nothing was requested yet.
        () = edge.closing.cancelled() => return Ok(()),
        peeked = timeout(limits::HEAD_MAX, PeekedStream::detect_http2(stream)) => peeked??,
    };
    serve_http(http2, stream, edge).await
}

async fn serve_tls(stream: TcpStream, tls: Tls, edge: Arc<Edge>) -> io::Result<()> {
    let stream = tokio::select! {
        // Nothing was requested yet.
        () = edge.closing.cancelled() => return Ok(()),
        stream = tls.accept(stream) => stream?,
    };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    serve_http(http2, stream, edge).await
}

/// Boxed, so that the memory of HTTP is freed before a connection is upgraded.
async fn serve_http<T>(http2: bool, stream: T, edge: Arc<Edge>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if http2 {
        return Box::pin(serve_http2(stream, edge)).await;
    }
    let upgraded = Box::pin(serve_http1(stream, edge.clone())).await?;
    let Some(Upgraded { stream, sent, app }) = upgraded else { return Ok(()) };
    let _open = GaugeGuard::new(&edge.metrics.upgraded_connections);
    let spliced = Box::pin(splice(stream, sent, app, &*edge.waker));
    // When hostd ends, both ends see the connection closed, as when it is killed.
    edge.closing.run_until_cancelled(spliced).await.unwrap_or(Ok(()))
}

/// A connection that carries bytes between browser and app from here on.
struct Upgraded<T> {
    stream: T,
    /// Bytes that were read from the browser already.
    sent: Bytes,
    app: AppEnd,
}

async fn serve_http1<T>(stream: T, edge: Arc<Edge>) -> io::Result<Option<Upgraded<T>>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let heads = Arc::new(RecordedHeads::default());
    let window = Arc::<WriteWindow>::default();
    let client = Arc::new(ClientConnection::http1(edge.clone(), heads.clone(), window.clone()));
    let service = {
        let (client, window) = (client.clone(), window.clone());
        service_fn(move |request: Request<Incoming>| {
            let (response, window) = (handle(client.clone(), request), window.clone());
            Box::pin(async move {
                let bounded = |body: ResponseBody| {
                    let transfer = Transfer::new(body.source(), window);
                    WindowBody::new(body, transfer)
                };
                Ok::<_, HandedOver>(response.await?.map(bounded))
            })
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_MAX)
        .max_header_size(limits::HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(WindowIo::new(HeadRecorder::new(stream, heads), window)), service);
    let ended = tokio::select! {
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => ended,
        // The request in flight is finished below, and no other one is begun.
        () = edge.closing.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|cx| connection.poll_without_shutdown(cx)).await
        }
    };
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner().into_inner().stream;
    if let Some(app) = client.take_app_end() {
        return Ok(Some(Upgraded { stream, sent: parts.read_buf, app }));
    }
    ended.map_err(io::Error::other)?;
    stream.shutdown().await?;
    Ok(None)
}

pub(super) async fn serve_http2<T>(stream: T, edge: Arc<Edge>) -> io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = Arc::new(ClientConnection::http2(edge.clone()));
    let requested = Arc::new(Notify::new());
    let service = {
        let requested = requested.clone();
        service_fn(move |request: Request<Incoming>| {
            requested.notify_one();
            Box::pin(handle(client.clone(), request))
        })
    };
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(limits::KEEPALIVE_S.into()))
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits::HEAD_MAX_BYTES).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let silent = async { while timeout(limits::HEAD_MAX, requested.notified()).await.is_ok() {} };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // `silent` only waits. Requests in flight are finished, and no new one is accepted.
        _ = edge.closing.run_until_cancelled(silent) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    ended.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::FULL;

    #[test]
    fn the_raw_response_is_well_formed() {
        hostd_net::connections::check_raw_response(FULL);
    }
}
