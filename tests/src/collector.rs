//! A collector of traces on loopback: takes OTLP over HTTP in JSON, and keeps it.

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Stops when it is dropped.
pub struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Bytes>>>,
    serving: JoinHandle<()>,
}

/// A span as it was exported.
#[derive(Debug, Clone)]
pub struct ExportedSpan {
    pub trace: String,
    pub id: String,
    pub parent: Option<String>,
    pub name: String,
    pub attributes: BTreeMap<String, String>,
}

impl Collector {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, bodies) = (listener.local_addr()?, Arc::<Mutex<Vec<Bytes>>>::default());
        let serving = tokio::spawn(serve(listener, bodies.clone()));
        Ok(Self { address, bodies, serving })
    }

    /// For `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that was exported, byte for byte.
    pub fn bytes(&self) -> Vec<u8> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }

    /// All spans so far.
    pub fn spans(&self) -> Result<Vec<ExportedSpan>> {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut spans = Vec::new();
        for body in bodies {
            let body: Value = serde_json::from_slice(&body)?;
            for resource in body["resourceSpans"].as_array().context("resourceSpans")? {
                for scope in resource["scopeSpans"].as_array().context("scopeSpans")? {
                    for span in scope["spans"].as_array().context("spans")? {
                        spans.push(parse(span)?);
                    }
                }
            }
        }
        Ok(spans)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn parse(span: &Value) -> Result<ExportedSpan> {
    let text = |name: &str| span[name].as_str().map(str::to_owned).with_context(|| format!("{name}: {span}"));
    let mut attributes = BTreeMap::new();
    for attribute in span["attributes"].as_array().context("attributes")? {
        let (key, value) = (&attribute["key"], &attribute["value"]);
        let value = value["stringValue"].as_str().or(value["intValue"].as_str());
        attributes.insert(key.as_str().context("a key")?.to_owned(), value.context("a value")?.to_owned());
    }
    Ok(ExportedSpan {
        trace: text("traceId")?,
        id: text("spanId")?,
        parent: text("parentSpanId").ok(),
        name: text("name")?,
        attributes,
    })
}

async fn serve(listener: TcpListener, bodies: Arc<Mutex<Vec<Bytes>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let bodies = bodies.clone();
        let service = service_fn(move |request| keep(request, bodies.clone()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn keep(
    request: Request<Incoming>,
    bodies: Arc<Mutex<Vec<Bytes>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let json = request.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    let good = request.method() == Method::POST && request.uri().path() == "/v1/traces" && json;
    let mut response = Response::new(Full::from("{}"));
    match request.into_body().collect().await {
        Ok(body) if good => bodies.lock().unwrap_or_else(PoisonError::into_inner).push(body.to_bytes()),
        Ok(_) | Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}
