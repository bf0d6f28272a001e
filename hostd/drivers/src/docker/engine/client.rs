//! The HTTP client for the Engine API: one connection for each request.
//!
//! Connections are not pooled. A connect over a Unix socket costs some tens of microseconds while requests
//! cost milliseconds; a pooled connection that the daemon has closed would fail a verb; and a
//! socket-activated Podman exits only when no client is connected.

use super::{
    EngineError, error_response,
    limits::{RESPONSE_DEADLINE, RESPONSE_MAX_BYTES},
    version::NegotiatedVersion,
};
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use http_body_util::{
    BodyExt as _, Empty, Full, LengthLimitError, Limited, StreamBody, combinators::UnsyncBoxBody,
};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HOST},
    http::uri::Authority,
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use hyperlocal::UnixConnector;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    error::Error,
    io,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::timeout;

type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// A root file system as a tar archive, streamed to the engine.
pub type Tar = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A handle to one engine. Clones share the negotiated API version.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    client: Client<UnixConnector, RequestBody>,
    socket: String,
    /// The socket path as hyperlocal encodes it into the authority of a URI.
    authority: Option<Authority>,
    negotiated: Mutex<Option<NegotiatedVersion>>,
}

/// A request to the engine.
pub struct EngineRequest {
    what: &'static str,
    method: Method,
    path: String,
    deadline: Duration,
    /// Largest response body that is read.
    max_bytes: usize,
    body: RequestBody,
    content_type: Option<&'static str>,
}

impl EngineRequest {
    /// Creates a request. `what` completes "the container engine could not …".
    pub fn new(what: &'static str, method: Method, path: impl Into<String>) -> Self {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let (deadline, max_bytes) = (RESPONSE_DEADLINE, RESPONSE_MAX_BYTES);
        Self { what, method, path: path.into(), deadline, max_bytes, body, content_type: None }
    }

    pub fn max_bytes(self, max_bytes: usize) -> Self {
        Self { max_bytes, ..self }
    }

    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    pub fn json(self, value: &impl Serialize) -> Result<Self, EngineError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| EngineError::Refused { what: self.what, message: error.to_string() })?;
        let body = Full::from(bytes).map_err(|never| match never {}).boxed_unsync();
        Ok(Self { body, content_type: Some("application/json"), ..self })
    }

    pub fn tar(self, tar: Tar) -> Self {
        let body = StreamBody::new(tar.map_ok(Frame::data)).boxed_unsync();
        Self { body, content_type: Some("application/x-tar"), ..self }
    }
}

impl Engine {
    /// Creates a client. Sends nothing yet.
    pub fn at(socket: &Path) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(UnixConnector);
        let address: Uri = hyperlocal::Uri::new(socket, "/").into();
        let authority = address.authority().cloned();
        let socket = socket.display().to_string();
        Self(Arc::new(Inner { client, socket, authority, negotiated: Mutex::new(None) }))
    }

    /// Sends a request under the negotiated version and reads the whole response.
    pub(super) async fn call(&self, request: EngineRequest) -> Result<Bytes, EngineError> {
        let request = self.with_version(request).await?;
        self.call_unversioned(request).await
    }

    pub(super) async fn call_json<T: DeserializeOwned>(
        &self,
        request: EngineRequest,
    ) -> Result<T, EngineError> {
        let what = request.what;
        parse_json(what, &self.call(request).await?)
    }

    /// Like `call_json`, with 404 as `None`.
    pub(super) async fn call_optional<T: DeserializeOwned>(
        &self,
        request: EngineRequest,
    ) -> Result<Option<T>, EngineError> {
        match self.call_json(request).await {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a request and returns the body of the response, to be read as it arrives.
    pub(super) async fn stream(&self, request: EngineRequest) -> Result<Incoming, EngineError> {
        let request = self.with_version(request).await?;
        let (what, deadline, max_bytes) = (request.what, request.deadline, request.max_bytes);
        let exchange = async {
            let response = self.send(request).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response.into_body());
            }
            let body = self.read_body(what, max_bytes, response).await?;
            Err(self.response_error(what, status, &body))
        };
        timeout(deadline, exchange).await.unwrap_or_else(|_| Err(timed_out(what, deadline)))
    }

    /// Sends a request without a version prefix in its path.
    pub(super) async fn call_unversioned(&self, request: EngineRequest) -> Result<Bytes, EngineError> {
        let (what, deadline, max_bytes) = (request.what, request.deadline, request.max_bytes);
        let exchange = async {
            let response = self.send(request).await?;
            let status = response.status();
            let body = self.read_body(what, max_bytes, response).await?;
            // Docker answers 304 when a container is already in the wanted state.
            if status.is_success() || status == StatusCode::NOT_MODIFIED {
                return Ok(body);
            }
            Err(self.response_error(what, status, &body))
        };
        timeout(deadline, exchange).await.unwrap_or_else(|_| Err(timed_out(what, deadline)))
    }

    /// Returns the negotiated version; negotiates first if there is none.
    pub(super) async fn negotiated(&self) -> Result<NegotiatedVersion, EngineError> {
        let negotiated = *self.0.negotiated.lock().unwrap_or_else(PoisonError::into_inner);
        match negotiated {
            Some(negotiated) => Ok(negotiated),
            None => self.negotiate().await,
        }
    }

    pub async fn is_podman(&self) -> Result<bool, EngineError> {
        Ok(self.negotiated().await?.podman)
    }

    pub(super) fn set_negotiated(&self, negotiated: Option<NegotiatedVersion>) {
        *self.0.negotiated.lock().unwrap_or_else(PoisonError::into_inner) = negotiated;
    }

    async fn with_version(&self, request: EngineRequest) -> Result<EngineRequest, EngineError> {
        let api = self.negotiated().await?.api;
        Ok(EngineRequest { path: format!("/v{api}{}", request.path), ..request })
    }

    async fn send(&self, request: EngineRequest) -> Result<Response<Incoming>, EngineError> {
        let invalid_uri = |error: hyper::http::Error| EngineError::Refused {
            what: request.what,
            message: format!("no such address: {error}"),
        };
        let authority =
            self.0.authority.clone().ok_or_else(|| self.unreachable("its path cannot be used"))?;
        let uri = Uri::builder().scheme("unix").authority(authority).path_and_query(request.path);
        let mut http = Request::builder()
            .method(request.method)
            .uri(uri.build().map_err(invalid_uri)?)
            .header(HOST, "engine");
        if let Some(content_type) = request.content_type {
            http = http.header(CONTENT_TYPE, content_type);
        }
        let http = http.body(request.body).map_err(invalid_uri)?;
        self.0.client.request(http).await.map_err(|error| self.connection_error(request.what, &error))
    }

    async fn read_body(
        &self,
        what: &'static str,
        max_bytes: usize,
        response: Response<Incoming>,
    ) -> Result<Bytes, EngineError> {
        match Limited::new(response.into_body(), max_bytes).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(EngineError::InvalidResponse { what, why: format!("longer than {max_bytes} bytes") })
            }
            Err(error) => Err(self.connection_error(what, error.as_ref())),
        }
    }

    fn response_error(&self, what: &'static str, status: StatusCode, body: &[u8]) -> EngineError {
        let refusal = error_response::error_of(what, status, body);
        // The daemon was replaced by one of another version: the next request negotiates again.
        if let EngineError::Refused { message, .. } = &refusal
            && message.starts_with("client version ")
        {
            self.set_negotiated(None);
            return self.unreachable(message);
        }
        refusal
    }

    /// Classifies a transport error: the connection failed, or the peer does not speak HTTP.
    pub(super) fn connection_error(&self, what: &'static str, error: &(dyn Error + 'static)) -> EngineError {
        let causes = causes(error);
        let why = causes.last().map(|cause| error_response::sanitize(&cause.to_string())).unwrap_or_default();
        let is_not_http = causes.iter().any(|cause| {
            let http = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
            let bytes = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            http || matches!(bytes, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
        });
        if is_not_http { EngineError::InvalidResponse { what, why } } else { self.unreachable(&why) }
    }

    fn unreachable(&self, why: &str) -> EngineError {
        EngineError::Unreachable { socket: self.0.socket.clone(), why: why.to_owned() }
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut causes = vec![error];
    let mut last = error;
    while let Some(cause) = last.source() {
        causes.push(cause);
        last = cause;
    }
    causes
}

pub fn parse_json<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(bytes).map_err(|error| EngineError::InvalidResponse {
        what,
        why: error_response::sanitize(&error.to_string()),
    })
}

pub fn timed_out(what: &'static str, deadline: Duration) -> EngineError {
    EngineError::TimedOut { what, after_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX) }
}
