//! One question, one connection, one answer.
//!
//! Connections are not kept: a Unix socket costs some tens of microseconds, what is asked costs milliseconds,
//! one that the daemon closed meanwhile would fail a verb, and a Podman that was started for us ends only when
//! nobody is connected.

use super::{
    EngineError,
    limits::{ANSWER_MAX_BYTES, ANSWER_WITHIN},
    version::Agreement,
    words,
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

type Payload = UnsyncBoxBody<Bytes, io::Error>;

/// A root file system on its way to the engine.
pub type Tar = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// A handle: clones share what was agreed on.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    client: Client<UnixConnector, Payload>,
    socket: String,
    /// The socket as hyperlocal writes it in an address.
    authority: Option<Authority>,
    agreed: Mutex<Option<Agreement>>,
}

/// A question.
pub struct Ask {
    what: &'static str,
    method: Method,
    path: String,
    within: Duration,
    /// Of the answer.
    most_bytes: usize,
    body: Payload,
    kind: Option<&'static str>,
}

impl Ask {
    /// `what` reads after "could not".
    pub fn new(what: &'static str, method: Method, path: impl Into<String>) -> Self {
        let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
        let (within, most_bytes) = (ANSWER_WITHIN, ANSWER_MAX_BYTES);
        Self { what, method, path: path.into(), within, most_bytes, body, kind: None }
    }

    pub fn at_most(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    pub fn json(self, value: &impl Serialize) -> Result<Self, EngineError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|error| EngineError::Refused { what: self.what, message: error.to_string() })?;
        let body = Full::from(bytes).map_err(|never| match never {}).boxed_unsync();
        Ok(Self { body, kind: Some("application/json"), ..self })
    }

    pub fn tar(self, tar: Tar) -> Self {
        let body = StreamBody::new(tar.map_ok(Frame::data)).boxed_unsync();
        Self { body, kind: Some("application/x-tar"), ..self }
    }
}

impl Engine {
    /// Nothing is asked yet.
    pub fn at(socket: &Path) -> Self {
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(UnixConnector);
        let address: Uri = hyperlocal::Uri::new(socket, "/").into();
        let authority = address.authority().cloned();
        let socket = socket.display().to_string();
        Self(Arc::new(Inner { client, socket, authority, agreed: Mutex::new(None) }))
    }

    /// Asks, in the version that was agreed on, and reads the whole answer.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Bytes, EngineError> {
        let ask = self.in_version(ask).await?;
        self.ask_plainly(ask).await
    }

    pub(super) async fn ask_json<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, EngineError> {
        let what = ask.what;
        parsed(what, &self.ask(ask).await?)
    }

    /// The same; there may be no such thing.
    pub(super) async fn find<T: DeserializeOwned>(&self, ask: Ask) -> Result<Option<T>, EngineError> {
        match self.ask_json(ask).await {
            Ok(found) => Ok(Some(found)),
            Err(EngineError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks, and leaves the answer to be read as it comes.
    pub(super) async fn open(&self, ask: Ask) -> Result<Incoming, EngineError> {
        let ask = self.in_version(ask).await?;
        let (what, within, most) = (ask.what, ask.within, ask.most_bytes);
        let exchange = async {
            let response = self.send(ask).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response.into_body());
            }
            let body = self.whole(what, most, response).await?;
            Err(self.refusal(what, status, &body))
        };
        timeout(within, exchange).await.unwrap_or_else(|_| Err(late(what, within)))
    }

    /// Without the agreed version in the address.
    pub(super) async fn ask_plainly(&self, ask: Ask) -> Result<Bytes, EngineError> {
        let (what, within, most) = (ask.what, ask.within, ask.most_bytes);
        let exchange = async {
            let response = self.send(ask).await?;
            let status = response.status();
            let body = self.whole(what, most, response).await?;
            // "Not modified" is how Docker says that it was so already.
            if status.is_success() || status == StatusCode::NOT_MODIFIED {
                return Ok(body);
            }
            Err(self.refusal(what, status, &body))
        };
        timeout(within, exchange).await.unwrap_or_else(|_| Err(late(what, within)))
    }

    /// What was agreed on, or is agreed on now.
    pub(super) async fn agreement(&self) -> Result<Agreement, EngineError> {
        let agreed = *self.0.agreed.lock().unwrap_or_else(PoisonError::into_inner);
        match agreed {
            Some(agreement) => Ok(agreement),
            None => self.agree().await,
        }
    }

    pub async fn is_podman(&self) -> Result<bool, EngineError> {
        Ok(self.agreement().await?.podman)
    }

    pub(super) fn agree_on(&self, agreement: Option<Agreement>) {
        *self.0.agreed.lock().unwrap_or_else(PoisonError::into_inner) = agreement;
    }

    async fn in_version(&self, ask: Ask) -> Result<Ask, EngineError> {
        let api = self.agreement().await?.api;
        Ok(Ask { path: format!("/v{api}{}", ask.path), ..ask })
    }

    async fn send(&self, ask: Ask) -> Result<Response<Incoming>, EngineError> {
        let unfit = |error: hyper::http::Error| EngineError::Refused {
            what: ask.what,
            message: format!("no such address: {error}"),
        };
        let authority =
            self.0.authority.clone().ok_or_else(|| self.unreachable("its path cannot be used"))?;
        let uri = Uri::builder().scheme("unix").authority(authority).path_and_query(ask.path);
        let mut request =
            Request::builder().method(ask.method).uri(uri.build().map_err(unfit)?).header(HOST, "engine");
        if let Some(kind) = ask.kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let request = request.body(ask.body).map_err(unfit)?;
        self.0.client.request(request).await.map_err(|error| self.broken(ask.what, &error))
    }

    async fn whole(
        &self,
        what: &'static str,
        most: usize,
        response: Response<Incoming>,
    ) -> Result<Bytes, EngineError> {
        match Limited::new(response.into_body(), most).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(EngineError::Garbled { what, why: format!("longer than {most} bytes") })
            }
            Err(error) => Err(self.broken(what, error.as_ref())),
        }
    }

    fn refusal(&self, what: &'static str, status: StatusCode, body: &[u8]) -> EngineError {
        let refusal = words::refusal(what, status, body);
        // The daemon was replaced by one of another version: whoever asks next agrees anew.
        if let EngineError::Refused { message, .. } = &refusal
            && message.starts_with("client version ")
        {
            self.agree_on(None);
            return self.unreachable(message);
        }
        refusal
    }

    /// The connection failed, or what came over it is no HTTP.
    pub(super) fn broken(&self, what: &'static str, error: &(dyn Error + 'static)) -> EngineError {
        let causes = causes(error);
        let why = causes.last().map(|cause| words::short(&cause.to_string())).unwrap_or_default();
        let nonsense = causes.iter().any(|cause| {
            let http = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
            let bytes = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            http || matches!(bytes, Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput))
        });
        if nonsense { EngineError::Garbled { what, why } } else { self.unreachable(&why) }
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

pub fn parsed<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, EngineError> {
    serde_json::from_slice(bytes)
        .map_err(|error| EngineError::Garbled { what, why: words::short(&error.to_string()) })
}

pub fn late(what: &'static str, within: Duration) -> EngineError {
    EngineError::TimedOut { what, after_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) }
}
