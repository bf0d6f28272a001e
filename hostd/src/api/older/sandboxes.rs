//! Sandboxes: create, list, get, delete, purge.

use super::{
    super::{
        call::Call,
        failure::{Answer, Failure},
        limits::WAIT_DEFAULT_MS,
        sandboxes::{asked_for, fresh_id, settled},
        views::{json, no_content, ok},
    },
    ask::{OlderCreate, PROJECT, USER},
    row::{OlderRows, row, sandbox},
};
use crate::{
    limits,
    reconcile::SandboxCommand,
    store::{SandboxFilter, SandboxRecord},
};
use hyper::StatusCode;
use protocol::{
    Status,
    api::{SandboxId, SandboxStatus},
};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use utoipa::ToSchema;

/// How long PID 1 may take to tell about itself before the answer goes without.
const STATUS_MAX: Duration = Duration::from_secs(3);

pub async fn create(call: Call) -> Answer {
    let mut create: OlderCreate = call.json()?;
    let wrong = |error: protocol::api::BadId| Failure::invalid("id", error.to_string());
    let id = create.id.take().map(|text| text.parse::<SandboxId>().map_err(wrong));
    let id = id.unwrap_or_else(fresh_id)?;
    let new = asked_for(&call, &create.spec()?, id).map_err(in_older_words)?;
    let record = call.api.fleet.create(new).await?;
    let record = settled(&call, record, WAIT_DEFAULT_MS).await?.0;
    Ok(json(StatusCode::CREATED, &row(&record)))
}

/// Names the field as the caller wrote it.
fn in_older_words(mut failure: Failure) -> Failure {
    let field = &mut failure.error.detail.field;
    if field.as_deref() == Some("limits.memory_mb") {
        *field = Some("memory_high (in M)".to_owned());
    }
    failure
}

/// All of them, newest first. There is no paging here, so this is bounded by how many there may be.
pub async fn list(call: Call) -> Answer {
    let (tenant, principal) = call.sight();
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
        let page = call.api.fleet.store().sandboxes(filter.clone(), after, limits::PAGE_MAX).await?;
        after = page.last().map(|record| record.id);
        rows.extend(page.iter().map(row));
        if page.len() < limits::PAGE_MAX {
            break;
        }
    }
    Ok(ok(&OlderRows(rows)))
}

pub async fn get(call: Call) -> Answer {
    let record = alive(&call).await?;
    let told = match call.api.fleet.control(&record.id).await {
        Ok((_, control)) => control.get::<Status>("/v1/status", STATUS_MAX).await.ok(),
        Err(_) => None,
    };
    Ok(ok(&sandbox(&record, told.as_ref())))
}

/// The sandbox of the path, if it was not destroyed: these routes do not know such ones.
pub async fn alive(call: &Call) -> Result<Arc<SandboxRecord>, Failure> {
    let record = call.sandbox().await?;
    if record.state.status == SandboxStatus::Destroyed { Err(Failure::not_found()) } else { Ok(record) }
}

/// Its files stay.
pub async fn delete(call: Call) -> Answer {
    let record = alive(&call).await?;
    let record = call.api.fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace: true }).await?;
    settled(&call, record, WAIT_DEFAULT_MS).await?;
    Ok(no_content())
}

/// `POST /sandbox/{id}/purge`.
#[derive(Debug, Serialize, ToSchema)]
pub struct OlderPurged {
    pub purged: bool,
    /// What its files took on the disk.
    pub freed_bytes: u64,
}

/// The sandbox and its files; also the files that a deleted one left. Cut off in between, it is repeated.
pub async fn purge(call: Call) -> Answer {
    let record = call.sandbox().await?;
    let destroyed = record.state.status == SandboxStatus::Destroyed;
    if !destroyed {
        let record =
            call.api.fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace: true }).await?;
        settled(&call, record, WAIT_DEFAULT_MS).await?;
    }
    match call.api.fleet.delete_kept_workspace(&record.id).await? {
        // Somebody else did it before.
        None if destroyed => Err(Failure::not_found()),
        freed => Ok(ok(&OlderPurged { purged: true, freed_bytes: freed.unwrap_or(0) })),
    }
}
