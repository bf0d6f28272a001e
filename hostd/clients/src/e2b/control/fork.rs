//! Forks: sandboxes with the files of another one, as they are now. Memory is not carried over.

use super::{
    call::Call,
    create::on_ttl,
    error::{E2bError, ErrorDocument},
    limits,
    request::Fork,
    view::{self, ConnectedSandbox},
};
use crate::{
    e2b::record::{self, E2bRecord},
    respond,
};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use hyper::{Method, StatusCode};
use protocol::api::{IdlePolicy, SandboxView, SnapshotCreate, SnapshotFork, SnapshotId, SnapshotView};
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

/// One of the forks, or why there is none.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum ForkResult<'a> {
    Sandbox(&'a ConnectedSandbox),
    Error(ErrorDocument<'a>),
}

pub async fn fork(call: &Call, id: &str) -> Result<Response, E2bError> {
    let Fork { timeout, count } = call.json()?;
    let count = count.unwrap_or(1);
    if !(1..=limits::FORKS_MAX).contains(&count) {
        return Err(E2bError::invalid(format!("count must be 1 to {}", limits::FORKS_MAX)));
    }
    let origin = call.sandbox(id).await?;
    let origin_record = record::load(&call.clients, &origin.id).await?;
    let path = format!("/v1/sandboxes/{}/snapshots", origin.id);
    let snapshot: SnapshotView = call.api.post(&path, &SnapshotCreate::default()).await?;
    let order = SnapshotFork {
        metadata: origin.metadata.clone(),
        ttl: Some(format!("{}s", timeout.unwrap_or(limits::TIMEOUT_DEFAULT_S).max(1))),
        on_ttl: Some(on_ttl(origin_record.at_timeout)),
        idle_policy: Some(IdlePolicy::AlwaysOn),
        ..SnapshotFork::default()
    };
    let template = view::template(&origin, &origin_record);
    let record = E2bRecord { template, generation: 0, holders: Vec::new(), ..origin_record };
    let forks = stream::iter(0..count).map(|_| one(call, &snapshot.id, &order, &record));
    let results: Vec<_> = forks.buffered(limits::FORKS_AT_ONCE).collect().await;
    // The forks keep its files.
    let path = format!("/v1/snapshots/{}", snapshot.id);
    if let Err(failure) = call.api.json::<(), Value>(Method::DELETE, &path, None).await {
        warn!(snapshot = %snapshot.id, error = %failure, "failed to remove the snapshot of a fork");
    }
    let results: Vec<ForkResult<'_>> = results.iter().map(result).collect();
    Ok(respond::json(StatusCode::CREATED, &results))
}

async fn one(
    call: &Call,
    snapshot: &SnapshotId,
    order: &SnapshotFork,
    record: &E2bRecord,
) -> Result<ConnectedSandbox, E2bError> {
    let path = format!("/v1/snapshots/{snapshot}/fork?wait={}s", limits::WAIT_S);
    let view: SandboxView = call.api.post(&path, order).await?;
    record::insert(&call.clients, &view.id, record.clone()).await?;
    view::connected(call, &view).await
}

fn result(made: &Result<ConnectedSandbox, E2bError>) -> ForkResult<'_> {
    match made {
        Ok(connected) => ForkResult::Sandbox(connected),
        Err(error) => ForkResult::Error(error.document()),
    }
}
