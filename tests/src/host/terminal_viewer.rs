//! A viewer of a terminal of hostd: a real WebSocket.

use super::Caller;
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Empty};
use hyper::upgrade::Upgraded;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::Role;

pub struct TerminalViewer {
    pub socket: WebSocketStream<TokioIo<Upgraded>>,
    /// Output that was shown and not yet read.
    shown: Vec<u8>,
    /// Position after the last byte that came.
    pub position: Option<u64>,
    /// Bytes that were passed over.
    pub lost: u64,
}

/// The last message.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewerMessage {
    Shown,
    Exit(Value),
    Closed { code: u16, reason: String },
    Cut,
}

impl TerminalViewer {
    /// Opens with headers of the test's own beside those of a WebSocket.
    pub async fn open(caller: &Caller, path: &str, headers: &[(&str, &str)]) -> Result<Response<Incoming>> {
        let key = generate_key();
        let mut request = Request::get(path)
            .header("connection", "keep-alive, Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", &key);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = caller.open(request.body(Empty::<Bytes>::new())?).await?;
        if response.status() == 101 {
            let accepted = response.headers().get("sec-websocket-accept").context("the answer to the key")?;
            ensure!(accepted.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes(), "another answer");
        }
        Ok(response)
    }

    /// The viewer that an answer makes, which must be 101.
    pub async fn of(response: Response<Incoming>) -> Result<Self> {
        if response.status() != 101 {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{status} {}", String::from_utf8_lossy(&body));
        }
        let stream = TokioIo::new(hyper::upgrade::on(response).await?);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        Ok(Self { socket, shown: Vec::new(), position: None, lost: 0 })
    }

    pub async fn types(&mut self, keys: &str) -> Result<()> {
        Ok(self.socket.send(Message::binary(keys.as_bytes().to_vec())).await?)
    }

    pub async fn resizes(&mut self, cols: u16, rows: u16) -> Result<()> {
        let text = json!({"resize": {"cols": cols, "rows": rows}});
        Ok(self.socket.send(Message::text(text.to_string())).await?)
    }

    /// The next thing that is said.
    pub async fn next(&mut self) -> Result<ViewerMessage> {
        loop {
            match timeout(PATIENCE, self.socket.next()).await.context("nothing is said")? {
                Some(Ok(Message::Binary(bytes))) => {
                    let at = self.position.context("bytes without a position")?;
                    self.position = Some(at + bytes.len() as u64);
                    self.shown.extend(bytes);
                    return Ok(ViewerMessage::Shown);
                }
                Some(Ok(Message::Text(text))) => {
                    let said: Value = serde_json::from_str(&text)?;
                    if let Some(at) = said["position"].as_u64() {
                        self.lost += self.position.map_or(0, |before| at - before);
                        self.position = Some(at);
                    } else {
                        ensure!(said["exit"].is_object(), "{said}");
                        return Ok(ViewerMessage::Exit(said["exit"].clone()));
                    }
                }
                Some(Ok(Message::Close(Some(frame)))) => {
                    return Ok(ViewerMessage::Closed {
                        code: frame.code.into(),
                        reason: frame.reason.to_string(),
                    });
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Ok(ViewerMessage::Cut),
            }
        }
    }

    /// Returns the output up to and including `sign`; later output is kept for the next call.
    pub async fn sees(&mut self, sign: &str) -> Result<String> {
        let mut searched = 0;
        loop {
            let found = self.shown[searched..].windows(sign.len()).position(|at| at == sign.as_bytes());
            if let Some(at) = found {
                let seen: Vec<u8> = self.shown.drain(..searched + at + sign.len()).collect();
                return Ok(String::from_utf8_lossy(&seen).into_owned());
            }
            searched = self.shown.len().saturating_sub(sign.len());
            let said = self.next().await.with_context(|| format!("{sign:?}: {:?}", self.text()))?;
            ensure!(said == ViewerMessage::Shown, "{said:?} before {sign:?}, after {:?}", self.text());
        }
    }

    /// Returns the output that was shown and not yet read.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Reads to the end: what was shown, how the exec ended if that was told, and how the viewer did.
    pub async fn rest(mut self) -> Result<(String, Option<Value>, ViewerMessage)> {
        let mut exit = None;
        loop {
            match self.next().await? {
                ViewerMessage::Shown => {}
                ViewerMessage::Exit(ended) => exit = Some(ended),
                end @ (ViewerMessage::Closed { .. } | ViewerMessage::Cut) => {
                    return Ok((self.text(), exit, end));
                }
            }
        }
    }
}

impl Caller {
    /// Attaches to a terminal; `query` is what stands after its name.
    pub async fn attach(&self, sandbox: &str, exec: &str, query: &str) -> Result<TerminalViewer> {
        let path = format!("/v1/sandboxes/{sandbox}/terminals/{exec}{query}");
        TerminalViewer::of(TerminalViewer::open(self, &path, &[]).await?).await
    }
}
