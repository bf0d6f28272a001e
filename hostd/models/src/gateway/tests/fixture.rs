//! A gateway served on loopback, and a client.

use super::{
    fake_provider::{Action, FakeProvider},
    recorder::{PLACEHOLDER, Recorder},
};
use crate::{
    ActiveBudgets, CallTarget, Dialect, Provider, ProviderKey,
    gateway::{CancelWithTask, Gateway, GatewayMetrics, limits::ProviderTimeouts},
};
use bytes::Bytes;
use hostd_core::Backoff;
use hostd_net::outbound::OutboundConnector;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, StatusCode, body::Incoming, server, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// The key of the provider, which must not be seen anywhere.
pub const KEY: &str = "sk-real-ABCDEFGHIJKLMNOP-0123456789";

pub struct GatewayFixture {
    pub provider: FakeProvider,
    pub recorder: Arc<Recorder>,
    address: std::net::SocketAddr,
    pub metrics: GatewayMetrics,
    _serving: JoinSet<()>,
    clients: JoinSet<()>,
}

pub struct FixtureResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
    /// The connection broke in the middle of the body.
    pub broken: bool,
}

/// The setup of the recorder and the gateway.
#[derive(Default)]
pub struct Setup {
    pub dialect: Option<Dialect>,
    pub max_output_tokens: Option<u64>,
    pub output_budget: Option<u64>,
    pub bounded: ActiveBudgets,
    /// The task does not start.
    pub waits: bool,
    pub timeouts: Option<ProviderTimeouts>,
}

/// Short waits between attempts, and timeouts that must not fire.
pub fn timeouts() -> ProviderTimeouts {
    let backoff = Backoff { first_ms: 1, wait_max_ms: 4, ..Backoff::default() };
    ProviderTimeouts { first_byte: Duration::from_secs(60), idle: Duration::from_secs(60), backoff }
}

impl GatewayFixture {
    pub async fn open(replies: Vec<Vec<Action>>) -> Self {
        Self::with(replies, Setup::default()).await
    }

    pub async fn with(replies: Vec<Vec<Action>>, setup: Setup) -> Self {
        let provider = FakeProvider::start(replies).await;
        let url = provider.url.clone();
        Self::to(provider, url, setup).await
    }

    pub async fn to(provider: FakeProvider, base_url: String, setup: Setup) -> Self {
        let dialect = setup.dialect.unwrap_or(Dialect::Anthropic);
        let key = Some(ProviderKey(KEY.to_owned().into()));
        let target = Provider { name: "fake".to_owned(), dialect, base_url, key };
        let call_target =
            CallTarget { provider: Arc::new(target), model: "real-model".to_owned(), price: None };
        let recorder = Recorder::new(call_target, &setup);
        let connector = OutboundConnector::from_host_config();
        let timeouts = setup.timeouts.unwrap_or_else(timeouts);
        let gateway = Gateway::with_authorizer(Arc::new(recorder.clone()), connector, timeouts);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (mut serving, metrics) = (JoinSet::new(), gateway.metrics().clone());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (gateway, cancel_with_task) = (gateway.clone(), CancelWithTask::default());
                let attached = cancel_with_task.clone();
                let service = service_fn(move |request| {
                    let (gateway, attached) = (gateway.clone(), attached.clone());
                    async move {
                        let mut response = gateway.serve(sandbox(), request).await;
                        attached.attach(&mut response);
                        Ok::<_, Infallible>(response)
                    }
                });
                connections.spawn(async move {
                    let connection =
                        server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    // As at a door, either way the connection is closed.
                    tokio::select! {
                        _ = connection => {}
                        () = cancel_with_task.cancelled() => {}
                    }
                });
            }
        });
        Self { provider, recorder, address, metrics, _serving: serving, clients: JoinSet::new() }
    }

    /// The head of a response, with its body still to come.
    pub async fn begin(&mut self, request: Request<Full<Bytes>>) -> hyper::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        self.clients.spawn(async move {
            let _ = connection.await;
        });
        sender.send_request(request).await.expect("an answer")
    }

    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> FixtureResponse {
        let response = self.begin(request).await;
        let (head, mut body) = response.into_parts();
        let (mut bytes, mut broken) = (Vec::new(), false);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        let text = String::from_utf8(bytes).expect("text");
        FixtureResponse { status: head.status, headers: head.headers, text, broken }
    }

    /// Sends raw bytes, and returns everything until the end of the connection.
    pub async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut response = Vec::new();
        let read = stream.read_to_end(&mut response);
        let _ = timeout(Duration::from_secs(60), read).await.expect("the connection ends");
        String::from_utf8_lossy(&response).into_owned()
    }

    /// The statuses of responses to concurrent requests.
    pub async fn many(&self, requests: Vec<Request<Full<Bytes>>>) -> Vec<u16> {
        let address = self.address;
        let asks = requests.into_iter().map(|request| async move {
            let stream = TcpStream::connect(address).await.expect("a connection");
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
            let response = sender.send_request(request);
            tokio::pin!(connection);
            tokio::select! {
                response = response => response.expect("an answer").status().as_u16(),
                _ = &mut connection => panic!("no answer"),
            }
        });
        futures_util::future::join_all(asks).await
    }

    /// Closes all connections of the client.
    pub fn disconnect(&mut self) {
        self.clients.abort_all();
    }

    pub async fn post(&mut self, path: &str, body: &str) -> FixtureResponse {
        self.send(post(path, body)).await
    }
}

pub fn sandbox() -> protocol::api::SandboxId {
    "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id")
}

pub fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    request(Method::POST, path, &[("x-api-key", PLACEHOLDER)], body)
}

pub fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request =
        Request::builder().method(method).uri(format!("/model{path}")).header("host", "127.0.0.1:900");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).expect("a request")
}
