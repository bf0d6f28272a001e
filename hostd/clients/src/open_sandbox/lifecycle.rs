//! Sandboxes: create, look, list, pause, resume, prolong, delete, and where they are reached.

use super::{
    SandboxResult, create::CreateBody, document, endpoint, error::SandboxError, limits, sandbox_id,
    timestamp, view,
};
use crate::{ApiClient, Clients, percent, respond};
use axum::body::Body;
use hostd_core::rfc3339;
use hyper::{Method, Request, StatusCode};
use protocol::api::{Page, SandboxId, SandboxStatus, SandboxView, TtlChange};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub struct LifecycleCall<'a> {
    pub clients: &'a Clients,
    pub api: ApiClient,
    /// The token of the caller.
    pub key: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewBody {
    expires_at: String,
}

pub async fn serve(call: LifecycleCall<'_>, request: Request<Body>) -> SandboxResult {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query();
    let path = parts.uri.path().strip_prefix("/v1/").ok_or_else(SandboxError::not_found)?;
    let path: Vec<&str> = path.split('/').collect();
    match (parts.method.as_str(), path.as_slice()) {
        ("POST", ["sandboxes"]) => create(&call, document(body, None).await?).await,
        ("GET", ["sandboxes"]) => list(&call, query).await,
        ("GET", ["sandboxes", id]) => get(&call, sandbox_id(id)?).await,
        ("DELETE", ["sandboxes", id]) => delete(&call, sandbox_id(id)?).await,
        ("POST", ["sandboxes", id, "pause"]) => pause(&call, sandbox_id(id)?).await,
        ("POST", ["sandboxes", id, "resume"]) => resume(&call, sandbox_id(id)?).await,
        ("POST", ["sandboxes", id, "renew-expiration"]) => {
            renew(&call, sandbox_id(id)?, document(body, None).await?).await
        }
        ("PATCH", ["sandboxes", id, "metadata"]) => {
            change_metadata(&call, sandbox_id(id)?, document(body, None).await?).await
        }
        ("GET", ["sandboxes", id, "endpoints", port]) => {
            endpoint::get(&call, sandbox_id(id)?, port, (&parts.headers, query)).await
        }
        // Numbers about the client's own latency, which nobody here asked for.
        ("POST", ["metrics", "events"]) => {
            respond::read(body, limits::JSON_MAX_BYTES).await?;
            Ok(respond::empty(StatusCode::NO_CONTENT))
        }
        (
            _,
            ["snapshots" | "templates", ..]
            | ["sandboxes", _, "snapshots" | "networkpolicy" | "diagnostics", ..],
        ) => {
            let what = "snapshots, templates, network policies of running sandboxes and diagnostics";
            Err(SandboxError::unsupported(format!("use Slipway's own API for {what}")))
        }
        _ => Err(SandboxError::not_found()),
    }
}

async fn create(call: &LifecycleCall<'_>, body: CreateBody) -> SandboxResult {
    let path = format!("/v1/sandboxes?wait={}", limits::CREATE_WAIT);
    let created: SandboxView = call.api.post(&path, &body.into_spec()?).await?;
    Ok(respond::json(StatusCode::ACCEPTED, &view::sandbox(&created)))
}

/// Returns a sandbox that is there: a destroyed one is not, to these clients.
async fn living(call: &LifecycleCall<'_>, id: SandboxId) -> Result<SandboxView, SandboxError> {
    let found: SandboxView = call.api.get(&format!("/v1/sandboxes/{id}")).await?;
    if found.status == SandboxStatus::Destroyed {
        return Err(SandboxError::no_such_sandbox());
    }
    Ok(found)
}

async fn get(call: &LifecycleCall<'_>, id: SandboxId) -> SandboxResult {
    Ok(respond::json(StatusCode::OK, &view::sandbox(&living(call, id).await?)))
}

async fn list(call: &LifecycleCall<'_>, query: Option<&str>) -> SandboxResult {
    let number = |name: &str, otherwise: usize| match percent::value(query, name) {
        Some(text) => match text.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number),
            Ok(_) | Err(_) => Err(SandboxError::invalid(format!("{name} must be a number above 0"))),
        },
        None => Ok(otherwise),
    };
    let page = number("page", 1)?;
    let size = number("pageSize", limits::PAGE_SIZE_DEFAULT)?.min(limits::PAGE_SIZE_MAX);
    let states: Vec<String> = percent::values(query, "state")
        .flatten()
        .filter_map(|state| String::from_utf8(state).ok())
        .map(|state| state.to_lowercase())
        .collect();
    let filter = percent::value(query, "metadata").unwrap_or_default();
    let wanted = |sandbox: &SandboxView| {
        (states.is_empty() || states.contains(&view::state(sandbox).to_lowercase()))
            && has_metadata(sandbox, &filter)
    };
    let mut found = all(call).await?;
    found.retain(wanted);
    let total = found.len();
    let first = (page - 1).saturating_mul(size);
    let items: Vec<Value> = found.iter().skip(first).take(size).map(view::sandbox).collect();
    let pages = total.div_ceil(size);
    let pagination = json!({
        "page": page, "pageSize": size, "totalItems": total, "totalPages": pages, "hasNextPage": page < pages,
    });
    Ok(respond::json(StatusCode::OK, &json!({"items": items, "pagination": pagination})))
}

/// All sandboxes that the caller sees, up to a limit: a page of these clients has a number, and needs the total.
async fn all(call: &LifecycleCall<'_>) -> Result<Vec<SandboxView>, SandboxError> {
    let (mut found, mut after) = (Vec::new(), String::new());
    while found.len() < limits::LISTED_MAX {
        let page: Page<SandboxView> = call.api.get(&format!("/v1/sandboxes?limit=1000{after}")).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    Ok(found)
}

/// Whether a sandbox has all metadata of a filter, as in `a=1&b=2`.
fn has_metadata(sandbox: &SandboxView, filter: &str) -> bool {
    let metadata = view::metadata(sandbox);
    filter.split('&').filter(|pair| !pair.is_empty()).all(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = |part| percent::decode_value(part).and_then(|bytes| String::from_utf8(bytes).ok());
        let (Some(name), Some(value)) = (text(name), text(value)) else { return false };
        metadata.get(name.as_str()) == Some(&value.as_str())
    })
}

async fn delete(call: &LifecycleCall<'_>, id: SandboxId) -> SandboxResult {
    living(call, id).await?;
    let path = format!("/v1/sandboxes/{id}?workspace=remove");
    call.api.send(ApiClient::request(Method::DELETE, &path)).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

async fn pause(call: &LifecycleCall<'_>, id: SandboxId) -> SandboxResult {
    living(call, id).await?;
    call.api.send(ApiClient::request(Method::POST, &format!("/v1/sandboxes/{id}/pause"))).await?;
    Ok(respond::empty(StatusCode::ACCEPTED))
}

/// Resumes a sandbox that is paused, and starts one that went to sleep.
async fn resume(call: &LifecycleCall<'_>, id: SandboxId) -> SandboxResult {
    let verb = match living(call, id).await?.status {
        SandboxStatus::Stopped | SandboxStatus::Error => "start",
        SandboxStatus::Creating
        | SandboxStatus::Running
        | SandboxStatus::Paused
        | SandboxStatus::Destroyed => "resume",
    };
    call.api.send(ApiClient::request(Method::POST, &format!("/v1/sandboxes/{id}/{verb}"))).await?;
    Ok(respond::empty(StatusCode::ACCEPTED))
}

async fn renew(call: &LifecycleCall<'_>, id: SandboxId, body: RenewBody) -> SandboxResult {
    living(call, id).await?;
    let now_ms = call.clients.parts.clock.now_ms();
    let left_ms = timestamp::parse(&body.expires_at).and_then(|expires_ms| expires_ms.checked_sub(now_ms));
    let seconds = left_ms.map(|ms| ms.div_ceil(1000)).filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| SandboxError::invalid("expiresAt must be a time in the future"))?;
    let change = TtlChange { ttl: Some(Some(format!("{seconds}s"))), on_ttl: None };
    let path = format!("/v1/sandboxes/{id}/ttl");
    let changed: SandboxView = call.api.json(Method::PATCH, &path, Some(&change)).await?;
    let expires_at = changed.expires_at.unwrap_or_else(|| rfc3339(now_ms + seconds * 1000));
    Ok(respond::json(StatusCode::OK, &json!({"expiresAt": expires_at})))
}

/// Changes metadata; a null removes one.
async fn change_metadata(
    call: &LifecycleCall<'_>,
    id: SandboxId,
    patch: BTreeMap<String, Option<String>>,
) -> SandboxResult {
    let mut metadata = living(call, id).await?.metadata;
    for (name, value) in patch {
        if name == view::ENTRYPOINT {
            return Err(SandboxError::invalid(format!("the metadata {name} is Slipway's own")));
        }
        match value {
            Some(value) => drop(metadata.insert(name, value)),
            None => drop(metadata.remove(&name)),
        }
    }
    let path = format!("/v1/sandboxes/{id}");
    let changed: SandboxView =
        call.api.json(Method::PATCH, &path, Some(&json!({"metadata": metadata}))).await?;
    Ok(respond::json(StatusCode::OK, &view::sandbox(&changed)))
}
