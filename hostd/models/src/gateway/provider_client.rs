//! Makes one attempt at a provider: sends the request and waits for the head and the first bytes of the
//! response. Nothing has been relayed to the agent when an attempt fails, so it can be repeated.

use super::{
    base_url::Origin,
    connection_pool::ProviderConnectionPool,
    dialect::ModelApi,
    headers::is_uncompressed,
    limits::{ERROR_MAX_BYTES, ERROR_MAX_MS},
    provider_connection::{self, ProviderConnection, ProviderStream},
    provider_failure::ProviderFailure,
    response_inspector::{BodyFormat, ResponseInspector},
};
use bytes::{Bytes, BytesMut};
use hostd_core::classify_error_kind;
use hostd_net::{http1::ResponseBody, outbound::OutboundConnector};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Response, Uri, body::Incoming, header::CONTENT_TYPE, http::response,
};
use std::{future::poll_fn, task::Context, task::Poll, time::Duration};
use tokio::time::timeout;

/// A request as it is sent to a provider, the same in each attempt.
pub struct ProviderRequest {
    pub provider: String,
    pub origin: Origin,
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub api: ModelApi,
}

/// A response whose first bytes have come.
pub struct ProviderResponse {
    pub head: response::Parts,
    pub first: Bytes,
    pub rest: ProviderBody,
    pub format: BodyFormat,
    /// Has read the first bytes already.
    pub inspector: ResponseInspector,
}

/// The rest of a response body, with the connection that it comes on.
pub struct ProviderBody {
    body: ResponseBody<ProviderStream, Full<Bytes>>,
    origin: Origin,
    pool: ProviderConnectionPool,
}

/// Why an attempt failed.
pub enum AttemptError {
    Failed(ProviderFailure),
    /// The status is a success, but the first bytes of the body are an error.
    ErrorInResponse(ProviderFailure, Box<ProviderResponse>),
}

pub struct ProviderClient {
    pub connector: OutboundConnector,
    pub pool: ProviderConnectionPool,
    pub first_byte_max: Duration,
}

impl ProviderClient {
    /// Makes one attempt. `on_sent` is called when a connection is open and the request goes out on it.
    pub async fn attempt(
        &self,
        request: &ProviderRequest,
        on_sent: impl Fn() + Sync,
    ) -> Result<Box<ProviderResponse>, AttemptError> {
        let response = async {
            let (connection, response) = self.send(request, &on_sent).await.map_err(AttemptError::Failed)?;
            self.read_start(request, connection, response).await
        };
        match timeout(self.first_byte_max, response).await {
            Ok(response) => response,
            Err(_) => {
                let failure = ProviderFailure::first_byte_timeout(&request.provider, self.first_byte_max);
                Err(AttemptError::Failed(failure))
            }
        }
    }

    async fn send(
        &self,
        request: &ProviderRequest,
        on_sent: &(impl Fn() + Sync),
    ) -> Result<(Box<ProviderConnection>, Response<Incoming>), ProviderFailure> {
        let failed = |error| ProviderFailure::unreachable(&request.provider, &error);
        if let Some(mut connection) = self.pool.take(&request.origin) {
            // The provider may have closed it while it was idle, which is no failure of the provider.
            on_sent();
            if let Ok(response) = connection.send(request.to_http()).await {
                return Ok((connection, response));
            }
        }
        let connection = provider_connection::open(&self.connector, &request.origin).await;
        let mut connection = Box::new(connection.map_err(failed)?);
        on_sent();
        let response = connection.send(request.to_http()).await.map_err(|error| failed(error.into()))?;
        Ok((connection, response))
    }

    async fn read_start(
        &self,
        request: &ProviderRequest,
        connection: Box<ProviderConnection>,
        response: Response<Incoming>,
    ) -> Result<Box<ProviderResponse>, AttemptError> {
        let provider = request.provider.as_str();
        let (head, incoming) = response.into_parts();
        let mut rest = ProviderBody::new(incoming, connection, request.origin.clone(), self.pool.clone());
        if !head.status.is_success() {
            let body =
                if is_uncompressed(&head.headers) { rest.collect(ERROR_MAX_BYTES).await } else { None };
            let failure = ProviderFailure::error_status(provider, head.status, head.headers, body);
            return Err(AttemptError::Failed(failure));
        }
        if !is_uncompressed(&head.headers) {
            let why =
                "compresses its responses although it was asked not to, so their usage cannot be counted";
            return Err(AttemptError::Failed(ProviderFailure::unusable(provider, why)));
        }
        let first = match poll_fn(|cx| rest.poll(cx)).await {
            Some(Ok(first)) => first,
            Some(Err(_)) | None => return Err(AttemptError::Failed(ProviderFailure::empty(provider))),
        };
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let format = BodyFormat::of(content_type.unwrap_or_default());
        let mut inspector = ResponseInspector::new(request.api, format);
        inspector.read(&first);
        let failure = inspector.error().map(|error| {
            let kind = classify_error_kind(&error.kind);
            ProviderFailure::in_response(head.status, kind, error.message.clone())
        });
        let response = Box::new(ProviderResponse { head, first, rest, format, inspector });
        match failure {
            Some(failure) => Err(AttemptError::ErrorInResponse(failure, response)),
            None => Ok(response),
        }
    }
}

impl ProviderRequest {
    fn to_http(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

impl ProviderBody {
    pub fn new(
        incoming: Incoming,
        connection: Box<ProviderConnection>,
        origin: Origin,
        pool: ProviderConnectionPool,
    ) -> Self {
        Self { body: ResponseBody::new(incoming, connection), origin, pool }
    }

    /// The next piece. The connection that it comes on is returned to the pool at the end.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Bytes>>> {
        let next = self.body.poll_data(cx);
        if let Poll::Ready(None) = next
            && let Some(connection) = self.body.take_connection()
        {
            self.pool.put(&self.origin, connection);
        }
        next
    }

    /// All of it, unless it is longer than `max_bytes` or slow.
    pub async fn collect(&mut self, max_bytes: usize) -> Option<Bytes> {
        let mut body = BytesMut::new();
        let read = async {
            while let Some(piece) = poll_fn(|cx| self.poll(cx)).await {
                body.extend_from_slice(&piece.ok()?);
                if body.len() > max_bytes {
                    return None;
                }
            }
            Some(())
        };
        timeout(Duration::from_millis(ERROR_MAX_MS), read).await.ok().flatten()?;
        Some(body.freeze())
    }
}
