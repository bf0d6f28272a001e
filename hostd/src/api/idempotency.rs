//! `Idempotency-Key`: the same key with the same body runs a call once, and repetitions get the first
//! response. Errors are not kept: nothing was created, so the call may be retried.

use super::{
    audit_writer::AuditedRequest,
    call::Call,
    error::{CallError, CallResult},
    limits,
    route::{Idempotency, Route},
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use hostd_store::{IdempotencyClaim, IdempotencyKey};
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::api::ApiErrorCode;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::timeout;
use tracing::warn;

pub const HEADER: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// Runs the call, or replays the response it got before.
pub async fn run_once(route: &Route, subject: &AuditedRequest, mut call: Call) -> CallResult {
    let key = match (key_in(&call.headers)?, route.idempotency) {
        (None, _) | (_, Idempotency::Inherent) => return (route.handler)(call).await,
        (Some(_), Idempotency::KeyRejected) => {
            let message = "Idempotency-Key is refused here: the response has a secret, which is not stored";
            return Err(CallError::invalid("Idempotency-Key", message));
        }
        (Some(key), Idempotency::ByKey) => IdempotencyKey {
            tenant: call.caller.tenant.clone(),
            principal: call.caller.principal.clone(),
            route: format!("{} {}", subject.method, subject.path),
            key,
        },
    };
    let api = call.api.clone();
    let lock_key = format!("key {} {} {} {}", key.tenant, key.principal, key.route, key.key);
    // Calls with one key run one after the other: an unfinished claim was left by a crash.
    let held = timeout(Duration::from_millis(limits::KEY_WAIT_MS), api.key_locks.lock(lock_key)).await;
    let _held = held.map_err(|_| in_progress())?;
    let hash: [u8; 32] = Sha256::digest(&call.body).into();
    let now_ms = api.now_ms();
    match api.store.idempotency_begin(key.clone(), hash, now_ms).await? {
        IdempotencyClaim::Replay { status, body } => Ok(replay(status, body)),
        IdempotencyClaim::Mismatch => {
            let message = "this Idempotency-Key was used with another body before; use a new key";
            Err(CallError::new(ApiErrorCode::IdempotencyMismatch, message))
        }
        IdempotencyClaim::New => {
            call.claimed_ms = Some(now_ms);
            run_and_store(route, key, call).await
        }
        IdempotencyClaim::Unfinished { since_ms } => {
            call.claimed_ms = Some(since_ms);
            run_and_store(route, key, call).await
        }
    }
}

async fn run_and_store(route: &Route, key: IdempotencyKey, call: Call) -> CallResult {
    let api = call.api.clone();
    let store = &api.store;
    let answer = (route.handler)(call).await;
    let response = match answer {
        Ok(response) => response,
        // The resource was created, and a repeated call finds it again.
        Err(failure) if created_resource(&failure) => return Err(failure),
        Err(failure) => {
            let abandoned = store.idempotency_abandon(key).await;
            abandoned.unwrap_or_else(|error| warn!(%error, "failed to release idempotency key"));
            return Err(failure);
        }
    };
    let (response, body) = buffer_response(response).await?;
    let status = response.status().as_u16();
    // The call succeeded: a failure to store its response must not make the caller repeat it.
    let kept = store.idempotency_finish(key, status, body.to_vec(), api.now_ms()).await;
    kept.unwrap_or_else(|error| warn!(%error, "failed to store response for idempotency key"));
    Ok(response)
}

fn created_resource(failure: &CallError) -> bool {
    let code = failure.error.code;
    code == ApiErrorCode::SandboxFailed
        || (code == ApiErrorCode::DriverUnavailable && failure.error.detail.existing.is_some())
}

fn in_progress() -> CallError {
    CallError::new(
        ApiErrorCode::Conflict,
        "a call with this Idempotency-Key is still in progress; try again later",
    )
}

fn key_in(headers: &HeaderMap) -> Result<Option<String>, CallError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    let sane = |text: &&str| {
        (1..=limits::KEY_MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let invalid = || {
        let most = limits::KEY_MAX_BYTES;
        CallError::invalid("Idempotency-Key", format!("must be 1 to {most} visible ASCII characters"))
    };
    value.to_str().ok().filter(sane).map(|text| Some(text.to_owned())).ok_or_else(invalid)
}

/// Buffers a response. Responses to be kept are small documents that are already in memory.
async fn buffer_response(response: Response) -> Result<(Response, Bytes), CallError> {
    let (parts, body) = response.into_parts();
    let limited = http_body_util::Limited::new(body, limits::KEPT_RESPONSE_MAX_BYTES);
    let bytes = limited.collect().await.map_err(|error| CallError::internal(&*error))?.to_bytes();
    Ok((Response::from_parts(parts, Body::from(bytes.clone())), bytes))
}

fn replay(status: u16, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
