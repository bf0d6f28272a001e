//! Connections of callers: over TCP and the Unix socket, each with a deadline for its request heads.

use super::{
    hosts::Peer,
    limits as api,
    metrics::{CONNECTIONS, CONNECTIONS_REFUSED},
};
use crate::{
    backpressure::{WindowBody, WindowIo, WriteWindow},
    connections::{self, Accept, Crowd},
    driver::Stream,
    limits,
};
use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt::TcpUserTimeout};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::debug;

/// Said by hand: there is no place to say it properly.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 116\r\n\
Connection: close\r\nRetry-After: 1\r\n\r\n\
{\"error\":{\"code\":\"too_many\",\"message\":\"too many connections to the API; close some, or try again\",\"retryable\":true}}";

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
                // One that reads nothing would keep its place for ever.
                setsockopt(&stream, TcpUserTimeout, &api::PEER_SILENT_MAX_MS)?;
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
}

/// Serves until told to stop; then waits, so long, for requests in flight.
pub async fn serve(listener: Listener, router: Router, shutdown: CancellationToken) {
    serve_at_most(limits::CONNECTIONS_MAX, listener, router, shutdown).await;
}

async fn serve_at_most(most: usize, listener: Listener, router: Router, shutdown: CancellationToken) {
    let drain = Duration::from_millis(api::DRAIN_MAX_MS);
    let crowd = Crowd { most, share: most, full: FULL, drain, refused: &CONNECTIONS_REFUSED, crew: None };
    let closing = shutdown.clone();
    let talk = move |stream, peer| {
        let (router, closing) = (router.clone(), closing.clone());
        async move {
            let _counted = Counted::new();
            talk(stream, peer, router, closing).await;
        }
    };
    connections::serve(listener, crowd, talk, shutdown).await;
}

async fn talk(stream: Box<dyn Stream>, peer: Peer, router: Router, shutdown: CancellationToken) {
    let window = Arc::<WriteWindow>::default();
    let of_bodies = window.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (mut router, window) = (router.clone(), of_bodies.clone());
        async move { router.call(request).await.map(|response| response.map(|body| WindowBody::to(window, body))) }
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
        // The request in flight is finished below, and no other one is begun.
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "a connection ended badly");
    }
}

/// One open connection in the numbers.
struct Counted;

impl Counted {
    fn new() -> Self {
        CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    async fn ask(stream: &mut TcpStream) -> String {
        // One that is refused may be answered before it asks.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut answer = vec![0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    }

    #[tokio::test]
    async fn one_too_many_is_told_so_and_the_others_are_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let router = Router::new().fallback(async || "served");
        let server = tokio::spawn(serve_at_most(1, Listener::Tcp(listener), router, shutdown.clone()));
        let mut first = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut first).await.ends_with("served"));
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(ask(&mut second).await.starts_with("HTTP/1.1 503 "));
        assert!(ask(&mut first).await.ends_with("served"), "the first one still has its place");
        shutdown.cancel();
        server.await.unwrap();
        assert_eq!(first.read(&mut [0; 1]).await.unwrap(), 0, "an idle connection is closed in the shutdown");
    }

    #[test]
    fn the_answer_that_is_said_by_hand_is_an_answer() {
        connections::check_said_by_hand(FULL);
    }
}
