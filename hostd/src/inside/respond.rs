//! Responds to one request from inside a sandbox. Model calls and requests to the outside are forwarded, and
//! their responses stream.

use super::{
    limits::{BODY_MAX_BYTES, BODY_MAX_MS, REQUESTS},
    route::{RequestError, Route, route},
    status::ServedSandbox,
    status_page,
};
use crate::git::GitGateway;
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hostd_core::{Previews, RateLimiter};
use hostd_edge::egress::{Egress, ProxyResponse, SandboxEgress};
use hostd_models::gateway::{CancelWithTask, Gateway};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Request, Response, StatusCode,
    body::{Body as _, Incoming},
    header::{
        ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, VARY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use protocol::api::ApiErrorBody;
use serde::Serialize;
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;

const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";
/// Content-Security-Policy: nothing but the inline style of the page.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action 'none'";

/// The services of hostd and the sandbox that they are for.
#[derive(Clone)]
pub struct RequestContext {
    pub sandbox: Arc<ServedSandbox>,
    pub previews: Arc<Previews>,
    pub rate: Arc<RequestRate>,
    pub gateway: Gateway,
    pub git: GitGateway,
    pub egress: Egress,
    pub passage: Arc<SandboxEgress>,
}

/// The future that drives a connection after it stopped speaking HTTP.
#[derive(Clone, Default)]
pub struct AfterHttp(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl AfterHttp {
    fn put(&self, then: Option<BoxFuture<'static, ()>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = then;
    }

    pub fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The request rate of one sandbox.
pub struct RequestRate {
    since: Instant,
    allowance: Mutex<RateLimiter>,
}

impl Default for RequestRate {
    fn default() -> Self {
        Self { since: Instant::now(), allowance: Mutex::new(RateLimiter::new(REQUESTS, 0)) }
    }
}

impl RequestRate {
    fn allows(&self) -> bool {
        let now_ms = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.allowance.lock().unwrap_or_else(PoisonError::into_inner).try_acquire(now_ms)
    }
}

pub async fn respond(
    context: RequestContext,
    (after, cancel_with_task): (AfterHttp, CancelWithTask),
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let routed = route(request.method(), request.uri(), request.headers());
    cancel_with_task.detach();
    match routed {
        Ok(Route::Model) => {
            let mut response = context.gateway.serve(context.sandbox.id(), request).await;
            cancel_with_task.attach(&mut response);
            return Ok(response);
        }
        Ok(Route::Outside) => {
            let ProxyResponse { response, tunnel } = context.egress.serve(&context.passage, request).await;
            after.put(tunnel);
            return Ok(response);
        }
        Ok(Route::Git) if !context.rate.allows() => return Ok(refused(RequestError::TooMany)),
        Ok(Route::Git) => return Ok(context.git.serve(&context.passage, request).await),
        Ok(Route::Status { .. } | Route::Health) | Err(_) => {}
    }
    let routed = match routed {
        _ if !context.rate.allows() => Err(RequestError::TooMany),
        Ok(route) => read(request.into_body()).await.map(|_| route),
        Err(error) => Err(error),
    };
    let mut response = match routed {
        Ok(route) => perform(&context, route).await,
        Err(error) => refused(error),
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

async fn perform(context: &RequestContext, route: Route) -> Response<Body> {
    match route {
        Route::Model | Route::Git | Route::Outside => refused(RequestError::Path),
        Route::Health => json(StatusCode::OK, &"ok"),
        Route::Status { html } => {
            let view = context.sandbox.status(&context.previews).await;
            if html {
                text(StatusCode::OK, HTML, status_page::html(&view))
            } else {
                json(StatusCode::OK, &view)
            }
        }
    }
}

/// Reads the whole body, within limits of size and time.
async fn read(body: Incoming) -> Result<Bytes, RequestError> {
    if body.size_hint().lower() > BODY_MAX_BYTES as u64 {
        return Err(RequestError::TooLarge);
    }
    let whole = Limited::new(body, BODY_MAX_BYTES).collect();
    match timeout(Duration::from_millis(BODY_MAX_MS), whole).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(RequestError::TooLarge),
        Ok(Err(_)) | Err(_) => Err(RequestError::NoBody),
    }
}

fn refused(refusal: RequestError) -> Response<Body> {
    let error = refusal.error();
    let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = json(status, &ApiErrorBody { error });
    if refusal == RequestError::Method {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    }
    response
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    text(status, JSON, serde_json::to_string(value).unwrap_or_default())
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
