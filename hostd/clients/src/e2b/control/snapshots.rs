//! Snapshots, which are templates to E2B.

use super::{
    call::{Call, sandbox_id},
    error::E2bError,
    list::paged,
    request::Snapshot,
};
use crate::respond;
use axum::response::Response;
use hyper::{Method, StatusCode};
use protocol::api::{SnapshotCreate, SnapshotId, SnapshotView};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Serialize)]
struct SnapshotInfo {
    #[serde(rename = "snapshotID")]
    id: String,
    names: Vec<String>,
}

pub async fn take(call: &Call, id: &str) -> Result<Response, E2bError> {
    let Snapshot { name } = call.json()?;
    let view = call.sandbox(id).await?;
    let path = format!("/v1/sandboxes/{}/snapshots", view.id);
    let taken: SnapshotView = call.api.post(&path, &SnapshotCreate { name, excludes: vec![] }).await?;
    Ok(respond::json(StatusCode::CREATED, &info(&taken)))
}

pub async fn list(call: &Call) -> Result<Response, E2bError> {
    let of_sandbox = match call.query.text("sandboxID") {
        Some(id) => format!("&sandbox={}", sandbox_id(id)?),
        None => String::new(),
    };
    let mut found: Vec<SnapshotView> = call.all("/v1/snapshots", &of_sandbox).await?;
    if let Some(name) = call.query.text("name") {
        found.retain(|snapshot| snapshot.name.as_deref() == Some(name));
    }
    if let Some(token) = call.query.text("nextToken") {
        let after: SnapshotId =
            token.parse().map_err(|_| E2bError::invalid("nextToken: this is no token of a page"))?;
        found.retain(|snapshot| snapshot.id.as_str() < after.as_str());
    }
    paged(call, found, |snapshot| snapshot.id.to_string(), |snapshot| info(&snapshot))
}

pub async fn delete(call: &Call, template: &str) -> Result<Response, E2bError> {
    let missing = || E2bError::no_template(format!("snapshot '{template}' not found"));
    let snapshot = find(call, template).await?.ok_or_else(missing)?;
    let path = format!("/v1/snapshots/{}", snapshot.id);
    call.api.json::<(), Value>(Method::DELETE, &path, None).await?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// The snapshot with this id, or the newest with this name. E2B appends a tag to ids.
pub async fn find(call: &Call, text: &str) -> Result<Option<SnapshotView>, E2bError> {
    let id = text.split_once(':').map_or(text, |(id, _)| id);
    if let Ok(id) = id.parse::<SnapshotId>() {
        return match call.api.get(&format!("/v1/snapshots/{id}")).await.map_err(E2bError::from) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        };
    }
    let all: Vec<SnapshotView> = call.all("/v1/snapshots", "").await?;
    Ok(all.into_iter().find(|snapshot| snapshot.name.as_deref() == Some(text)))
}

fn info(snapshot: &SnapshotView) -> SnapshotInfo {
    SnapshotInfo { id: snapshot.id.to_string(), names: snapshot.name.iter().cloned().collect() }
}
