//! A visitor of a preview without a browser: says the name that browsers would, and nothing that it is not told.

use super::Running;
use crate::{
    host::{Caller, Reply, TerminalViewer},
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, bail, ensure};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::http::request::Builder;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

pub type Headers<'a> = &'a [(&'a str, &'a str)];

impl Running {
    /// Where to connect to, and the name to say there.
    fn door(&self) -> Result<(Caller, &str)> {
        let name = self.name()?;
        let (_, port) = name.rsplit_once(':').context("a port")?;
        Ok((Caller::tcp(&format!("127.0.0.1:{port}"), None), name))
    }

    /// A connection on which anything may be said.
    pub async fn line(&self) -> Result<Wire> {
        let name = self.name()?.to_owned();
        let (_, port) = name.rsplit_once(':').context("a port")?;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
        Ok(Wire { name, stream })
    }

    /// The name in its address, with the port.
    pub fn name(&self) -> Result<&str> {
        self.url.strip_prefix("http://").context("not http")
    }

    pub async fn get(&self, path: &str, headers: Headers<'_>) -> Result<Reply> {
        self.send(Request::get(path), headers, Bytes::new()).await
    }

    pub async fn post(&self, path: &str, headers: Headers<'_>, body: impl Into<Bytes>) -> Result<Reply> {
        self.send(Request::post(path), headers, body.into()).await
    }

    async fn send(&self, request: Builder, headers: Headers<'_>, body: Bytes) -> Result<Reply> {
        let (caller, name) = self.door()?;
        caller.call(with(request.header("host", name), headers).body(Full::new(body))?).await
    }

    /// A stream of events, as it comes.
    pub async fn events(&self, path: &str) -> Result<Pieces> {
        let (caller, name) = self.door()?;
        let request = Request::get(path).header("host", name).header("accept", "text/event-stream");
        let opened = timeout(PATIENCE, caller.open(request.body(Full::new(Bytes::new()))?));
        let response = opened.await.context("it is never answered")??;
        ensure!(response.status() == 200, "{}", response.status());
        Ok(Pieces { body: response.into_body(), buffer: BytesMut::new() })
    }

    /// Asks for a WebSocket; the answer may be something else.
    pub async fn upgrade(&self, path: &str, headers: Headers<'_>) -> Result<Response<Incoming>> {
        let (caller, name) = self.door()?;
        let named = [&[("host", name)], headers].concat();
        timeout(PATIENCE, TerminalViewer::open(&caller, path, &named))
            .await
            .context("it is never answered")?
    }

    pub async fn socket(&self, path: &str, headers: Headers<'_>) -> Result<Socket> {
        let response = self.upgrade(path, headers).await?;
        if response.status() != 101 {
            let (status, body) = (response.status(), response.into_body().collect().await?.to_bytes());
            bail!("expected a socket, got {status} {}", String::from_utf8_lossy(&body));
        }
        let upgraded = TokioIo::new(hyper::upgrade::on(response).await?);
        Ok(Socket { stream: WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await })
    }
}

fn with(request: Builder, headers: Headers<'_>) -> Builder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}

/// Bytes to and from the edge.
pub struct Wire {
    name: String,
    stream: TcpStream,
}

impl Wire {
    /// Says this; `{host}` in it is the name of the preview.
    pub async fn say(&mut self, text: &str) -> Result<()> {
        Ok(self.stream.write_all(text.replace("{host}", &self.name).as_bytes()).await?)
    }

    /// Reads until `wanted` has arrived and returns everything received.
    pub async fn hear(&mut self, wanted: &str) -> Result<String> {
        let mut heard = String::new();
        while !heard.contains(wanted) {
            let piece = self.next().await.with_context(|| format!("{wanted:?} after {heard:?}"))?;
            ensure!(!piece.is_empty(), "ended before {wanted:?}: {heard:?}");
            heard.push_str(&piece);
        }
        Ok(heard)
    }

    /// Reads until the connection ends.
    pub async fn rest(&mut self) -> Result<String> {
        let mut heard = String::new();
        loop {
            let piece = self.next().await.with_context(|| format!("the end after {heard:?}"))?;
            if piece.is_empty() {
                return Ok(heard);
            }
            heard.push_str(&piece);
        }
    }

    async fn next(&mut self) -> Result<String> {
        let mut piece = vec![0; 64 << 10];
        let length = timeout(PATIENCE, self.stream.read(&mut piece)).await.context("nothing is said")??;
        Ok(String::from_utf8_lossy(&piece[..length]).into_owned())
    }
}

pub struct Socket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
}

impl Socket {
    pub async fn say(&mut self, message: Message) -> Result<()> {
        Ok(timeout(PATIENCE, self.stream.send(message)).await.context("the peer does not read")??)
    }

    /// The next message with content.
    pub async fn hear(&mut self) -> Result<Message> {
        loop {
            let next = timeout(PATIENCE, self.stream.next()).await.context("nothing is said")?;
            match next.context("the socket has ended")?? {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return Ok(message),
            }
        }
    }

    /// Listens until a text has something in it.
    pub async fn hears(&mut self, wanted: &str) -> Result<String> {
        loop {
            let message = self.hear().await.with_context(|| format!("{wanted:?}"))?;
            if let Message::Text(text) = message
                && text.contains(wanted)
            {
                return Ok(text.to_string());
            }
        }
    }
}

/// Server-sent events of a foreign server: the text between empty lines.
pub struct Pieces {
    body: Incoming,
    buffer: BytesMut,
}

impl Pieces {
    /// The next piece; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\n\n") {
                let piece = self.buffer.split_to(at + 2);
                return Ok(Some(String::from_utf8(piece[..at].to_vec())?));
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.context("no event comes")?;
            match frame.transpose()? {
                Some(frame) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
                None if self.buffer.is_empty() => return Ok(None),
                None => bail!("cut off after {:?}", self.buffer),
            }
        }
    }
}
