//! The client of Slipway's own API, in process: what a protocol does for a caller, it does by calls of that API, which
//! authenticates, authorizes, audits and limits them as if they had come over the network.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use hostd_core::Identity;
use http_body_util::{BodyExt, Limited};
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
    http::{Extensions, request::Parts},
    upgrade::OnUpgrade,
};
use protocol::api::{ApiError, ApiErrorBody, ApiErrorCode, SandboxId};
use serde::{Serialize, de::DeserializeOwned};
use std::convert::Infallible;
use tower::{ServiceExt, util::BoxCloneSyncService};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The largest JSON document that the API answers with.
const DOCUMENT_MAX_BYTES: usize = 64 << 20;

/// Slipway's own API, as a service.
pub type ApiService = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// Request extension: the caller is authenticated already, by a credential of a protocol. Only code of hostd can set it.
#[derive(Debug, Clone)]
pub struct DelegatedIdentity(pub Identity);

/// Request extension: the caller may call routes of this sandbox only, whatever its identity may do. Only code of hostd can
/// set it.
#[derive(Debug, Clone, Copy)]
pub struct OnlySandbox(pub SandboxId);

/// How calls are authenticated.
#[derive(Clone)]
pub enum Credential {
    /// The caller of the Unix socket, or of a listener without authentication.
    Connection,
    /// A token of the API.
    Token(String),
    /// A caller that the protocol authenticated.
    Identity(Box<Identity>),
    /// The same, for routes of one sandbox.
    OnSandbox(Box<Identity>, SandboxId),
}

/// Makes calls for one request, with its credential, connection and request id. Cheap to clone.
#[derive(Clone)]
pub struct ApiClient {
    service: ApiService,
    credential: Credential,
    /// Peer and permits of the connection that the request came on.
    connection: Extensions,
    /// Headers that are the same for each call.
    headers: HeaderMap,
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", error.message)]
pub struct ApiFailure {
    pub status: StatusCode,
    pub error: Box<ApiError>,
    /// `Retry-After` and the like.
    pub headers: HeaderMap,
}

impl ApiFailure {
    pub fn new(code: ApiErrorCode, message: impl Into<String>) -> Self {
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { status, error: Box::new(ApiError::new(code, message)), headers: HeaderMap::new() }
    }
}

impl ApiClient {
    /// A client for what this request asks for.
    pub fn of<B>(service: ApiService, request: &Request<B>, credential: Credential) -> Self {
        Self::of_head(service, (request.headers(), request.extensions()), credential)
    }

    /// The same, for a request whose body is elsewhere.
    pub fn of_parts(service: ApiService, parts: &Parts, credential: Credential) -> Self {
        Self::of_head(service, (&parts.headers, &parts.extensions), credential)
    }

    fn of_head(
        service: ApiService,
        (given, extensions): (&HeaderMap, &Extensions),
        credential: Credential,
    ) -> Self {
        let mut connection = extensions.clone();
        // The connection is upgraded for the request itself, if at all.
        connection.remove::<OnUpgrade>();
        let mut headers = HeaderMap::new();
        for name in [HOST, REQUEST_ID] {
            if let Some(value) = given.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        Self { service, credential, connection, headers }
    }

    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiFailure> {
        self.json(Method::GET, path, None::<&()>).await
    }

    pub async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, ApiFailure> {
        self.json(Method::POST, path, Some(body)).await
    }

    /// Makes a call whose body and response are JSON documents; a response without content reads as `null`.
    pub async fn json<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, ApiFailure> {
        let mut request = Self::request(method, path);
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|error| internal(&error))?;
            *request.body_mut() = Body::from(text);
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.send_json(request).await
    }

    /// Makes a call whose response is a JSON document.
    pub async fn send_json<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, ApiFailure> {
        Self::read_json(self.send(request).await?).await
    }

    /// Reads the document of a response; one without content reads as `null`.
    pub async fn read_json<T: DeserializeOwned>(response: Response<Body>) -> Result<T, ApiFailure> {
        let whole = read(response.into_body()).await?;
        let document: &[u8] = if whole.is_empty() { b"null" } else { &whole };
        serde_json::from_slice(document).map_err(|error| internal(&error))
    }

    /// A request without a body, to be completed and sent.
    pub fn request(method: Method, path: &str) -> Request<Body> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        request
    }

    /// Makes a call; the response is one of success, with its body as a stream.
    pub async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, ApiFailure> {
        for (name, value) in &self.headers {
            request.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        let own = std::mem::take(request.extensions_mut());
        *request.extensions_mut() = self.connection.clone();
        request.extensions_mut().extend(own);
        self.authenticate(&mut request)?;
        let Ok(response) = self.service.clone().oneshot(request).await;
        if response.status().is_client_error() || response.status().is_server_error() {
            return Err(failure(response).await);
        }
        Ok(response)
    }

    fn authenticate(&self, request: &mut Request<Body>) -> Result<(), ApiFailure> {
        match &self.credential {
            Credential::Connection => {}
            Credential::Token(token) => {
                let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                    ApiFailure::new(ApiErrorCode::Unauthorized, "this token is unknown, revoked or expired")
                })?;
                request.headers_mut().insert(AUTHORIZATION, value);
            }
            Credential::Identity(identity) => {
                request.extensions_mut().insert(DelegatedIdentity((**identity).clone()));
            }
            Credential::OnSandbox(identity, sandbox) => {
                request.extensions_mut().insert(DelegatedIdentity((**identity).clone()));
                request.extensions_mut().insert(OnlySandbox(*sandbox));
            }
        }
        Ok(())
    }
}

async fn failure(response: Response<Body>) -> ApiFailure {
    let (parts, body) = response.into_parts();
    let document = read(body).await.ok();
    let error = document.and_then(|bytes| serde_json::from_slice::<ApiErrorBody>(&bytes).ok());
    let error = error.map_or_else(
        || ApiError::new(ApiErrorCode::Internal, format!("the API answered {}", parts.status)),
        |body| body.error,
    );
    ApiFailure { status: parts.status, error: Box::new(error), headers: parts.headers }
}

async fn read(body: Body) -> Result<Bytes, ApiFailure> {
    let whole = Limited::new(body, DOCUMENT_MAX_BYTES).collect().await;
    whole.map(http_body_util::Collected::to_bytes).map_err(|error| internal(&*error))
}

fn internal(error: &(dyn std::error::Error + 'static)) -> ApiFailure {
    ApiFailure::new(ApiErrorCode::Internal, format!("a call of the API failed: {error}"))
}
