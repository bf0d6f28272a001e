//! `ensure`: the sandbox of an owner and scope, awake and healthy; created if there is none.
//!
//! ```text
//!            none ──▶ create ──(scope taken by a concurrent call)──▶ find again
//!  find ──▶  one  ──▶ awake and healthy ──▶ done
//!                       └─ no ──▶ repair, one caller at a time: start, or destroy ──▶ find again
//! ```
//!
//! The store's unique index guarantees that there is at most one sandbox, not this loop.

use super::{
    call::Call,
    error::{CallError, CallResult},
    limits as api,
    relay::{self, CONTROL_TIMEOUT},
    sandboxes::{generate_id, new_sandbox},
    snapshots, views,
};
use crate::reconcile::{FleetError, SandboxCommand};
use hostd_core::limits;
use hostd_store::{NewSandbox, SandboxFilter, SandboxRecord, StoreError};
use hyper::StatusCode;
use protocol::api::{
    ApiErrorCode, EnsureAnswer, Problem, ProblemCode, SandboxScope, SandboxSpec, SandboxStatus, ScopeKind,
};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::info;

type Record = Arc<SandboxRecord>;

pub async fn ensure(call: Call) -> CallResult {
    let mut spec: SandboxSpec = call.json()?;
    snapshots::check_seed(&call, &spec).await?;
    spec.scope.get_or_insert(SandboxScope { kind: ScopeKind::SharedProjectUser, key: None });
    let mut repaired = false;
    for _ in 0..api::ENSURE_ATTEMPTS_MAX {
        let new = new_sandbox(&call, &spec, generate_id()?)?;
        let Some(found) = find(&call, &new).await? else {
            match create(&call, new).await? {
                Some(record) => return respond(&call, &record, true),
                None => continue,
            }
        };
        match wake_and_probe(&call, &found).await {
            Ok(Some(record)) => return respond(&call, &record, false),
            // The sandbox is being destroyed, or was.
            Ok(None) => {}
            Err(failure) if repaired => return Err(failure),
            Err(_) => {
                repaired = true;
                repair(&call, &found).await?;
            }
        }
    }
    Err(CallError::new(ApiErrorCode::TimedOut, "concurrent calls keep changing this sandbox; try again"))
}

fn respond(call: &Call, record: &SandboxRecord, created: bool) -> CallResult {
    let sandbox = call.view_of(record);
    let answer = EnsureAnswer { sandbox, created };
    Ok(if created { views::json(StatusCode::CREATED, &answer) } else { views::found(&answer) })
}

async fn find(call: &Call, new: &NewSandbox) -> Result<Option<Record>, CallError> {
    let filter = SandboxFilter {
        tenant: Some(new.owner.tenant.clone()),
        principal: Some(new.owner.principal.clone()),
        project: Some(new.owner.project.clone()),
        scope: new.scope.clone(),
        ..SandboxFilter::default()
    };
    let found = call.api.store.sandboxes(filter, None, 1).await?;
    Ok(found.into_iter().next().map(Arc::new))
}

/// `None` when a concurrent call created the sandbox first.
async fn create(call: &Call, new: NewSandbox) -> Result<Option<Record>, CallError> {
    let id = match call.api.fleet.create(new).await {
        Ok(record) => record.id,
        Err(FleetError::Store(StoreError::ScopeTaken { .. })) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match call.api.fleet.wait_settled(&id, create_timeout(call)?).await {
        Ok(record) => Ok(Some(record)),
        // Creation goes on; the view shows its progress.
        Err(FleetError::InProgress) => Ok(Some(call.api.fleet.record(&id).await?)),
        Err(error) => Err(error.into()),
    }
}

/// How long to wait for a sandbox that is being created.
fn create_timeout(call: &Call) -> Result<Duration, CallError> {
    let most_ms = limits::UP_MAX_MS + limits::DOWN_MAX_MS;
    Ok(Duration::from_millis(call.query.wait_up_to(most_ms, api::WAIT_MAX_MS)?))
}

fn settle_timeout() -> Duration {
    Duration::from_millis(limits::UP_MAX_MS + limits::DOWN_MAX_MS)
}

/// Wakes the sandbox and probes its health. `None` when it is being, or was, destroyed.
async fn wake_and_probe(call: &Call, found: &Record) -> Result<Option<Record>, CallError> {
    let (record, control) = match call.api.fleet.wake(&found.id).await {
        Ok(awake) => awake,
        // Another call creates it, and that takes long: an image is pulled.
        Err(FleetError::InProgress) if found.state.status == SandboxStatus::Creating => {
            return Ok(Some(call.api.fleet.record(&found.id).await?));
        }
        Err(FleetError::Refused(_) | FleetError::NotFound) => {
            // The scope is free once the sandbox is destroyed.
            let _ = call.api.fleet.wait_settled(&found.id, settle_timeout()).await;
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let probe = Duration::from_millis(limits::HEALTH_PROBE_MS);
    control.get::<serde::de::IgnoredAny>(relay::HEALTH_PATH, probe).await?;
    Ok(Some(record))
}

/// Launches again a sandbox that is in error or does not respond; one that cannot be launched is destroyed,
/// but its files are kept. One caller at a time, so that no caller destroys what another one just repaired.
async fn repair(call: &Call, found: &Record) -> Result<(), CallError> {
    let owner = &found.owner;
    let key = format!("ensure {} {} {} {:?}", owner.tenant, owner.principal, owner.project, found.scope);
    let busy = || CallError::new(ApiErrorCode::TimedOut, "the sandbox is being repaired; try again");
    let _guard = timeout(settle_timeout(), call.api.key_locks.lock(key)).await.map_err(|_| busy())?;
    let fleet = &call.api.fleet;
    let record = fleet.record(&found.id).await?;
    let ask = match record.state.status {
        SandboxStatus::Destroyed => return Ok(()),
        SandboxStatus::Error => SandboxCommand::Start,
        SandboxStatus::Running if responds(call, &record).await => return Ok(()),
        // Running but unresponsive: stop it and launch it again with its files.
        SandboxStatus::Running => SandboxCommand::Recreate { keep_workspace: true },
        SandboxStatus::Creating | SandboxStatus::Paused | SandboxStatus::Stopped => return Ok(()),
    };
    info!(sandbox = %record.id, ?ask, "ensure repairs the sandbox");
    let problem = match fleet.command(&record.id, ask).await {
        Ok(_) => match fleet.wait_settled(&record.id, settle_timeout()).await {
            Ok(_) => return Ok(()),
            Err(FleetError::Failed { problem, sandbox }) if !replacement_may_help(&problem) => {
                return Err(FleetError::Failed { problem, sandbox }.into());
            }
            Err(FleetError::Failed { problem, .. }) => problem,
            Err(error) => return Err(error.into()),
        },
        Err(FleetError::Refused(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    info!(sandbox = %record.id, ?problem, "ensure replaces the sandbox");
    fleet.command(&record.id, SandboxCommand::Destroy { keep_workspace: true }).await?;
    fleet.wait_settled(&record.id, settle_timeout()).await?;
    Ok(())
}

async fn responds(call: &Call, record: &Record) -> bool {
    match call.api.fleet.control(&record.id).await {
        Ok((_, control)) => {
            let probe = CONTROL_TIMEOUT.min(Duration::from_millis(limits::HEALTH_PROBE_MS));
            control.get::<serde::de::IgnoredAny>(relay::HEALTH_PATH, probe).await.is_ok()
        }
        Err(_) => false,
    }
}

/// Whether a new sandbox may work where this one did not. Problems of the host or of the spec would occur
/// again, and the old sandbox must not be lost over them.
fn replacement_may_help(problem: &Problem) -> bool {
    match problem.code {
        ProblemCode::LaunchFailed
        | ProblemCode::NotReady
        | ProblemCode::DeadlinePassed
        | ProblemCode::Oom
        | ProblemCode::Died
        | ProblemCode::NameTaken
        | ProblemCode::Damaged => true,
        ProblemCode::Refused
        | ProblemCode::ImageMissing
        | ProblemCode::DiskFull
        | ProblemCode::MemoryPressure
        | ProblemCode::DriverUnavailable
        | ProblemCode::SetupFailed
        | ProblemCode::DotfilesFailed
        | ProblemCode::SourceAuthFailed
        | ProblemCode::SourceNotFound
        | ProblemCode::SourceRefUnknown
        | ProblemCode::SourceTooLarge
        | ProblemCode::SourceUnreachable
        | ProblemCode::SourceFailed => false,
    }
}
