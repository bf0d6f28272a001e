//! A viewer of a terminal of runtimed: pieces one way, keys the other, as `GET /v1/terminals/{id}` becomes.

use crate::{Client, sandbox::PATIENCE};
use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use protocol::TerminalFrameHeader;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

pub struct Viewer {
    stream: TokioIo<Upgraded>,
    /// Output that was shown and not yet read.
    shown: Vec<u8>,
    /// Position after the last byte that came.
    pub position: Option<u64>,
    /// Bytes that were passed over.
    pub lost: u64,
}

impl Viewer {
    /// Attaches to a terminal; `query` is what stands after its name.
    pub async fn attach(client: &Client, id: &str, query: &str) -> Result<Self> {
        let request = Request::get(format!("/v1/terminals/{id}{query}"))
            .header("connection", "Upgrade")
            .header("upgrade", "slipway-terminal")
            .body(Empty::<bytes::Bytes>::new())?;
        Self::of(client.open(request).await?).await
    }

    /// The viewer that an answer makes, which must be 101.
    pub async fn of(response: Response<Incoming>) -> Result<Self> {
        if response.status() != 101 {
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            bail!("{status} {}", String::from_utf8_lossy(&body));
        }
        Ok(Self {
            stream: TokioIo::new(hyper::upgrade::on(response).await?),
            shown: Vec::new(),
            position: None,
            lost: 0,
        })
    }

    pub async fn types(&mut self, keys: &str) -> Result<()> {
        self.stream.write_all(keys.as_bytes()).await?;
        Ok(self.stream.flush().await?)
    }

    /// Returns the output up to and including `sign`; later output is kept for the next call.
    pub async fn sees(&mut self, sign: &str) -> Result<String> {
        let found = |shown: &[u8]| shown.windows(sign.len()).position(|at| at == sign.as_bytes());
        let reading = async {
            while found(&self.shown).is_none() {
                if !self.piece().await? {
                    bail!("the terminal was closed before {sign:?}");
                }
            }
            Ok(())
        };
        let read = timeout(PATIENCE, reading).await;
        let text = || String::from_utf8_lossy(&self.shown).into_owned();
        read.with_context(|| format!("{sign:?} is never shown, only {:?}", text()))?
            .with_context(|| format!("shown: {:?}", text()))?;
        let end = found(&self.shown).context("just found")? + sign.len();
        Ok(String::from_utf8_lossy(&self.shown.drain(..end).collect::<Vec<u8>>()).into_owned())
    }

    /// Takes one piece; false when there are no more.
    pub async fn piece(&mut self) -> Result<bool> {
        let mut head = [0; TerminalFrameHeader::BYTES];
        match self.stream.read_exact(&mut head).await {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        };
        let head = TerminalFrameHeader::from_bytes(head);
        let mut bytes = vec![0; head.length as usize];
        self.stream.read_exact(&mut bytes).await?;
        self.lost += self.position.map_or(0, |before| head.at - before);
        self.position = Some(head.at + u64::from(head.length));
        self.shown.extend(bytes);
        Ok(true)
    }

    /// Everything that is shown until the terminal is closed.
    pub async fn rest(mut self) -> Result<String> {
        let reading = async {
            while self.piece().await? {}
            anyhow::Ok(())
        };
        timeout(PATIENCE, reading).await.context("the terminal is never closed")??;
        Ok(String::from_utf8_lossy(&self.shown).into_owned())
    }
}
