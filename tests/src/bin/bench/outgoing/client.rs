//! The measuring client, run inside a sandbox or on the host: the same program, so that only the path
//! differs. It executes one line of JSON and prints one line of JSON.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The word that makes this program the client; the load is in the variable that tasks have their prompt in.
pub const WORD: &str = "ask";
pub const LOAD: &str = "SLIPWAY_PROMPT";
/// Stands before the time at which a chunk was sent, in nanoseconds.
pub const STAMP: &str = "sent-at-";
const HEAD_MAX_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    pub way: Route,
    pub path: String,
    /// Sent as it is; a request without one is a GET.
    pub body: Option<String>,
    pub connections: usize,
    /// So many requests in a row on each connection.
    pub requests: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Route {
    /// Straight to this address.
    Direct(String),
    /// Through the gateway, as the environment says.
    Gateway,
    /// Through the proxy of the environment to this address: by a tunnel, or with the whole address in the request.
    Tunnel(String),
    Absolute(String),
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Measured {
    pub requests: usize,
    pub bytes: u64,
    pub seconds: f64,
    /// Of each request, from its first byte to the last of its answer.
    pub p50_us: f64,
    pub p99_us: f64,
    /// Of each chunk with a stamp, from when it was sent.
    pub chunks: usize,
    pub chunk_p50_us: f64,
    pub chunk_p99_us: f64,
}

/// Does what the environment says and prints what was measured.
pub async fn run() -> Result<()> {
    let load: Load = serde_json::from_str(&std::env::var(LOAD).context("no load")?)?;
    println!("{}", serde_json::to_string(&measure(&load).await?)?);
    Ok(())
}

async fn measure(load: &Load) -> Result<Measured> {
    // Connected, and asked once, before anything is measured.
    let mut lines = Vec::new();
    for _ in 0..load.connections {
        let mut line = Line::open(&load.way).await?;
        line.ask(load, &mut Samples::default()).await?;
        lines.push(line);
    }
    let begun = Instant::now();
    let all = lines.into_iter().map(|line| drive(line, load));
    let seen = futures_util::future::try_join_all(all).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut whole = Samples::default();
    for one in seen {
        whole.times.extend(one.times);
        whole.chunks.extend(one.chunks);
        whole.bytes += one.bytes;
    }
    whole.times.sort_unstable();
    whole.chunks.sort_unstable();
    Ok(Measured {
        requests: whole.times.len(),
        bytes: whole.bytes,
        seconds,
        p50_us: at(&whole.times, 0.5),
        p99_us: at(&whole.times, 0.99),
        chunks: whole.chunks.len(),
        chunk_p50_us: at(&whole.chunks, 0.5),
        chunk_p99_us: at(&whole.chunks, 0.99),
    })
}

async fn drive(mut line: Line, load: &Load) -> Result<Samples> {
    let mut seen = Samples::default();
    for _ in 0..load.requests {
        line.ask(load, &mut seen).await?;
    }
    Ok(seen)
}

fn at(sorted: &[Duration], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

#[derive(Default)]
struct Samples {
    times: Vec<Duration>,
    chunks: Vec<Duration>,
    bytes: u64,
}

/// A connection that is reused for every request.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// The prefix of the path, and the headers that this route needs.
    prefix: String,
    headers: Vec<(&'static str, String)>,
}

impl Line {
    async fn open(way: &Route) -> Result<Self> {
        let variable = |name: &str| std::env::var(name).with_context(|| format!("no {name}"));
        match way {
            Route::Direct(address) => {
                let headers = vec![("host", address.clone()), ("x-api-key", "direct".to_owned())];
                Self::over(TcpStream::connect(address).await?, String::new(), headers).await
            }
            Route::Gateway => {
                let url = variable("PROBE_URL")?;
                let rest = url.strip_prefix("http://").context("http")?;
                let (address, prefix) = rest.split_once('/').context("a path")?;
                let headers = vec![("host", address.to_owned()), ("x-api-key", variable("PROBE_KEY")?)];
                Self::over(TcpStream::connect(address).await?, format!("/{prefix}"), headers).await
            }
            Route::Tunnel(target) => {
                let (address, user) = proxy(&variable("HTTP_PROXY")?)?;
                let mut stream = TcpStream::connect(&address).await?;
                let ask = format!(
                    "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: {user}\r\n\r\n"
                );
                stream.write_all(ask.as_bytes()).await?;
                established(&mut stream).await?;
                Self::over(stream, String::new(), vec![("host", target.clone())]).await
            }
            Route::Absolute(target) => {
                let (address, user) = proxy(&variable("HTTP_PROXY")?)?;
                let headers = vec![("host", target.clone()), ("proxy-authorization", user)];
                Self::over(TcpStream::connect(&address).await?, format!("http://{target}"), headers).await
            }
        }
    }

    async fn over(stream: TcpStream, prefix: String, headers: Vec<(&'static str, String)>) -> Result<Self> {
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender, prefix, headers })
    }

    async fn ask(&mut self, load: &Load, seen: &mut Samples) -> Result<()> {
        let body = load.body.clone();
        let method = if body.is_some() { "POST" } else { "GET" };
        let mut request = Request::builder().method(method).uri(format!("{}{}", self.prefix, load.path));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.header("content-type", "application/json");
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())))?;
        self.sender.ready().await?;
        let begun = Instant::now();
        let response = self.sender.send_request(request).await?;
        read(response, seen).await?;
        seen.times.push(begun.elapsed());
        Ok(())
    }
}

async fn read(response: Response<Incoming>, seen: &mut Samples) -> Result<()> {
    let status = response.status();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(&data));
        seen.bytes += data.len() as u64;
        if let Some(sent) = stamp_in(&data) {
            seen.chunks.push(now()?.saturating_sub(sent));
        }
    }
    ensure!(status == 200, "{status}");
    Ok(())
}

/// The time in the first of the stamps: what was sent together is counted once.
fn stamp_in(data: &[u8]) -> Option<Duration> {
    let from = memchr::memmem::find(data, STAMP.as_bytes())? + STAMP.len();
    let digits = data[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let nanos: u64 = std::str::from_utf8(&data[from..from + digits]).ok()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Of the clock that is the same in every sandbox of a machine.
pub fn now() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}

/// Address and credential in `http://user:password@address`.
fn proxy(url: &str) -> Result<(String, String)> {
    use base64::Engine;
    let rest = url.strip_prefix("http://").context("http")?.trim_end_matches('/');
    let (user, address) = rest.split_once('@').unwrap_or(("", rest));
    let user = base64::engine::general_purpose::STANDARD.encode(user);
    Ok((address.to_owned(), format!("Basic {user}")))
}

/// Reads the answer to CONNECT, and nothing after it.
async fn established(stream: &mut TcpStream) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_MAX_BYTES, "the answer has no end");
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head);
    ensure!(text.starts_with("HTTP/1.1 200"), "{text}");
    Ok(())
}
