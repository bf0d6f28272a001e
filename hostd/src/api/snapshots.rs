//! Snapshots: of the files of a sandbox, and sandboxes made from them.

use super::{
    call::Call,
    dispatch::new_id,
    egress,
    error::{CallError, CallResult},
    sandboxes::{generate_id, view as sandbox_view, wait_settled},
    snapshot_archives,
    views::{self, no_content, ok},
};
use crate::reconcile::FleetError;
use axum::response::Response;
use hostd_core::{
    Blueprint, Environment, Provisioning, State, check_metadata, check_name, generated_name, limits,
    resolve_network, rfc3339, ttl_ms,
};
use hostd_drivers::{Excludes, ManifestDifference};
use hostd_store::{
    NewSandbox, NewSnapshot, SandboxRecord, Secret, SnapshotFilter, SnapshotMade, SnapshotRow,
};
use hyper::{StatusCode, header::LOCATION};
use protocol::api::{
    ApiErrorCode, DifferenceKind, Missing, MissingKind, Owner, SandboxId, SandboxSpec, SandboxStatus, Seed,
    SnapshotContent, SnapshotCreate, SnapshotDifference, SnapshotFork, SnapshotId, SnapshotRestore,
    SnapshotState, SnapshotVerification, SnapshotView,
};
use std::sync::Arc;

/// Takes a snapshot. When this responds, it is on disk.
pub async fn create(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let SnapshotCreate { name, excludes } = call.json()?;
    check_optional_name(name.as_deref())?;
    let parsed = parse_excludes(&excludes)?;
    check_has_files(&sandbox)?;
    check_is_provisioned(&sandbox)?;
    call.api.fleet.check_disk_room()?;
    let permit = call.capture_permit()?;
    let id: SnapshotId = new_id().parse().map_err(|error| CallError::internal(&error))?;
    // What gave the sandbox its first files is done: they are in the snapshot.
    let blueprint =
        Blueprint { seed: None, source: None, dotfiles: None, setup: vec![], ..(*sandbox.blueprint).clone() };
    let new = NewSnapshot {
        id,
        name,
        sandbox: Some(sandbox.id),
        owner: sandbox.owner.clone(),
        excludes,
        blueprint: Arc::new(blueprint),
        created_ms: call.api.now_ms(),
    };
    let row = made(call.api.store.insert_snapshot(new).await?)?;
    Ok(created(&call.api.fleet.take_snapshot(row, (sandbox.id, parsed), permit).await?))
}

pub(super) fn made(made: SnapshotMade) -> Result<SnapshotRow, CallError> {
    match made {
        SnapshotMade::Made(row) => Ok(*row),
        SnapshotMade::Gone => Err(CallError::not_found()),
        SnapshotMade::TooMany => {
            let most = hostd_store::limits::SNAPSHOTS_OF_SANDBOX_MAX;
            let message = format!("there are at most {most} snapshots of a sandbox; delete some of them");
            Err(CallError::new(ApiErrorCode::TooMany, message))
        }
    }
}

pub(super) fn created(row: &SnapshotRow) -> Response {
    let mut response = views::json(StatusCode::CREATED, &view(row));
    if let Ok(location) = format!("/v1/snapshots/{}", row.id).parse() {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

pub(super) fn check_optional_name(name: Option<&str>) -> Result<(), CallError> {
    Ok(name.map_or(Ok(()), check_name)?)
}

fn parse_excludes(excludes: &[String]) -> Result<Excludes, CallError> {
    let invalid = |why: String| CallError::invalid("excludes", why);
    if excludes.len() > limits::SNAPSHOT_EXCLUDES_MAX {
        return Err(invalid(format!("has at most {} patterns", limits::SNAPSHOT_EXCLUDES_MAX)));
    }
    let good = |text: &String| {
        (1..=limits::SNAPSHOT_EXCLUDE_MAX_BYTES).contains(&text.len()) && !text.starts_with('/')
    };
    if !excludes.iter().all(good) {
        let most = limits::SNAPSHOT_EXCLUDE_MAX_BYTES;
        return Err(invalid(format!(
            "each pattern is 1 to {most} bytes, and relative to the home directory"
        )));
    }
    Excludes::parse(excludes).map_err(invalid)
}

/// A fork begins without the source, dotfiles and setup of its origin, so it would lack what is not done yet.
fn check_is_provisioned(sandbox: &SandboxRecord) -> Result<(), CallError> {
    if sandbox.provisioning.is_done(&sandbox.blueprint) {
        return Ok(());
    }
    let message = "the setup of this sandbox is not finished; take the snapshot once it runs";
    Err(CallError::new(ApiErrorCode::Conflict, message))
}

fn check_has_files(sandbox: &SandboxRecord) -> Result<(), CallError> {
    match sandbox.state.status {
        SandboxStatus::Running | SandboxStatus::Paused | SandboxStatus::Stopped | SandboxStatus::Error => {
            Ok(())
        }
        SandboxStatus::Creating | SandboxStatus::Destroyed => {
            let message = "a snapshot is taken of a sandbox that runs, is paused or stopped";
            Err(CallError::new(ApiErrorCode::Conflict, message))
        }
    }
}

pub async fn list(call: Call) -> CallResult {
    let (tenant, principal) = call.tenant_filter();
    let text = |label: Option<protocol::api::Label>| label.map(|label| label.to_string());
    let sandbox = match call.query.text("sandbox") {
        Some(id) => Some(call.sandbox_by(id).await?.id),
        None => None,
    };
    let filter = SnapshotFilter { tenant: text(tenant), principal: text(principal), sandbox };
    let invalid = |error: protocol::api::BadId| CallError::invalid("after", error.to_string());
    let after = call.query.text("after").map(|id| id.parse().map_err(invalid)).transpose()?;
    let limit = call.query.limit()?;
    let rows = call.api.store.snapshots(filter, after, limit).await?;
    Ok(ok(&views::page(&rows, limit, view, |row| row.id.to_string())))
}

pub async fn get(call: Call) -> CallResult {
    Ok(ok(&view(&snapshot(&call).await?)))
}

/// The hash of each file, one JSON object in a line.
pub async fn manifest(call: Call) -> CallResult {
    let row = hashed(&call).await?;
    snapshot_archives::json_lines(call.api.fleet.snapshot_manifest(&row.id).await?).await
}

/// Reads every file and compares it with its hash.
pub async fn verify(call: Call) -> CallResult {
    let row = hashed(&call).await?;
    let (fleet, id, permit) = (call.api.fleet.clone(), row.id, call.snapshot_permit()?);
    // The permit is held as long as files are read, also where the caller is gone.
    let (found, _permit) = call
        .api
        .fleet
        .run_to_end(async move { Ok::<_, FleetError>((fleet.verify_snapshot(&id).await?, permit)) })
        .await?;
    let content = SnapshotContent {
        files: found.content.files,
        bytes: found.content.bytes,
        sha256: found.content.sha256,
    };
    let intact = found.differences_total == 0 && row.content.as_ref() == Some(&content);
    Ok(ok(&SnapshotVerification {
        intact,
        content,
        differences: found.differences.into_iter().map(difference).collect(),
        differences_total: found.differences_total as u64,
    }))
}

fn difference(found: ManifestDifference) -> SnapshotDifference {
    let (path, kind) = match found {
        ManifestDifference::Missing(path) => (path, DifferenceKind::Missing),
        ManifestDifference::Added(path) => (path, DifferenceKind::Added),
        ManifestDifference::Changed(path) => (path, DifferenceKind::Changed),
    };
    SnapshotDifference { path, kind }
}

/// Puts the files of a snapshot in the place of those of a sandbox.
pub async fn restore(call: Call) -> CallResult {
    let row = snapshot(&call).await?;
    let SnapshotRestore { sandbox } = call.json()?;
    let missing = || CallError::invalid("sandbox", "is needed: the snapshot was imported");
    let target = sandbox.or(row.sandbox).ok_or_else(missing)?;
    let target = call.sandbox_by(target.as_str()).await?;
    if target.state.status == SandboxStatus::Destroyed {
        let message = format!("sandbox {} is destroyed; fork the snapshot, which makes a new one", target.id);
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    check_has_files(&target)?;
    let record = call.api.fleet.restore_snapshot(&target.id, &row.id).await?;
    Ok(sandbox_view(&call, &record, StatusCode::OK))
}

/// Makes a sandbox with the files of a snapshot.
pub async fn fork(call: Call) -> CallResult {
    let row = snapshot(&call).await?;
    let asked: SnapshotFork = call.json()?;
    let wait_ms = call.query.wait_ms()?;
    let new = forked(&call, &row, asked)?;
    let record = call.api.fleet.create(new).await?;
    let record = wait_settled(&call, record, wait_ms).await?.0;
    let mut response = sandbox_view(&call, &record, StatusCode::CREATED);
    if let Ok(location) = format!("/v1/sandboxes/{}", record.id).parse() {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// A sandbox like the one that the snapshot was taken of; what belonged to that one alone is not carried over.
fn forked(call: &Call, row: &SnapshotRow, asked: SnapshotFork) -> Result<NewSandbox, CallError> {
    let SnapshotFork { name, env, metadata, ttl, on_ttl, network, idle_policy, visibility } = asked;
    check_optional_name(name.as_deref())?;
    check_metadata(&metadata)?;
    protocol::validate::env(&env).map_err(|wrong| CallError::invalid("env", wrong.message))?;
    let id: SandboxId = generate_id()?;
    let now_ms = call.api.now_ms();
    let mut blueprint = (*row.blueprint).clone();
    blueprint.seed = Some(Seed { template: None, snapshot: Some(row.id) });
    blueprint.ttl_ms = ttl.as_deref().map(ttl_ms).transpose()?;
    blueprint.on_ttl = on_ttl.unwrap_or_default();
    blueprint.idle_policy = idle_policy.unwrap_or(blueprint.idle_policy);
    blueprint.visibility = visibility.or(blueprint.visibility);
    if network.is_some() {
        (blueprint.network, blueprint.egress) = resolve_network(network.as_ref(), &call.api.defaults)?;
        egress::check_profile(call, "network.profile", &blueprint.egress)?;
    }
    Ok(NewSandbox {
        id,
        name: name.unwrap_or_else(|| generated_name(&id)),
        owner: Owner {
            tenant: call.caller.tenant.clone(),
            principal: call.caller.principal.clone(),
            project: row.owner.project.clone(),
        },
        scope: None,
        metadata,
        env: Secret(Environment { all: env, ..Environment::default() }),
        state: State::new(now_ms.saturating_add(call.api.fleet.timing().up_ms)),
        created_ms: now_ms,
        expires_ms: blueprint.ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        blueprint: Arc::new(blueprint),
        dotfiles: None,
        provisioning: Provisioning::default(),
    })
}

pub async fn remove(call: Call) -> CallResult {
    let row = snapshot(&call).await?;
    call.api.fleet.remove_snapshot(&row.id).await?;
    Ok(no_content())
}

/// The snapshot that the path names, if it is the caller's. One that is not finished does not exist.
pub(super) async fn snapshot(call: &Call) -> Result<SnapshotRow, CallError> {
    let id = call.param("snapshot")?.parse().map_err(|_| CallError::not_found())?;
    owned(call, &id).await
}

/// A snapshot of the caller's own.
async fn owned(call: &Call, id: &SnapshotId) -> Result<SnapshotRow, CallError> {
    let found = call.api.store.snapshot(id).await?;
    let visible = |row: &SnapshotRow| row.state == SnapshotState::Ready && call.caller.owns(&row.owner);
    found.filter(visible).ok_or_else(CallError::not_found)
}

/// Refuses a spec whose snapshot is not the caller's.
pub async fn check_seed(call: &Call, spec: &SandboxSpec) -> Result<(), CallError> {
    let Some(Seed { snapshot: Some(id), .. }) = &spec.seed else { return Ok(()) };
    let missing = || Some(Missing::new(MissingKind::Snapshot, id.as_str()));
    owned(call, id).await.map(drop).map_err(|failure| failure.with_resource(missing))
}

/// As `snapshot`, with the hashes of its files.
async fn hashed(call: &Call) -> Result<SnapshotRow, CallError> {
    let row = snapshot(call).await?;
    if row.content.is_none() {
        return Err(FleetError::InProgress.into());
    }
    Ok(row)
}

fn view(row: &SnapshotRow) -> SnapshotView {
    SnapshotView {
        id: row.id,
        name: row.name.clone(),
        sandbox: row.sandbox,
        parent: row.parent,
        owner: row.owner.clone(),
        state: row.state,
        excludes: row.excludes.clone(),
        created_at: rfc3339(row.created_ms),
        frozen_ms: row.frozen_ms,
        content: row.content.clone(),
    }
}
