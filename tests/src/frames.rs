//! Server-sent events as they are on the wire, read as strictly as a client may: a frame that is not exactly
//! as documented is an error.

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;

/// An event: the values of `id: `, `event: ` and `data: `.
pub struct Frame {
    pub id: String,
    pub kind: String,
    pub data: String,
}

pub struct Frames {
    body: Incoming,
    buffer: BytesMut,
}

impl Frames {
    /// The stream of an answer, after its greeting.
    pub async fn of(response: Response<Incoming>) -> Result<Self> {
        let status = response.status();
        if status != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            bail!("events answered {status} {}", String::from_utf8_lossy(&body));
        }
        ensure!(response.headers()["content-type"] == "text/event-stream", "{:?}", response.headers());
        let mut frames = Self { body: response.into_body(), buffer: BytesMut::new() };
        let first = frames.text().await?.context("the stream is empty")?;
        ensure!(first == "retry: 1000", "the stream begins with {first:?}");
        Ok(frames)
    }

    /// The next event; comments are skipped. Nothing when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Frame>> {
        loop {
            match self.text().await? {
                None => return Ok(None),
                Some(comment) if comment.starts_with(':') => {}
                Some(text) => return parse(&text).map(Some).with_context(|| text),
            }
        }
    }

    /// Whether the stream, so far, ends where a frame does.
    pub fn is_whole(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The text before the next empty line.
    async fn text(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\n\n") {
                let frame = self.buffer.split_to(at + 2);
                return Ok(Some(String::from_utf8(frame[..at].to_vec())?));
            }
            match self.body.frame().await {
                Some(frame) => self.buffer.extend_from_slice(&frame?.into_data().unwrap_or_default()),
                None => return Ok(None),
            }
        }
    }
}

/// `id`, `event` and `data`, one line each, in this order.
fn parse(text: &str) -> Result<Frame> {
    let lines: Vec<&str> = text.split('\n').collect();
    let [id, kind, data] = lines.as_slice() else { bail!("{} lines", lines.len()) };
    let after = |line: &str, head: &'static str| line.strip_prefix(head).map(str::to_owned).context(head);
    Ok(Frame { id: after(id, "id: ")?, kind: after(kind, "event: ")?, data: after(data, "data: ")? })
}

/// Whether a stream or a connection was cut off, which is not the fault of what came before.
pub fn is_cut(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<hyper::Error>() || cause.is::<std::io::Error>())
}
