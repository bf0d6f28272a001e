//! HTTP client of hostd. A connection is reused for the next request when the response was read to its end.

use super::{ApiRequest, ClientError, Target, TlsError, connect::Connector};
use crate::limits;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http1::SendRequest};
use protocol::api::{ApiErrorBody, Page};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

type Sender = SendRequest<RequestBody>;

/// A body that is sent: whole, or as it comes.
pub type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// Characters of an unexpected response that are shown.
const EXCERPT_CHARS: usize = 200;
/// Characters of an error page that are searched.
const ERROR_PAGE_CHARS: usize = 2_000;

pub struct Client {
    connector: Connector,
    token: Option<String>,
    idle: Mutex<Option<Sender>>,
    answered: AtomicBool,
}

/// A successful response, read to its end.
#[derive(Debug)]
pub struct ApiResponse {
    pub body: Bytes,
}

impl ApiResponse {
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::UnexpectedResponse(format!("{error}: {}", excerpt(&self.body))))
    }
}

impl Client {
    pub fn new(target: Target, token: Option<String>) -> Self {
        let connector = Connector::new(target);
        Self { connector, token, idle: Mutex::new(None), answered: AtomicBool::new(false) }
    }

    pub fn target(&self) -> &Target {
        &self.connector.target
    }

    /// Returns whether hostd has ever responded. Before the first response an unreachable hostd is not "restarting".
    pub fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: ApiRequest) -> Result<ApiResponse, ClientError> {
        let deadline = Instant::now() + request.timeout;
        let late = request.timeout;
        let (response, sender) = self.exchange(request, deadline).await?;
        let body = collect(response, deadline, late).await?;
        self.keep(sender);
        Ok(ApiResponse { body })
    }

    /// Sends a request and returns the response as a stream; the timeout applies to its head only.
    pub async fn open(&self, request: ApiRequest) -> Result<Response<Incoming>, ClientError> {
        let deadline = Instant::now() + request.timeout;
        Ok(self.exchange(request, deadline).await?.0)
    }

    /// The same for any status: also one of an error is the caller's to read.
    pub async fn open_any(&self, request: ApiRequest) -> Result<Response<Incoming>, ClientError> {
        let (deadline, late) = (Instant::now() + request.timeout, request.timeout);
        let http = self.build(request, None)?;
        Ok(self.send_http(http, deadline, late).await?.0)
    }

    /// Sends a request whose body comes from elsewhere, and reads the whole response. Cannot be repeated.
    pub async fn upload(&self, request: ApiRequest, body: RequestBody) -> Result<ApiResponse, ClientError> {
        let (deadline, late) = (Instant::now() + request.timeout, request.timeout);
        let http = self.build(request, Some(body))?;
        let (response, sender) = self.exchange_http(http, deadline, late).await?;
        let body = collect(response, deadline, late).await?;
        self.keep(sender);
        Ok(ApiResponse { body })
    }

    /// Reads all pages of a list.
    pub async fn list(&self, request: ApiRequest) -> Result<Vec<Value>, ClientError> {
        let (mut items, mut after) = (Vec::new(), None);
        loop {
            let page = self.page(&request, after.as_deref()).await?;
            items.extend(page.items);
            if page.next.is_none() || page.next == after || items.len() >= limits::LIST_MAX_ITEMS {
                return Ok(items);
            }
            after = page.next;
        }
    }

    /// Reads a page of a list.
    pub async fn page(&self, request: &ApiRequest, after: Option<&str>) -> Result<Page<Value>, ClientError> {
        self.send(request.clone().query_if("after", after)).await?.parse()
    }

    async fn exchange(
        &self,
        request: ApiRequest,
        deadline: Instant,
    ) -> Result<(Response<Incoming>, Sender), ClientError> {
        let late = request.timeout;
        let http = self.build(request, None)?;
        self.exchange_http(http, deadline, late).await
    }

    async fn exchange_http(
        &self,
        http: Request<RequestBody>,
        deadline: Instant,
        late: Duration,
    ) -> Result<(Response<Incoming>, Sender), ClientError> {
        let (response, sender) = self.send_http(http, deadline, late).await?;
        let upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if response.status().is_success() || upgraded {
            return Ok((response, sender));
        }
        let status = response.status();
        let body = collect(response, deadline, late).await?;
        match serde_json::from_slice::<ApiErrorBody>(&body) {
            Ok(told) => Err(ClientError::Api(Box::new(told.error))),
            Err(_) if status == StatusCode::BAD_REQUEST && wants_tls(&body) => Err(self.not_plain(&status)),
            Err(_) if status.is_server_error() => Err(ClientError::Intermediary(status.to_string())),
            Err(_) => Err(ClientError::UnexpectedResponse(format!("{status} {}", excerpt(&body)))),
        }
    }

    async fn send_http(
        &self,
        http: Request<RequestBody>,
        deadline: Instant,
        late: Duration,
    ) -> Result<(Response<Incoming>, Sender), ClientError> {
        let mut sender = match self.idle_sender() {
            Some(sender) => sender,
            None => self.connector.connect().await?,
        };
        let response = timeout_at(deadline, sender.send_request(http))
            .await
            .map_err(|_| ClientError::TimedOut(late))?
            .map_err(|error| self.lost(error))?;
        self.answered.store(true, Ordering::Relaxed);
        Ok((response, sender))
    }

    /// Names the error of a request that got no response. A server of TLS answers plain HTTP with an alert, which is no
    /// response.
    fn lost(&self, error: hyper::Error) -> ClientError {
        match self.target().plain_url() {
            Some(url) if error.is_parse() && !self.has_answered() => {
                TlsError::NotPlain { url: url.clone() }.into()
            }
            Some(_) | None => ClientError::ConnectionLost(error),
        }
    }

    fn not_plain(&self, status: &StatusCode) -> ClientError {
        match self.target().plain_url() {
            Some(url) => TlsError::NotPlain { url: url.clone() }.into(),
            None => ClientError::UnexpectedResponse(status.to_string()),
        }
    }

    fn build(
        &self,
        request: ApiRequest,
        body: Option<RequestBody>,
    ) -> Result<Request<RequestBody>, ClientError> {
        let mut http = Request::builder()
            .method(request.method)
            .uri(request.target)
            .header("host", self.target().host());
        if let Some(token) = &self.token {
            http = http.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in request.headers {
            http = http.header(name, value);
        }
        let whole = || Full::new(request.body).map_err(|never| match never {}).boxed_unsync();
        http.body(body.unwrap_or_else(whole)).map_err(|error| {
            ClientError::BadUrl(format!("the token or the URL of hostd cannot be sent: {error}"))
        })
    }

    fn idle_sender(&self) -> Option<Sender> {
        self.idle.lock().ok()?.take().filter(|sender| sender.is_ready())
    }

    fn keep(&self, sender: Sender) {
        if let Ok(mut idle) = self.idle.lock() {
            *idle = Some(sender);
        }
    }
}

async fn collect(
    response: Response<Incoming>,
    deadline: Instant,
    late: Duration,
) -> Result<Bytes, ClientError> {
    let body = Limited::new(response.into_body(), limits::RESPONSE_MAX_BYTES).collect();
    match timeout_at(deadline, body).await {
        Err(_) => Err(ClientError::TimedOut(late)),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) => Err(match error.downcast::<hyper::Error>() {
            Ok(cut) => ClientError::ConnectionLost(*cut),
            Err(_) => ClientError::UnexpectedResponse(format!(
                "longer than {} MiB",
                limits::RESPONSE_MAX_BYTES >> 20
            )),
        }),
    }
}

/// Returns whether a server says that its port is for HTTPS, as nginx, Apache and servers in Go do to plain HTTP.
fn wants_tls(body: &[u8]) -> bool {
    let text = excerpt_of(body, ERROR_PAGE_CHARS).to_ascii_lowercase();
    ["https port", "https server", "ssl-enabled server port"].iter().any(|words| text.contains(words))
}

fn excerpt(body: &[u8]) -> String {
    excerpt_of(body, EXCERPT_CHARS)
}

fn excerpt_of(body: &[u8], chars: usize) -> String {
    String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_want_tls_are_understood() {
        let table = [
            ("<title>400 The plain HTTP request was sent to HTTPS port</title>", true),
            ("Client sent an HTTP request to an HTTPS server.\n", true),
            ("Reason: You're speaking plain HTTP to an SSL-enabled server port.", true),
            ("<title>400 Bad Request</title>", false),
            ("", false),
        ];
        for (page, expected) in table {
            assert_eq!(wants_tls(page.as_bytes()), expected, "{page}");
        }
    }
}
