//! Sandboxes: create, list, get, delete, purge.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        limits::WAIT_DEFAULT_MS,
        sandboxes::{generate_id, new_sandbox, wait_settled},
        views::{json, no_content, ok},
    },
    request::{OlderCreate, PROJECT, USER},
    view::{OlderRows, row, sandbox},
};
use crate::reconcile::SandboxCommand;
use hostd_core::limits;
use hostd_store::{SandboxFilter, SandboxRecord};
use hyper::StatusCode;
use protocol::{
    Status,
    api::{SandboxId, SandboxStatus},
};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use utoipa::ToSchema;

/// How long PID 1 may take to report its status before the response is sent without it.
const STATUS_MAX: Duration = Duration::from_secs(3);

pub async fn create(call: Call) -> CallResult {
    let mut create: OlderCreate = call.json()?;
    let invalid = |error: protocol::api::BadId| CallError::invalid("id", error.to_string());
    let id = create.id.take().map(|text| text.parse::<SandboxId>().map_err(invalid));
    let id = id.unwrap_or_else(generate_id)?;
    let new = new_sandbox(&call, &create.spec()?, id).map_err(with_older_field_name)?;
    let record = call.api.fleet.create(new).await?;
    let record = wait_settled(&call, record, WAIT_DEFAULT_MS).await?.0;
    Ok(json(StatusCode::CREATED, &row(&record)))
}

/// Names the field as the older request calls it.
fn with_older_field_name(mut failure: CallError) -> CallError {
    let field = &mut failure.error.detail.field;
    if field.as_deref() == Some("limits.memory_mb") {
        *field = Some("memory_high (in M)".to_owned());
    }
    failure
}

/// All sandboxes, newest first. These routes have no paging; the list is bounded by the number of sandboxes.
pub async fn list(call: Call) -> CallResult {
    let (tenant, principal) = call.tenant_filter();
    let external = |name: &str| call.query.text(name).map(str::to_owned);
    let filter = SandboxFilter {
        tenant,
        principal,
        external_user: external(USER),
        external_project: external(PROJECT),
        ..SandboxFilter::default()
    };
    let (mut rows, mut after) = (Vec::new(), None);
    while rows.len() < limits::SANDBOXES_MAX {
        let page = call.api.store.sandboxes(filter.clone(), after, limits::PAGE_MAX).await?;
        after = page.last().map(|record| record.id);
        rows.extend(page.iter().map(row));
        if page.len() < limits::PAGE_MAX {
            break;
        }
    }
    Ok(ok(&OlderRows(rows)))
}

pub async fn get(call: Call) -> CallResult {
    let record = existing_sandbox(&call).await?;
    let reported = match call.api.fleet.control(&record.id).await {
        Ok((_, control)) => control.get::<Status>("/v1/status", STATUS_MAX).await.ok(),
        Err(_) => None,
    };
    Ok(ok(&sandbox(&record, reported.as_ref())))
}

/// Returns the sandbox of the path; a destroyed one does not exist for these routes.
pub async fn existing_sandbox(call: &Call) -> Result<Arc<SandboxRecord>, CallError> {
    let record = call.sandbox().await?;
    if record.state.status == SandboxStatus::Destroyed { Err(CallError::not_found()) } else { Ok(record) }
}

/// Destroys the sandbox and keeps its files.
pub async fn delete(call: Call) -> CallResult {
    let record = existing_sandbox(&call).await?;
    let record = call.api.fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace: true }).await?;
    wait_settled(&call, record, WAIT_DEFAULT_MS).await?;
    Ok(no_content())
}

/// `POST /sandbox/{id}/purge`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OlderPurged {
    pub purged: bool,
    /// Disk space that its files used.
    pub freed_bytes: u64,
}

/// Destroys the sandbox and its files; also deletes the files of one destroyed before. Interrupted, it may be
/// repeated.
pub async fn purge(call: Call) -> CallResult {
    let record = call.sandbox().await?;
    let destroyed = record.state.status == SandboxStatus::Destroyed;
    if !destroyed {
        let record =
            call.api.fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace: true }).await?;
        wait_settled(&call, record, WAIT_DEFAULT_MS).await?;
    }
    match call.api.fleet.delete_kept_workspace(&record.id).await? {
        // The files were deleted before.
        None if destroyed => Err(CallError::not_found()),
        freed => Ok(ok(&OlderPurged { purged: true, freed_bytes: freed.unwrap_or(0) })),
    }
}
