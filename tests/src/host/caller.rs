//! A client of hostd's API: an address and an optional token. It opens one connection per request.

use crate::https::Certificate;
use crate::sandbox::PATIENCE;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use protocol::api::{ApiError, ApiErrorBody, ApiErrorCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

#[derive(Debug, Clone)]
enum Address {
    Tcp(String),
    Tls {
        address: String,
        /// In the certificate.
        name: String,
        certificate: Certificate,
    },
    Unix(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Caller {
    place: Address,
    token: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).with_context(|| format!("{} {}", self.status, self.text()))
    }

    /// The body of an answer that must have this status.
    pub fn expect<T: DeserializeOwned>(&self, status: u16) -> Result<T> {
        ensure!(self.status == status, "expected {status}, got {} {}", self.status, self.text());
        self.json()
    }

    /// The error this answer must be.
    pub fn error(&self) -> Result<ApiError> {
        ensure!(self.status >= 400, "expected an error, got {} {}", self.status, self.text());
        Ok(self.json::<ApiErrorBody>()?.error)
    }

    pub fn code(&self) -> Result<ApiErrorCode> {
        Ok(self.error()?.code)
    }
}

/// Where a viewer connects to over TCP, and the request it sends.
#[derive(Debug, Clone)]
pub struct TcpViewer {
    pub address: String,
    pub request: String,
}

impl Caller {
    /// A viewer of a stream of events that does all by itself. Only of an address.
    pub fn viewer(&self, path: &str) -> TcpViewer {
        let Address::Tcp(address) = &self.place else { panic!("a viewer connects to an address") };
        let token = self.token.as_deref().unwrap_or_default();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\r\n"
        );
        TcpViewer { address: address.clone(), request }
    }

    pub fn tcp(url: &str, token: Option<&str>) -> Self {
        let address = url.trim_start_matches("http://").to_owned();
        Self { place: Address::Tcp(address), token: token.map(str::to_owned) }
    }

    /// By TLS and HTTP/1.1, to a hostd with this certificate.
    pub fn tls(url: &str, certificate: &Certificate, token: Option<&str>) -> Self {
        let address = url.trim_start_matches("https://").to_owned();
        let (name, certificate) = ("localhost".to_owned(), certificate.clone());
        Self { place: Address::Tls { address, name, certificate }, token: token.map(str::to_owned) }
    }

    /// The same place by TLS, under another name.
    pub fn named(mut self, other: &str) -> Self {
        match &mut self.place {
            Address::Tls { name, .. } => other.clone_into(name),
            Address::Tcp(_) | Address::Unix(_) => panic!("only TLS has names"),
        }
        self
    }

    pub fn unix(socket: PathBuf) -> Self {
        Self { place: Address::Unix(socket), token: None }
    }

    /// The same place with another token, or none.
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self { token: token.map(str::to_owned), ..self.clone() }
    }

    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Method::GET, path, Bytes::new()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::POST, path, Bytes::from(serde_json::to_vec(body)?)).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PUT, path, Bytes::from(serde_json::to_vec(body)?)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Reply> {
        self.send(Method::PATCH, path, Bytes::from(serde_json::to_vec(body)?)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Reply> {
        self.send(Method::DELETE, path, Bytes::new()).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Reply> {
        self.call(Request::builder().method(method).uri(path).body(Full::new(body))?).await
    }

    /// A request with headers of the test's own.
    pub async fn call(&self, request: Request<Full<Bytes>>) -> Result<Reply> {
        let answered = async {
            let response = self.open(request).await?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Ok(Reply { status, headers, body: response.into_body().collect().await?.to_bytes() })
        };
        timeout(PATIENCE, answered).await.context("it is never answered")?
    }

    /// Sends a request and gives the answer as it comes; dropping it hangs up.
    pub async fn open<B>(&self, mut request: Request<B>) -> Result<Response<Incoming>>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let headers = request.headers_mut();
        if let Some(token) = &self.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}"))?;
            headers.entry(AUTHORIZATION).or_insert(value);
        }
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        match &self.place {
            Address::Tcp(address) => {
                headers.entry(HOST).or_insert(HeaderValue::from_str(address)?);
                let stream = TcpStream::connect(address).await.context("connect")?;
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection.with_upgrades());
                Ok(sender.send_request(request).await?)
            }
            Address::Tls { address, name, certificate } => {
                headers.entry(HOST).or_insert(HeaderValue::from_str(name)?);
                let stream = certificate.connect(address, name).await?;
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection.with_upgrades());
                Ok(sender.send_request(request).await?)
            }
            Address::Unix(socket) => {
                headers.entry(HOST).or_insert(HeaderValue::from_static("hostd"));
                let stream = UnixStream::connect(socket).await.context("connect")?;
                let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection.with_upgrades());
                Ok(sender.send_request(request).await?)
            }
        }
    }

    /// Makes a sandbox and waits until it runs; its id.
    pub async fn create(&self, spec: &Value) -> Result<String> {
        let view: Value = self.post("/v1/sandboxes", spec).await?.expect(201)?;
        ensure!(view["status"] == "running", "{view}");
        Ok(view["id"].as_str().context("an id")?.to_owned())
    }

    /// Runs a shell line to its end and gives the exec.
    pub async fn shell(&self, sandbox: &str, line: &str) -> Result<Value> {
        let path = format!("/v1/sandboxes/{sandbox}/execs");
        self.post(&path, &json!({"shell": line})).await?.expect(200)
    }

    /// Runs a shell line that must succeed and returns its output.
    pub async fn prints(&self, sandbox: &str, line: &str) -> Result<String> {
        let exec = self.shell(sandbox, line).await?;
        ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{line}: {exec}");
        let is_lost = |hint: &Value| hint["kind"] == "output_lost";
        ensure!(!exec["hints"].as_array().is_some_and(|hints| hints.iter().any(is_lost)), "{line}: {exec}");
        Ok(exec["stdout"].as_str().context("its output")?.to_owned())
    }

    /// The sandbox as it is now.
    pub async fn sandbox(&self, id: &str) -> Result<Value> {
        self.get(&format!("/v1/sandboxes/{id}")).await?.expect(200)
    }
}
