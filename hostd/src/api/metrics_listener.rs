//! The listener for metrics alone: plain HTTP, `GET /metrics`, without a token. Whoever can connect to its address may
//! read them, so that the operator chooses the address. It serves nothing else, and no other listener serves metrics
//! without a token.

use super::{Api, limits};
use axum::{body::Body, response::Response};
use hostd_core::limits as shared;
use hostd_metrics::Counter;
use hostd_net::connections::{self, Accept, ServeOptions};
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::socket::{setsockopt, sockopt::TcpUserTimeout};
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::debug;

const PATH: &str = "/metrics";

/// A raw response: there is no permit to serve the connection with hyper.
const FULL_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: 1\r\n\r\n";

struct Scrapers(TcpListener);

impl Accept for Scrapers {
    type Io = TcpStream;
    type Peer = ();

    async fn accept(&self) -> io::Result<(TcpStream, ())> {
        let (stream, _) = self.0.accept().await?;
        stream.set_nodelay(true)?;
        // Without it a peer that reads nothing would keep its permit for ever.
        setsockopt(&stream, TcpUserTimeout, &limits::METRICS_USER_TIMEOUT_MS)?;
        Ok((stream, ()))
    }
}

/// Serves until `shutdown`. Returns at once without a listener.
pub async fn serve_metrics(listener: Option<TcpListener>, api: Arc<Api>, shutdown: CancellationToken) {
    let Some(listener) = listener else { return };
    let options = ServeOptions {
        connections_max: limits::METRICS_CONNECTIONS_MAX,
        queue_when_full: false,
        per_ip_max: limits::METRICS_CONNECTIONS_MAX,
        full_response: FULL_RESPONSE,
        drain_max: Duration::from_millis(limits::CLOSING_MS),
        refused: Counter::default(),
        threads: None,
    };
    let closing = shutdown.clone();
    let on_connection = move |stream, ()| serve_connection(stream, api.clone(), closing.clone());
    connections::serve(Scrapers(listener), options, on_connection, shutdown).await;
}

async fn serve_connection(stream: TcpStream, api: Arc<Api>, shutdown: CancellationToken) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, || api.metrics_text());
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(shared::HEAD_TIMEOUT_MS))
        .max_buf_size(limits::METRICS_HEAD_MAX_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = Box::pin(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // The scrape in flight is finished below; no other one is started.
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection to the metrics ended with an error");
    }
}

fn respond<B>(request: &Request<B>, text: impl FnOnce() -> String) -> Response {
    let mut response = Response::new(Body::empty());
    if request.uri().path() != PATH {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if request.method() != Method::GET {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    } else {
        *response.body_mut() = Body::from(text());
        let kind = HeaderValue::from_static(hostd_metrics::CONTENT_TYPE);
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_of_the_metrics_is_served() {
        let table = [
            ("GET", "/metrics", 200),
            ("GET", "/metrics?name=x", 200),
            ("HEAD", "/metrics", 405),
            ("POST", "/metrics", 405),
            ("GET", "/", 404),
            ("GET", "/metrics/", 404),
            ("GET", "/v1/sandboxes", 404),
            ("DELETE", "/v1/sandboxes", 404),
        ];
        for (method, path, expected) in table {
            let request = Request::builder().method(method).uri(path).body(()).expect("a request");
            let mut made = false;
            let response = respond(&request, || {
                made = true;
                String::new()
            });
            assert_eq!((response.status().as_u16(), made), (expected, expected == 200), "{method} {path}");
        }
    }
}
