//! The servers that are called: a model provider and a web server that do as little as possible, so that the
//! path to them is measured. `/messages` answers in Anthropic's dialect, whole or as a stream with a
//! timestamp in each chunk.

use super::client::{STAMP, now};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub const CHUNKS: usize = 100;
/// As quick models write.
const EVERY: Duration = Duration::from_millis(4);
/// The response time of a server that does some work; models take a hundred times as long.
const SLOW: Duration = Duration::from_millis(10);
/// Chunks of a stream that comes as fast as it can.
pub const RUSH: usize = 2_000;
static LARGE: [u8; 1 << 20] = [b'l'; 1 << 20];

const HEAD: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const TAIL: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":100}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const WHOLE: &str = "{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"yes\"}],\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}";

pub struct Provider {
    pub address: SocketAddr,
    serving: AbortHandle,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

impl Provider {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("bind")?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Costs only speed.
                let _ = stream.set_nodelay(true);
                let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Ok(Self { address, serving: serving.abort_handle() })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    // An incomplete request is answered all the same.
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let has = |word: &[u8]| memchr::memmem::find(&body, word).is_some();
    if path == "/slow" || has(b"take your time") {
        tokio::time::sleep(SLOW).await;
    }
    let (kind, body): (&'static str, Body) = match path.as_str() {
        "/1m" => ("text/plain", Full::new(Bytes::from_static(&LARGE)).boxed_unsync()),
        "/small" | "/slow" => ("text/plain", Full::new(Bytes::from_static(b"small")).boxed_unsync()),
        _ if has(b"in a rush") => ("text/event-stream", streamed(RUSH, Duration::ZERO)),
        _ if has(b"\"stream\":true") => ("text/event-stream", streamed(CHUNKS, EVERY)),
        _ => ("application/json", Full::new(Bytes::from_static(WHOLE.as_bytes())).boxed_unsync()),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn streamed(chunks: usize, every: Duration) -> Body {
    let middle = stream::iter(0..chunks).then(move |_| async move {
        if !every.is_zero() {
            tokio::time::sleep(every).await;
        }
        let sent = now().unwrap_or_default().as_nanos();
        format!("event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{STAMP}{sent} \"}}}}\n\n")
    });
    let head = stream::once(async { HEAD.to_owned() });
    let tail = stream::once(async { TAIL.to_owned() });
    let all = head.chain(middle).chain(tail).map(|text| Ok(Frame::data(Bytes::from(text))));
    StreamBody::new(all).boxed_unsync()
}
