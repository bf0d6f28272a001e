//! HTTP/2 on the API: many streams on one connection, and clients that abuse it.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::Request;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::convert::Infallible;
use tempfile::TempDir;
use tests::https::{Certificate, LOOPBACK};
use tests::launch::directory;
use tests::raw_http2::{
    CONTINUATION, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, RawHttp2,
    header_block,
};
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, scaled};
use tokio::time::timeout;

const MB: u64 = 1 << 20;
/// What any of the attacks may add to the memory of hostd. Ten thousand stalled streams take about 60 MB.
const GROWTH_MAX_BYTES: u64 = 128 * MB;
/// Streams that hostd allows on one connection.
const STREAMS_MAX: usize = 100;

struct Target {
    hostd: Hostd,
    certificate: Certificate,
    operator: Caller,
    token: String,
    _dir: TempDir,
}

impl Target {
    async fn start() -> Result<Self> {
        let dir = directory()?;
        let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, 2)?;
        let hostd = Hostd::start_with(&certificate.variables()?).await?;
        let token = std::fs::read_to_string(hostd.data().join("token"))?.trim().to_owned();
        let operator = Caller::tls(hostd.url(), &certificate, Some(&token));
        // What hostd makes once is not growth.
        operator.get("/openapi.json").await?.expect::<Value>(200)?;
        Ok(Self { hostd, certificate, operator, token, _dir: dir })
    }

    fn address(&self) -> &str {
        self.hostd.url().trim_start_matches("https://")
    }

    async fn raw(&self, settings: &[(u16, u32)]) -> Result<RawHttp2> {
        RawHttp2::connect(&self.certificate, self.address(), settings).await
    }

    /// The memory of hostd, as it tells.
    async fn rss_bytes(&self) -> Result<u64> {
        let host: Value = self.hostd.local().get("/v1/host").await?.expect(200)?;
        host["hostd_rss_bytes"].as_u64().context("its memory")
    }

    /// hostd has grown by little since, and serves others.
    async fn is_well(&self, before: u64) -> Result<()> {
        self.operator.get("/v1/sandboxes").await?.expect::<Value>(200)?;
        let now = self.rss_bytes().await?;
        println!("hostd: {} MB, {} MB before", now / MB, before / MB);
        ensure!(now < before + GROWTH_MAX_BYTES, "grew from {} to {} MB", before / MB, now / MB);
        Ok(())
    }

    async fn client<B>(&self) -> Result<SendRequest<B>>
    where
        B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
    {
        let stream = self.certificate.connect_for(b"h2", self.address(), "localhost").await?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>> {
        let request = Request::get(format!("https://{}{path}", self.address()));
        let request = request.header("authorization", format!("Bearer {}", self.token));
        Ok(request.header("accept", "text/event-stream").body(Empty::new())?)
    }
}

/// Reads a stream until it has said something.
async fn reads_until(body: &mut Incoming, sign: &str) -> Result<()> {
    let mut seen = String::new();
    let reading = async {
        while !seen.contains(sign) {
            let Some(frame) = body.frame().await else { bail!("it ended") };
            seen.push_str(&String::from_utf8_lossy(frame?.data_ref().context("data")?));
        }
        Ok(())
    };
    timeout(PATIENCE, reading).await.with_context(|| format!("{sign} never comes"))?
}

#[tokio::test]
async fn twenty_event_streams_share_one_connection() -> Result<()> {
    let target = Target::start().await?;
    let client = target.client().await?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let response = client.clone().send_request(target.request("/v1/events")?).await?;
        ensure!(response.status() == 200, "{response:?}");
        streams.push(response.into_body());
    }
    let id = target.operator.create(&json!({"network": "none"})).await?;
    for stream in &mut streams {
        reads_until(stream, &id).await?;
    }
    // A call on the same connection, beside them.
    let path = format!("/v1/sandboxes/{id}");
    let response = client.clone().send_request(target.request(&path)?).await?;
    ensure!(response.status() == 200, "{response:?}");
    let view: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    ensure!(view["id"] == id, "{view}");
    // What is built of the host has the scheme and the authority.
    let link = Request::post(format!("https://{}{path}/file-links", target.address()))
        .header("authorization", format!("Bearer {}", target.token));
    let body = Full::new(Bytes::from(json!({"method": "GET", "path": "x"}).to_string()));
    let mut other = target.client().await?;
    let response = other.send_request(link.body(body)?).await?;
    let link: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    let origin = format!("https://{}/", target.address());
    ensure!(link["url"].as_str().is_some_and(|url| url.starts_with(&origin)), "{link}");
    drop(other);
    // All of them end when hostd does.
    target.hostd.stop().await?;
    for mut stream in streams {
        let ending = async { while let Some(Ok(_)) = stream.frame().await {} };
        timeout(PATIENCE, ending).await.context("a stream outlives hostd")?;
    }
    Ok(())
}

#[tokio::test]
async fn a_terminal_is_not_offered_on_http2() -> Result<()> {
    let target = Target::start().await?;
    let id = target.operator.create(&json!({})).await?;
    let body = json!({"id": "t", "argv": ["cat"], "tty": true});
    target.operator.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let request = target.request(&format!("/v1/sandboxes/{id}/terminals/t"))?;
    let mut client = target.client().await?;
    let response = client.send_request(request).await?;
    ensure!(response.status() == 400, "{response:?}");
    let said = response.into_body().collect().await?.to_bytes();
    ensure!(String::from_utf8_lossy(&said).contains("open this as a WebSocket"), "{said:?}");
    // Browsers would use HTTP/2 for WebSockets if SETTINGS_ENABLE_CONNECT_PROTOCOL were sent.
    let mut raw = target.raw(&[]).await?;
    let settings = raw.until(|frame| frame.kind == tests::raw_http2::SETTINGS && frame.flags == 0).await?;
    let settings = settings.context("its settings")?.payload;
    ensure!(settings.chunks(6).all(|setting| setting[..2] != [0, 8]), "{settings:?}");
    drop(raw);
    target.hostd.stop().await
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection_or_is_served_and_costs_no_memory() -> Result<()> {
    let target = Target::start().await?;
    let before = target.rss_bytes().await?;
    let bearer = format!("Bearer {}", target.token);
    for headers in [&[][..], &[("authorization", bearer.as_str())]] {
        let mut raw = target.raw(&[]).await?;
        let mut stream = 1;
        for _ in 0..scaled(200, 2000) {
            let mut frames = Vec::new();
            for _ in 0..100 {
                frames.push(Frame::get(stream, "/v1/sandboxes", headers));
                frames.push(Frame::new(RST_STREAM, 0, stream, 8u32.to_be_bytes().to_vec()));
                stream += 2;
            }
            if raw.send(&frames).await.is_err() {
                break;
            }
        }
        target.is_well(before).await?;
    }
    target.hostd.stop().await
}

#[tokio::test]
async fn header_lists_without_an_end_or_too_large_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let before = target.rss_bytes().await?;
    // CONTINUATION frames without an end.
    let mut raw = target.raw(&[]).await?;
    raw.send(&[Frame::new(HEADERS, END_STREAM, 1, header_block("/healthz", &[]))]).await?;
    let more = Frame::new(CONTINUATION, 0, 1, header_block_part(16_000));
    let mut sent = 0;
    while sent < 1_000 && raw.send(std::slice::from_ref(&more)).await.is_ok() {
        sent += 1;
    }
    ensure!(sent < 1_000, "16 MB of one header list were taken");
    target.is_well(before).await?;

    // One that ends, and is too large.
    let mut raw = target.raw(&[]).await?;
    let mut frames = vec![Frame::new(HEADERS, END_STREAM, 1, header_block("/healthz", &[]))];
    frames.extend((0..7).map(|_| Frame::new(CONTINUATION, 0, 1, header_block_part(16_000))));
    frames.push(Frame::new(CONTINUATION, END_HEADERS, 1, Vec::new()));
    // It may hang up before all is sent.
    let _ = raw.send(&frames).await;
    let answer = raw.until(|frame| [HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind)).await?;
    if let Some(answer) = answer.filter(|answer| answer.kind == HEADERS) {
        // 431 has no entry in the static table: it is there as text.
        ensure!(answer.payload.windows(3).any(|part| part == b"431"), "{answer:?}");
    }
    target.is_well(before).await?;
    target.hostd.stop().await
}

/// A header of so many bytes, as a part of a header list.
fn header_block_part(bytes: usize) -> Vec<u8> {
    let (head, value) = (header_block("", &[]).len(), "x".repeat(bytes));
    header_block("", &[("x", &value)]).split_off(head)
}

#[tokio::test]
async fn ten_thousand_stalled_streams_cost_little_and_keep_no_one_out() -> Result<()> {
    let target = Target::start().await?;
    let before = target.rss_bytes().await?;
    let bearer = format!("Bearer {}", target.token);
    let headers = [("authorization", bearer.as_str())];
    let mut stalled = Vec::new();
    // No stream has a window: every body stays with hostd.
    for _ in 0..10_000 / STREAMS_MAX {
        let mut raw = target.raw(&[(INITIAL_WINDOW_SIZE, 0)]).await?;
        let frames: Vec<Frame> = (0..STREAMS_MAX as u32)
            .map(|number| Frame::get(2 * number + 1, "/v1/sandboxes", &headers))
            .collect();
        raw.send(&frames).await?;
        // One answer shows that hostd is at work on this connection.
        raw.until(|frame| frame.kind == HEADERS).await?.context("an answer")?;
        stalled.push(raw);
    }
    // The same without a token, for the largest document that needs none.
    for _ in 0..10 {
        let mut raw = target.raw(&[(INITIAL_WINDOW_SIZE, 0)]).await?;
        let frames: Vec<Frame> =
            (0..STREAMS_MAX as u32).map(|number| Frame::get(2 * number + 1, "/openapi.json", &[])).collect();
        raw.send(&frames).await?;
        raw.until(|frame| frame.kind == HEADERS).await?.context("an answer")?;
        stalled.push(raw);
    }
    target.is_well(before).await?;
    // One more stream than allowed is refused, and not the others.
    let mut raw = target.raw(&[(INITIAL_WINDOW_SIZE, 0)]).await?;
    let last = 2 * STREAMS_MAX as u32 + 1;
    let frames: Vec<Frame> = (0..=STREAMS_MAX as u32)
        .map(|number| Frame::get(2 * number + 1, "/v1/sandboxes", &headers))
        .collect();
    raw.send(&frames).await?;
    let refused = raw.until(|frame| frame.kind == RST_STREAM).await?.context("a refusal")?;
    ensure!(refused.stream == last && refused.payload == 7u32.to_be_bytes(), "REFUSED_STREAM: {refused:?}");
    drop((stalled, raw));
    target.is_well(before).await?;
    target.hostd.stop().await
}
