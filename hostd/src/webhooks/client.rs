//! Sends one request to an endpoint. The address that is judged is the one that is connected; a redirect is not followed,
//! and of the response only a short prefix is read.

use super::limits;
use bytes::Bytes;
use hostd_core::{
    egress::Exceptions,
    webhook::{Endpoint, SigningKey, WebhookAnswer, signatures},
};
use hostd_edge::egress::HostAddresses;
use hostd_net::{
    http1::{Http1Connection, ResponseBody},
    outbound::{OutboundConnector, OutboundError, OutboundStream},
};
use http_body_util::Full;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::http1::Builder,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use protocol::sanitize::one_line;
use std::{future::poll_fn, net::IpAddr, sync::Arc, time::Duration};
use tokio::time::timeout;
use tokio_util::either::Either;

const AGENT: &str = concat!("slipway/", env!("CARGO_PKG_VERSION"));

/// A message as it is sent.
#[derive(Debug, Clone)]
pub struct SignedMessage<'a> {
    pub id: &'a str,
    pub timestamp_s: u64,
    pub body: &'a str,
    pub keys: &'a [SigningKey],
}

/// What came of a request: the answer, and why it is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    pub answer: WebhookAnswer,
    pub error: Option<String>,
}

#[derive(Clone)]
pub struct EndpointClient {
    connector: OutboundConnector,
    allowed: Arc<Exceptions>,
    host_addresses: Arc<HostAddresses>,
    attempt_max: Duration,
}

impl EndpointClient {
    /// `allowed` are the hosts that may have addresses which are not public.
    pub fn new(connector: OutboundConnector, allowed: Exceptions) -> Self {
        Self {
            connector,
            allowed: Arc::new(allowed),
            host_addresses: Arc::default(),
            attempt_max: Duration::from_millis(limits::ATTEMPT_MAX_MS),
        }
    }

    pub async fn send(&self, endpoint: &Endpoint, message: SignedMessage<'_>) -> Exchange {
        let no_answer = |error: String| {
            let error = Some(one_line(&error, limits::ERROR_MAX_CHARS));
            Exchange { answer: WebhookAnswer::None, error }
        };
        match timeout(self.attempt_max, self.exchange(endpoint, &message)).await {
            Ok(Ok(exchange)) => exchange,
            Ok(Err(error)) => no_answer(error),
            Err(_) => no_answer(format!("no response within {} s", self.attempt_max.as_secs())),
        }
    }

    async fn exchange(&self, endpoint: &Endpoint, message: &SignedMessage<'_>) -> Result<Exchange, String> {
        let request = request(endpoint, message)?;
        let stream = self.connect(endpoint).await?;
        let mut builder = Builder::new();
        builder.max_header_size(limits::RESPONSE_HEAD_MAX_BYTES);
        let failed = |error: &dyn std::error::Error| format!("the connection failed: {error}");
        let connection = Http1Connection::handshake(stream, &builder).await;
        let mut connection = Box::new(connection.map_err(|error| failed(&error))?);
        let response = connection.send(request).await.map_err(|error| failed(&error))?;
        Ok(judge(response, connection).await)
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<OutboundStream, String> {
        let judge = |address: IpAddr| {
            // Deny rather than reach the host where its addresses are not known.
            let is_host = self.host_addresses.contains(address).unwrap_or(true);
            endpoint.may_reach(address, is_host, &self.allowed)
        };
        let host = endpoint.host();
        let connected =
            self.connector.connect(&host, endpoint.destination.port, |address| judge(address).is_ok()).await;
        let stream = connected.map_err(|error| match error {
            OutboundError::NotAllowed { address, .. } => {
                judge(address).err().map_or_else(|| error.to_string(), |refusal| refusal.to_string())
            }
            OutboundError::NoHost { .. }
            | OutboundError::Lookup { .. }
            | OutboundError::Connect { .. }
            | OutboundError::Tls { .. } => error.to_string(),
        })?;
        if !endpoint.secure {
            return Ok(Either::Left(stream));
        }
        let secured = self.connector.connect_tls(&host, stream).await;
        secured.map(Either::Right).map_err(|error| error.to_string())
    }
}

fn request(endpoint: &Endpoint, message: &SignedMessage<'_>) -> Result<Request<Full<Bytes>>, String> {
    let SignedMessage { id, timestamp_s, body, keys } = message;
    let signed = signatures(keys, id, *timestamp_s, body.as_bytes());
    Request::post(&endpoint.target)
        .header(HOST, endpoint.host_header())
        .header(USER_AGENT, AGENT)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", *id)
        .header("webhook-timestamp", timestamp_s.to_string())
        .header("webhook-signature", signed)
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .map_err(|error| format!("the request could not be written: {error}"))
}

type Connection = Box<Http1Connection<OutboundStream, Full<Bytes>>>;

/// Reads the status, and of a failure the beginning of the body. The connection is closed.
async fn judge(response: Response<Incoming>, connection: Connection) -> Exchange {
    let (head, incoming) = response.into_parts();
    let code = head.status.as_u16();
    let seconds =
        head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let retry_after_ms = seconds.map(|seconds| seconds.saturating_mul(1_000));
    let answer = WebhookAnswer::Status { code, retry_after_ms };
    if answer.is_success() {
        return Exchange { answer, error: None };
    }
    // A body that does not come must not hide the status.
    let reading = prefix(ResponseBody::new(incoming, connection));
    let prefix =
        timeout(Duration::from_millis(limits::RESPONSE_READ_MAX_MS), reading).await.unwrap_or_default();
    let told = one_line(&String::from_utf8_lossy(&prefix), limits::RESPONSE_KEPT_MAX_CHARS);
    let error = match (head.status.is_redirection(), told.is_empty()) {
        (true, _) => {
            format!("status {code}: redirects are not followed; give the webhook the address itself")
        }
        (false, true) => format!("status {code}"),
        (false, false) => format!("status {code}: {told}"),
    };
    Exchange { answer, error: Some(error) }
}

async fn prefix(mut body: ResponseBody<OutboundStream, Full<Bytes>>) -> Vec<u8> {
    let mut prefix = Vec::new();
    while prefix.len() < limits::RESPONSE_READ_MAX_BYTES {
        match poll_fn(|cx| body.poll_data(cx)).await {
            Some(Ok(piece)) => {
                let room = limits::RESPONSE_READ_MAX_BYTES - prefix.len();
                prefix.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            Some(Err(_)) | None => break,
        }
    }
    prefix
}
