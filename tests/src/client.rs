//! A client of runtimed's sockets: one connection a request, nothing hidden.

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use protocol::{ErrorBody, ErrorCode, ExecView, Status};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::PathBuf;
use tokio::net::UnixStream;

#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
}

#[derive(Debug, Clone)]
pub struct ClientReply {
    pub status: u16,
    pub body: Bytes,
}

impl ClientReply {
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).with_context(|| format!("{} {}", self.status, self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The error this answer must be.
    pub fn error(&self) -> Result<ErrorBody> {
        ensure!(self.status >= 400, "expected an error, got {} {}", self.status, self.text());
        self.json()
    }

    pub fn code(&self) -> Result<ErrorCode> {
        Ok(self.error()?.error.code)
    }
}

impl Client {
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    pub async fn get(&self, path: &str) -> Result<ClientReply> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<ClientReply> {
        self.send(Method::POST, path, Bytes::from(serde_json::to_vec(body)?)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<ClientReply> {
        self.send(Method::PUT, path, Bytes::from(serde_json::to_vec(body)?)).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<ClientReply> {
        let request = Request::builder().method(method).uri(path).body(Full::new(body))?;
        let response = self.open(request).await?;
        let status = response.status().as_u16();
        Ok(ClientReply { status, body: response.into_body().collect().await?.to_bytes() })
    }

    /// Sends a request and gives the answer as it comes; dropping it hangs up.
    pub async fn open<B>(&self, mut request: Request<B>) -> Result<Response<Incoming>>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = UnixStream::connect(&self.socket).await.context("connect")?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Ends by itself once the response is dropped, or the upgraded stream is.
        tokio::spawn(connection.with_upgrades());
        request.headers_mut().entry("host").or_insert(hyper::header::HeaderValue::from_static("runtimed"));
        Ok(sender.send_request(request).await?)
    }

    /// A connection for many requests, as hostd keeps one.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = UnixStream::connect(&self.socket).await.context("connect")?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender })
    }

    /// Runs something to its end.
    pub async fn exec(&self, request: Value) -> Result<ExecView> {
        let answer = self.post("/v1/execs?wait_ms=60000", &request).await?;
        if answer.status != 200 {
            bail!("exec answered {} {}", answer.status, answer.text());
        }
        answer.json()
    }

    /// Starts something and leaves it running.
    pub async fn start(&self, request: Value) -> Result<ExecView> {
        let answer = self.post("/v1/execs", &request).await?;
        ensure!(answer.status < 300, "exec answered {} {}", answer.status, answer.text());
        answer.json()
    }

    /// Waits for the end of an exec.
    pub async fn ended(&self, id: &str) -> Result<ExecView> {
        let answer = self.get(&format!("/v1/execs/{id}?wait_ms=60000")).await?;
        ensure!(answer.status == 200, "exec {id} did not end: {} {}", answer.status, answer.text());
        answer.json()
    }

    pub async fn status(&self) -> Result<Status> {
        self.get("/v1/status").await?.json()
    }
}

/// An open connection, used by one request after the other.
pub struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub async fn post(&mut self, path: &str, body: &Value) -> Result<ClientReply> {
        let body = Full::new(Bytes::from(serde_json::to_vec(body)?));
        let request = Request::post(path).header("host", "runtimed").body(body)?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        Ok(ClientReply { status, body: response.into_body().collect().await?.to_bytes() })
    }
}
