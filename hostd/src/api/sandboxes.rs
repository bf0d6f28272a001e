//! Sandboxes: create, list, get, change, delete.

use super::{
    call::{Call, forbidden},
    dispatch::new_id,
    egress,
    error::{CallError, CallResult},
    idempotency, listening_ports,
    request_trace::log_field,
    snapshots,
    views::{self, ok},
};
use crate::reconcile::{FleetError, SandboxCommand};
use axum::response::Response;
use hostd_core::{
    Defaults, Identity, Provisioning, State, blueprint, check_metadata, check_name, generated_name,
    resolve_dotfiles,
};
use hostd_store::{NewSandbox, SandboxFilter, SandboxRecord, SandboxUpdate, Secret, SharedFilter};
use hyper::{StatusCode, header::LOCATION};
use protocol::api::{ApiError, ApiErrorCode, Label, Owner, SandboxId, SandboxSpec, SandboxStatus};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use utoipa::ToSchema;

/// The project of a sandbox that names none.
pub(super) const PROJECT: &str = "default";

pub async fn create(call: Call) -> CallResult {
    let claimed = claimed_id(&call);
    let id = match claimed {
        Some(id) => id,
        None => generate_id()?,
    };
    log_field("sandbox", id.as_str());
    let spec = call.json()?;
    snapshots::check_seed(&call, &spec).await?;
    let new = new_sandbox(&call, &spec, id)?;
    let wait_ms = call.query.wait_ms()?;
    let record = match find_claimed(&call, claimed).await? {
        Some(record) => record,
        None => create_or_replace(&call, new).await?,
    };
    let record = wait_settled(&call, record, wait_ms).await?.0;
    if let Some(successor) = record.replaced_by {
        let message = format!("sandbox {successor} replaced it meanwhile");
        let error = ApiError::new(ApiErrorCode::Gone, message);
        return Err(error.with(|detail| detail.existing = Some(successor)).into());
    }
    let mut response = view(&call, &record, StatusCode::CREATED);
    if let Ok(location) = format!("/v1/sandboxes/{}", record.id).parse() {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

/// Finds the sandbox that the same call created before hostd crashed: a host that is full by now must not refuse it.
async fn find_claimed(
    call: &Call,
    claimed: Option<SandboxId>,
) -> Result<Option<Arc<SandboxRecord>>, CallError> {
    let Some(id) = claimed else { return Ok(None) };
    match call.api.fleet.record(&id).await {
        Ok(record) => Ok(Some(record)),
        Err(FleetError::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn create_or_replace(call: &Call, new: NewSandbox) -> Result<Arc<SandboxRecord>, CallError> {
    let keep_workspace = call.query.keeps_workspace(false)?;
    let replaces = call.query.flag("replace", false)?;
    if !replaces && call.query.text("workspace").is_some() {
        return Err(CallError::invalid(
            "workspace",
            "belongs to `replace`: it is about the files of the other",
        ));
    }
    Ok(match replaces {
        true => call.api.fleet.replace(new, keep_workspace).await?,
        false => call.api.fleet.create(new).await?,
    })
}

pub fn generate_id() -> Result<SandboxId, CallError> {
    new_id().parse().map_err(|error| CallError::internal(&error))
}

/// The id of a sandbox created with an `Idempotency-Key`: the same until the call got its response, so that a
/// repetition after a crash finds the sandbox of the first call.
fn claimed_id(call: &Call) -> Option<SandboxId> {
    let (since_ms, key) = (call.claimed_ms?, call.headers.get(idempotency::HEADER)?);
    let mut hash = Sha256::new();
    for part in
        [call.caller.tenant.as_str().as_bytes(), call.caller.principal.as_str().as_bytes(), key.as_bytes()]
    {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(&call.body);
    let random = hash.finalize().first_chunk::<16>().map(|head| u128::from_be_bytes(*head))?;
    ulid::Ulid::from_parts(since_ms, random).to_string().parse().ok()
}

/// Resolves a spec of this caller on this host.
pub fn new_sandbox(call: &Call, spec: &SandboxSpec, id: SandboxId) -> Result<NewSandbox, CallError> {
    let api = &call.api;
    let defaults = Defaults { image: api.default_image(), ..api.defaults.clone() };
    let (blueprint, environment) = blueprint(spec, &defaults)?;
    egress::check_profile(call, "network.profile", &blueprint.egress)?;
    let archive = spec.dotfiles.as_ref().map(resolve_dotfiles).transpose()?;
    let now_ms = call.api.now_ms();
    Ok(NewSandbox {
        id,
        name: spec.name.clone().unwrap_or_else(|| generated_name(&id)),
        owner: owner(&call.caller, spec)?,
        scope: spec.scope.clone(),
        metadata: spec.metadata.clone(),
        env: Secret(environment),
        dotfiles: archive.and_then(|(_, bytes)| bytes).map(|bytes| Secret(bytes.into())),
        provisioning: Provisioning::default(),
        state: State::new(now_ms.saturating_add(api.fleet.timing().up_ms)),
        created_ms: now_ms,
        expires_ms: blueprint.ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        blueprint: Arc::new(blueprint),
    })
}

/// Tenant and principal are the caller's; a spec may only repeat them.
fn owner(caller: &Identity, spec: &SandboxSpec) -> Result<Owner, CallError> {
    for (field, named, own) in
        [("tenant", &spec.tenant, &caller.tenant), ("principal", &spec.principal, &caller.principal)]
    {
        if named.as_deref().is_some_and(|named| named != own.as_str()) {
            return Err(forbidden(field, "a sandbox belongs to its creator; leave this out"));
        }
    }
    let project = Label::parse(spec.project.as_deref().unwrap_or(PROJECT));
    let project = project.map_err(|error| CallError::invalid("project", error.to_string()))?;
    Ok(Owner { tenant: caller.tenant.clone(), principal: caller.principal.clone(), project })
}

/// Waits for the end of the current operation. The flag says whether it ended.
pub async fn wait_settled(
    call: &Call,
    record: Arc<SandboxRecord>,
    wait_ms: u64,
) -> Result<(Arc<SandboxRecord>, bool), CallError> {
    if wait_ms == 0 {
        let done = record.state.operation.is_none();
        return Ok((record, done));
    }
    match call.api.fleet.wait_settled(&record.id, Duration::from_millis(wait_ms)).await {
        Ok(record) => Ok((record, true)),
        // The operation goes on; the view shows its progress.
        Err(FleetError::InProgress) => Ok((call.api.fleet.record(&record.id).await?, false)),
        Err(error) => Err(error.into()),
    }
}

pub fn view(call: &Call, record: &SandboxRecord, status: StatusCode) -> Response {
    views::json(status, &call.view_of(record))
}

pub async fn list(call: Call) -> CallResult {
    let (tenant, principal) = call.tenant_filter();
    let parsed =
        |text: &str| Label::parse(text).map_err(|error| CallError::invalid("project", error.to_string()));
    let status = call.query.text("status").map(parse_status).transpose()?;
    let filter = SandboxFilter {
        tenant,
        principal,
        shared: shared_filter(&call)?,
        project: call.query.text("project").map(parsed).transpose()?,
        include_destroyed: call.query.flag("all", false)? || status == Some(SandboxStatus::Destroyed),
        status,
        ..SandboxFilter::default()
    };
    let after = call.query.text("after").map(|text| {
        text.parse().map_err(|error: protocol::api::BadId| CallError::invalid("after", error.to_string()))
    });
    let limit = call.query.limit()?;
    let records = call.api.store.sandboxes(filter, after.transpose()?, limit).await?;
    let mut page =
        views::page(&records, limit, |record| call.view_of(record), |record| record.id.to_string());
    if call.query.flag("listening", false)? {
        listening_ports::add_to_views(&call.api, &mut page.items).await;
    }
    Ok(ok(&page))
}

/// Sandboxes that colleagues share with the caller are listed beside the caller's own, unless the query says otherwise.
fn shared_filter(call: &Call) -> Result<SharedFilter, CallError> {
    let Identity { tenant, principal, .. } = call.caller.clone();
    Ok(match call.query.text("shared") {
        None => SharedFilter::With,
        Some(_) if call.query.flag("shared", false)? => SharedFilter::Only { tenant, principal },
        Some(_) => SharedFilter::Without,
    })
}

fn parse_status(text: &str) -> Result<SandboxStatus, CallError> {
    let invalid =
        |_| CallError::invalid("status", "must be creating, running, paused, stopped, error or destroyed");
    serde_json::from_value(text.into()).map_err(invalid)
}

pub async fn get(call: Call) -> CallResult {
    Ok(view(&call, &*call.sandbox().await?, StatusCode::OK))
}

/// `PATCH /v1/sandboxes/{id}`: absent fields stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxChange {
    name: Option<String>,
    /// Replaces all metadata.
    metadata: Option<BTreeMap<String, String>>,
}

pub async fn patch(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let SandboxChange { name, metadata } = call.json()?;
    name.as_deref().map(check_name).transpose()?;
    metadata.as_ref().map(check_metadata).transpose()?;
    change(&call, &record.id, SandboxUpdate { name, metadata, ..SandboxUpdate::default() }).await
}

/// Changes the row and publishes the change to the sandbox's actor.
pub async fn change(call: &Call, id: &SandboxId, change: SandboxUpdate) -> CallResult {
    let record = call.api.store.update_sandbox(id, change, call.api.now_ms()).await?;
    let response = view(call, &record, StatusCode::OK);
    call.api.fleet.publish_change(record);
    Ok(response)
}

pub async fn delete(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let keep_workspace = call.query.keeps_workspace(false)?;
    let wait_ms = call.query.wait_ms()?;
    let record = call.api.fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace }).await?;
    let (record, done) = wait_settled(&call, record, wait_ms).await?;
    Ok(view(&call, &record, if done { StatusCode::OK } else { StatusCode::ACCEPTED }))
}
