//! A call over TLS against the same call without: on a connection that is kept, and on a new one.

use crate::{
    host::{spec, start_with},
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper::{Request, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::{Duration, Instant};
use tests::https::{Certificate, LOOPBACK};
use tests::{Caller, Hostd, scaled};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Calls of one kind before the other has its turn.
const TURN: usize = 50;

pub async fn rows() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, 2)?;
    let quiet = ("SLIPWAY_LOG", "warn");
    let plain = Endpoint::of(start_with(&[quiet]).await?, None).await?;
    let variables = [&[quiet][..], &certificate.variables()?].concat();
    let encrypted = Endpoint::of(start_with(&variables).await?, Some(certificate)).await?;
    let mut rows = kept(&plain, &encrypted).await?;
    rows.push(new(&plain, &encrypted).await?);
    plain.hostd.stop().await?;
    encrypted.hostd.stop().await?;
    Ok(rows)
}

/// A hostd, and a sandbox to ask for.
struct Endpoint {
    hostd: Hostd,
    certificate: Option<Certificate>,
    authority: String,
    path: String,
    token: String,
}

impl Endpoint {
    async fn of(hostd: Hostd, certificate: Option<Certificate>) -> Result<Self> {
        let local: Caller = hostd.local();
        let path = format!("/v1/sandboxes/{}", local.create(&spec()).await?);
        let token = std::fs::read_to_string(hostd.data().join("token"))?.trim().to_owned();
        let authority = hostd.url().trim_start_matches("http://").trim_start_matches("https://").to_owned();
        Ok(Self { hostd, certificate, authority, path, token })
    }

    fn request(&self, target: String) -> Result<Request<Empty<Bytes>>> {
        let request = Request::get(target).header("authorization", format!("Bearer {}", self.token));
        Ok(request.body(Empty::new())?)
    }

    async fn connect(&self, protocol: &[u8]) -> Result<Box<dyn Connection>> {
        Ok(match &self.certificate {
            Some(certificate) => {
                Box::new(certificate.connect_for(protocol, &self.authority, "localhost").await?)
            }
            None => Box::new(TcpStream::connect(&self.authority).await?),
        })
    }

    async fn http1(&self) -> Result<http1::SendRequest<Empty<Bytes>>> {
        let stream = self.connect(b"http/1.1").await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn http2(&self) -> Result<http2::SendRequest<Empty<Bytes>>> {
        let stream = self.connect(b"h2").await?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn call_http1(&self, sender: &mut http1::SendRequest<Empty<Bytes>>) -> Result<Duration> {
        let mut request = self.request(self.path.clone())?;
        request.headers_mut().insert("host", self.authority.parse()?);
        let started = Instant::now();
        sender.ready().await?;
        taken(sender.send_request(request).await?, started).await
    }

    async fn call_http2(&self, sender: &mut http2::SendRequest<Empty<Bytes>>) -> Result<Duration> {
        let request = self.request(format!("https://{}{}", self.authority, self.path))?;
        let started = Instant::now();
        taken(sender.send_request(request).await?, started).await
    }
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The time until the whole response has come, which must be a good one.
async fn taken(response: hyper::Response<Incoming>, started: Instant) -> Result<Duration> {
    ensure!(response.status() == 200, "{response:?}");
    response.into_body().collect().await?;
    Ok(started.elapsed())
}

async fn kept(plain: &Endpoint, encrypted: &Endpoint) -> Result<Vec<Row>> {
    let (mut first, mut second) = (plain.http1().await?, encrypted.http1().await?);
    let mut third = encrypted.http2().await?;
    let (mut clear, mut tls, mut tls_http2) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scaled(60, 600) {
        for _ in 0..TURN {
            clear.push(plain.call_http1(&mut first).await?);
        }
        for _ in 0..TURN {
            tls.push(encrypted.call_http1(&mut second).await?);
        }
        for _ in 0..TURN {
            tls_http2.push(encrypted.call_http2(&mut third).await?);
        }
    }
    let clear = median(clear);
    let row = |what: &'static str, ours: Duration, goal| Row {
        what: what.into(),
        ours: ms(ours),
        other: format!("without TLS {}", ms(clear)),
        ratio: ratio(ours, clear),
        goal,
    };
    Ok(vec![
        row("call over TLS, kept connection", median(tls), Goal::AtMost(1.2)),
        row("call over TLS and HTTP/2, kept", median(tls_http2), Goal::Shown),
    ])
}

async fn new(plain: &Endpoint, encrypted: &Endpoint) -> Result<Row> {
    let (mut clear, mut tls) = (Vec::new(), Vec::new());
    for _ in 0..scaled(200, 2000) {
        for (endpoint, times) in [(plain, &mut clear), (encrypted, &mut tls)] {
            let started = Instant::now();
            let mut sender = endpoint.http1().await?;
            endpoint.call_http1(&mut sender).await?;
            times.push(started.elapsed());
        }
    }
    let (ours, other) = (median(tls), median(clear));
    Ok(Row {
        what: "call over TLS, new connection".into(),
        ours: ms(ours),
        other: format!("without TLS {}", ms(other)),
        ratio: ratio(ours, other),
        goal: Goal::Shown,
    })
}
