//! Requests to the runtimed of one sandbox.

use super::pool::{Body, ControlPool, Lease, Sender};
use crate::{Driver, Target};
use bytes::Bytes;
use hostd_core::limits;
use hostd_net::backpressure::{WindowBody, WindowIo, WriteWindow};
use hostd_trace::{Attribute, Span, TraceContext};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use protocol::{Activity, ErrorBody, TRACEPARENT_HEADER, api::SandboxId};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{io, sync::Arc, time::Duration};
use tokio::time::timeout;

/// Client of one sandbox's runtimed. Cheap to clone.
#[derive(Clone)]
pub struct Control {
    sandbox: SandboxId,
    driver: Arc<dyn Driver>,
    pool: ControlPool,
    _lease: Option<Arc<Lease>>,
}

/// The part of runtimed's status that `activity` reads.
#[derive(Deserialize)]
struct ActivityOnly {
    activity: Activity,
}

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Connecting failed: the sandbox does not run, or not yet.
    #[error("the sandbox does not answer")]
    Unreachable(#[source] io::Error),
    #[error("the sandbox did not answer within {0} ms")]
    TimedOut(u64),
    /// runtimed responded with an error of its own.
    #[error("{}", .0.error.message)]
    Refused(Box<ErrorBody>),
    /// The response is not one of runtimed's.
    #[error("the sandbox sent an invalid response: {0}")]
    Malformed(String),
    /// The connection ended in the middle of a response.
    #[error("the connection to the sandbox broke")]
    Broken(#[source] hyper::Error),
}

impl Control {
    pub fn new(sandbox: SandboxId, driver: Arc<dyn Driver>, pool: ControlPool) -> Self {
        Self { sandbox, driver, pool, _lease: None }
    }

    /// A client that keeps the sandbox awake as long as it is held.
    pub fn with_lease(self, lease: Lease) -> Self {
        Self { _lease: Some(Arc::new(lease)), ..self }
    }

    /// Closes idle connections to a sandbox that has stopped.
    pub fn close_idle(&self) {
        self.pool.clear();
    }

    /// Whether any lease is held.
    pub fn in_use(&self) -> bool {
        self.pool.in_use()
    }

    /// Grows with every lease.
    pub fn leases_taken(&self) -> usize {
        self.pool.leases_taken()
    }

    /// Whether the sandbox is busy, and why.
    pub async fn activity(&self) -> Result<Activity, ControlError> {
        let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
        Ok(self.get::<ActivityOnly>("/v1/status", within).await?.activity)
    }

    /// Sends a `GET` and parses the response as `T`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, within: Duration) -> Result<T, ControlError> {
        let (_, answer) = self.json(Method::GET, path, None::<&()>, within).await?;
        Ok(answer)
    }

    /// Sends a request with a JSON body and parses the response. Sent again on a new connection when the idle
    /// one turned out to be closed; runtimed's verbs may be repeated.
    pub async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        within: Duration,
    ) -> Result<(StatusCode, T), ControlError> {
        let bytes = match body {
            Some(body) => {
                serde_json::to_vec(body).map_err(|error| ControlError::Malformed(error.to_string()))?
            }
            None => Vec::new(),
        };
        let bytes = Bytes::from(bytes);
        let mut span = span_of(&self.sandbox, &method, path);
        let call = async {
            let (response, sender) = self.send(&method, path, &bytes).await?;
            let status = response.status();
            let limited = Limited::new(response.into_body(), limits::CONTROL_RESPONSE_MAX_BYTES);
            let answer = limited
                .collect()
                .await
                .map_err(|error| ControlError::Malformed(error.to_string()))?
                .to_bytes();
            self.pool.put(sender);
            parse(status, &answer)
        };
        let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let answer = timeout(within, span.run(call)).await.unwrap_or(Err(ControlError::TimedOut(ms)));
        if answer.is_err() {
            span.fail();
        }
        answer
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, Sender), ControlError> {
        let request = || request(method, path).body(Full::new(body.clone()).boxed()).map_err(malformed);
        if let Some(mut sender) = self.pool.take()
            && let Ok(response) = sender.send_request(request()?).await
        {
            return Ok((response, sender));
        }
        let (mut sender, _) = self.connect().await?;
        let response = sender.send_request(request()?).await.map_err(ControlError::Broken)?;
        Ok((response, sender))
    }

    /// Sends a request whose response is streamed. Only the head has a deadline. An error response of
    /// runtimed is returned as an error.
    pub async fn stream(
        &self,
        request: Request<Body>,
        within: Duration,
    ) -> Result<Response<Incoming>, ControlError> {
        let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let head = async {
            let (mut sender, window) = self.connect().await?;
            let request = request.map(|body| WindowBody::to(window, body).boxed());
            let response = sender.send_request(request).await.map_err(ControlError::Broken)?;
            if response.status().is_client_error() || response.status().is_server_error() {
                return Err(error_of(response).await);
            }
            Ok(response)
        };
        timeout(within, head).await.unwrap_or(Err(ControlError::TimedOut(ms)))
    }

    /// Switches to a byte stream, such as `slipway-terminal`.
    pub async fn upgrade(
        &self,
        path: &str,
        to: &'static str,
        within: Duration,
    ) -> Result<Upgraded, ControlError> {
        let ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let switch = async {
            let (mut sender, _) = self.connect().await?;
            let request = request(&Method::GET, path)
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, to)
                .body(Empty::new().boxed())
                .map_err(malformed)?;
            let response = sender.send_request(request).await.map_err(ControlError::Broken)?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(error_of(response).await);
            }
            hyper::upgrade::on(response).await.map_err(ControlError::Broken)
        };
        timeout(within, switch).await.unwrap_or(Err(ControlError::TimedOut(ms)))
    }

    /// Opens a connection; returns it with the window of the bodies that are sent on it.
    async fn connect(&self) -> Result<(Sender, Arc<WriteWindow>), ControlError> {
        let stream =
            self.driver.dial(&self.sandbox, Target::Control).await.map_err(ControlError::Unreachable)?;
        let window = Arc::<WriteWindow>::default();
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(limits::CONTROL_HEAD_MAX_BYTES)
            .handshake(TokioIo::new(WindowIo::new(stream, window.clone())))
            .await
            .map_err(ControlError::Broken)?;
        // Ends when the sender is dropped and the last response was read.
        tokio::spawn(connection.with_upgrades());
        Ok((sender, window))
    }
}

/// Starts a request to runtimed, which ignores the Host. It carries the trace that it belongs to.
pub fn request(method: &Method, path: &str) -> hyper::http::request::Builder {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "runtimed")
        .header(CONTENT_TYPE, "application/json");
    match TraceContext::current() {
        Some(context) => request.header(TRACEPARENT_HEADER, context.header().to_string()),
        None => request,
    }
}

/// The resources that requests change, for traces: a path has names.
const RESOURCES: [&str; 7] =
    ["/v1/execs", "/v1/tasks", "/v1/services", "/v1/holds", "/v1/warm", "/v1/programs", "/v1/files"];

/// A span for a request that changes something; reads are many and say little.
fn span_of(sandbox: &SandboxId, method: &Method, path: &str) -> Span {
    let method = match *method {
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => return Span::none(),
    };
    let resource = RESOURCES.into_iter().find(|resource| path.starts_with(resource)).unwrap_or("/v1");
    let span = Span::client("runtimed").with(Attribute::Sandbox(*sandbox));
    span.with(Attribute::Method(method)).with(Attribute::Route(resource))
}

fn parse<T: DeserializeOwned>(status: StatusCode, answer: &[u8]) -> Result<(StatusCode, T), ControlError> {
    if status.is_success() {
        let value =
            serde_json::from_slice(answer).map_err(|error| ControlError::Malformed(error.to_string()))?;
        return Ok((status, value));
    }
    match serde_json::from_slice::<ErrorBody>(answer) {
        Ok(body) => Err(ControlError::Refused(Box::new(body))),
        Err(_) => Err(ControlError::Malformed(format!("status {status}"))),
    }
}

async fn error_of(response: Response<Incoming>) -> ControlError {
    let status = response.status();
    let limited = Limited::new(response.into_body(), limits::CONTROL_RESPONSE_MAX_BYTES);
    match limited.collect().await {
        Ok(body) => match parse::<serde::de::IgnoredAny>(status, &body.to_bytes()) {
            Ok(_) => ControlError::Malformed(format!("status {status}")),
            Err(error) => error,
        },
        Err(error) => ControlError::Malformed(error.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn malformed(error: hyper::http::Error) -> ControlError {
    ControlError::Malformed(error.to_string())
}
