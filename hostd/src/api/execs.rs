//! Execs: one command each. Recorded before they run; an exec that runtimed has dropped is answered from its
//! record.

use super::{
    Api,
    call::Call,
    dispatch::new_id,
    error::{CallError, CallResult},
    exec_run::{self, ExecOutcome},
    idempotency,
    metrics::ExecStep,
    relay::{self, CONTROL_TIMEOUT},
    request_trace::log_field,
    views::{self, ok},
};
use axum::response::Response;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hostd_core::limits;
use hostd_drivers::control::{Control, ControlError};
use hostd_metrics::StepTimer;
use hostd_store::{ExecBegun, ExecEnd, ExecRecord, SandboxRecord};
use hyper::StatusCode;
use protocol::{
    CancelRequest, ErrorCode, ExecId, ExecRequest, ExecState, ExecView, Exit, Resize, SignalRequest,
    api::{ApiErrorCode, ExecAnswer, ExecCreate, Page, SandboxId},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::{cmp::Reverse, sync::Arc, time::Duration};

pub async fn create(call: Call) -> CallResult {
    let create: ExecCreate = call.json()?;
    Ok(respond(&run_or_find(&call, create).await?))
}

/// Runs a command, or finds the exec that an earlier call with the same id started.
pub async fn run_or_find(call: &Call, mut create: ExecCreate) -> Result<ExecAnswer, CallError> {
    let sandbox = call.sandbox().await?;
    let repeatable = create.id.is_some() || call.headers.contains_key(idempotency::HEADER);
    let id = match create.id.take() {
        Some(id) => id,
        None => ExecId::parse(&generated_id(call, &sandbox)).map_err(|error| CallError::internal(&error))?,
    };
    log_field("exec", id.as_str());
    create.id = Some(id.clone());
    let request = exec_run::request(&create, &sandbox.env.0.all)?;
    // An exec that has ended is answered without waking the sandbox.
    if repeatable
        && let Some(record) = call.api.store.exec(&sandbox.id, &id).await?
        && record.exit.is_some()
        && record.request_hash == exec_run::hash(&create)
    {
        return Ok(ended_exec(call, &record).await);
    }
    let waits = create.wait.unwrap_or(request.tty.is_none());
    let mut step = StepTimer::start(&call.api.metrics.exec_steps);
    let (sandbox, control) = call.control().await?;
    step.ended(ExecStep::Wake);
    let row = new_record(call, &sandbox, &create, &request);
    match call.api.store.begin_exec(row.clone()).await? {
        ExecBegun::New => {}
        ExecBegun::Same(record) if record.exit.is_some() => return Ok(ended_exec(call, &record).await),
        ExecBegun::Same(_) => {}
        ExecBegun::Conflict => {
            let message = format!("the id {id} belongs to another command; choose another id");
            return Err(CallError::new(ApiErrorCode::Conflict, message));
        }
    }
    // The row may have taken the space that was released for the sandbox, whose output needs some.
    call.api.disk.ensure_free();
    step.ended(ExecStep::Record);
    let wait_ms = waits.then_some(limits::EXEC_WAIT_MAX_MS);
    match exec_run::run(&call.api, &sandbox.id, control, &request, wait_ms).await {
        Ok(ExecOutcome::Reported(view)) => {
            step.ended(if waits { ExecStep::Run } else { ExecStep::Start });
            Ok(views::exec(*view))
        }
        Ok(ExecOutcome::Paused) => Ok(views::exec_record(&row)),
        Ok(ExecOutcome::SandboxDown) => record_lost(call, row).await,
        Err(failure) => {
            record_rejected(call, &row, &failure).await?;
            Err(failure)
        }
    }
}

/// Generates an id for an exec or task. Derived from the `Idempotency-Key` where there is one: a repeated
/// call finds what the first one started, however that ended.
pub(super) fn generated_id(call: &Call, sandbox: &SandboxRecord) -> String {
    let Some(key) = call.headers.get(idempotency::HEADER) else { return new_id() };
    let mut hash = Sha256::new();
    for part in [call.caller.tenant.as_str(), call.caller.principal.as_str(), sandbox.id.as_str()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(key.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()).replace(['-', '_'], "x")
}

fn new_record(
    call: &Call,
    sandbox: &SandboxRecord,
    create: &ExecCreate,
    request: &ExecRequest,
) -> ExecRecord {
    let shell = |line: &String| vec!["sh".to_owned(), "-c".to_owned(), line.clone()];
    let argv = request.argv.clone().or_else(|| request.shell.as_ref().map(shell));
    ExecRecord {
        sandbox: sandbox.id,
        id: create.id.clone().expect("set by run_or_find"),
        argv: argv.unwrap_or_default(),
        cwd: create.cwd.clone().unwrap_or_default(),
        tty: request.tty.is_some(),
        request_hash: exec_run::hash(create),
        started_ms: call.api.now_ms(),
        ended_ms: None,
        exit: None,
        hints: Vec::new(),
    }
}

/// Records that the sandbox died under the exec. The follower of its events may have recorded more.
async fn record_lost(call: &Call, row: ExecRecord) -> Result<ExecAnswer, CallError> {
    let store = &call.api.store;
    let end = ExecEnd { exit: Exit::Lost, hints: Vec::new(), ended_ms: call.api.now_ms() };
    store.end_exec(&row.sandbox, &row.id, end).await?;
    let record = store.exec(&row.sandbox, &row.id).await?;
    Ok(views::exec_record(&record.unwrap_or(row)))
}

/// Records the end of a command that runtimed will never run; a command that it may run later has not
/// started.
async fn record_rejected(call: &Call, row: &ExecRecord, failure: &CallError) -> Result<(), CallError> {
    let never = matches!(
        failure.error.code,
        ApiErrorCode::InvalidRequest | ApiErrorCode::TooLarge | ApiErrorCode::Conflict
    );
    if never {
        let exit = Exit::SpawnFailed { message: failure.error.message.clone() };
        let end = ExecEnd { exit, hints: Vec::new(), ended_ms: call.api.now_ms() };
        call.api.store.end_exec(&row.sandbox, &row.id, end).await?;
    }
    Ok(())
}

/// An exec that has ended: with its output if runtimed can be asked without waking the sandbox.
async fn ended_exec(call: &Call, record: &ExecRecord) -> ExecAnswer {
    let fetched = match call.api.fleet.control(&record.sandbox).await {
        Ok((_, control)) => fetch(&control, &record.id, Some(0)).await.ok(),
        Err(_) => None,
    };
    fetched.map_or_else(|| views::exec_record(record), views::exec)
}

async fn fetch(control: &Control, id: &ExecId, wait_ms: Option<u64>) -> Result<ExecView, ControlError> {
    let query = wait_ms.map(|ms| format!("?wait_ms={ms}")).unwrap_or_default();
    let within = CONTROL_TIMEOUT + Duration::from_millis(wait_ms.unwrap_or(0));
    control.get(&format!("{}{query}", relay::runtimed_path(&["execs", id.as_str()])), within).await
}

fn respond(exec: &ExecAnswer) -> Response {
    let status = match exec.state {
        ExecState::Running => StatusCode::ACCEPTED,
        ExecState::Ended => StatusCode::OK,
    };
    views::json(status, exec)
}

pub async fn list(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let parsed =
        |text: &str| ExecId::parse(text).map_err(|error| CallError::invalid("after", error.to_string()));
    let after = call.query.text("after").map(parsed).transpose()?;
    let limit = call.query.limit()?;
    if let Some(pid) = call.query.number("pid")? {
        return Ok(ok(&with_pid(&call, &sandbox.id, pid).await?));
    }
    let store = &call.api.store;
    let records = match call.query.flag("running", false)? {
        true => store.running_execs(&sandbox.id, after.as_ref(), limit).await?,
        false => store.execs(&sandbox.id, after.as_ref(), limit).await?,
    };
    let mut page = views::page(&records, limit, views::exec_record, |record| record.id.to_string());
    refresh_running(&call, &sandbox.id, &mut page.items).await;
    Ok(ok(&page))
}

/// The execs whose leader has, or had, this pid since the sandbox was started: the running one first, then the newest.
/// None of a sandbox that does not run.
async fn with_pid(call: &Call, sandbox: &SandboxId, pid: u64) -> Result<Page<ExecAnswer>, CallError> {
    let Ok((_, control)) = call.api.fleet.control(sandbox).await else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let path = format!("/v1/execs?pid={pid}&limit={}", limits::PAGE_MAX);
    let mut views: Vec<ExecView> = control.get(&path, CONTROL_TIMEOUT).await?;
    views.sort_by_key(|view| (view.state == ExecState::Ended, Reverse(view.started_ms)));
    Ok(Page { items: views.into_iter().map(views::exec).collect(), next: None })
}

/// Replaces running execs by runtimed's view: it knows of an exit before its event is stored, so no caller
/// that saw an exit finds the exec running again.
async fn refresh_running(call: &Call, sandbox: &SandboxId, execs: &mut [ExecAnswer]) {
    for exec in execs.iter_mut().filter(|exec| exec.exit.is_none()) {
        let Ok((_, control)) = call.api.fleet.control(sandbox).await else { return };
        match fetch(&control, &exec.id, None).await {
            Ok(view) => *exec = views::exec(view),
            Err(ControlError::Refused(_)) => {}
            // Unresponsive, and would be for the other execs.
            Err(
                ControlError::Unreachable(_)
                | ControlError::TimedOut(_)
                | ControlError::Malformed(_)
                | ControlError::Broken(_),
            ) => return,
        }
    }
}

/// Always 200: the state says whether it runs.
pub async fn get(call: Call) -> CallResult {
    let (sandbox, id) = (call.sandbox().await?, call.exec_id()?);
    let wait_ms = call.query.wait_up_to(0, limits::EXEC_WAIT_MAX_MS)?;
    let wait_ms = call.query.text("wait").map(|_| wait_ms);
    Ok(ok(&find(&call.api, &sandbox.id, &id, wait_ms).await?))
}

/// An exec as runtimed reports it, else as it is recorded.
pub async fn find(
    api: &Api,
    sandbox: &SandboxId,
    id: &ExecId,
    wait_ms: Option<u64>,
) -> Result<ExecAnswer, CallError> {
    if let Ok((_, control)) = api.fleet.control(sandbox).await {
        match fetch(&control, id, wait_ms).await {
            Ok(view) => return Ok(views::exec(view)),
            Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => {}
            Err(error @ ControlError::Refused(_)) => return Err(error.into()),
            // Unresponsive: fall back to the record.
            Err(
                ControlError::Unreachable(_)
                | ControlError::TimedOut(_)
                | ControlError::Malformed(_)
                | ControlError::Broken(_),
            ) => {}
        }
    }
    let record = api.store.exec(sandbox, id).await?;
    Ok(views::exec_record(&record.ok_or_else(CallError::not_found)?))
}

pub async fn output(call: Call) -> CallResult {
    let id = call.exec_id()?;
    let query = call.query.runtimed_query(super::route_params::RUNTIMED_READ_PARAMS)?;
    let (_, control) = call.control().await?;
    let path = format!("{}{query}", relay::runtimed_path(&["execs", id.as_str(), "output"]));
    relay::response(&call, control, &path).await
}

/// Control client of a sandbox that runs: actions on a running exec never wake a sandbox.
async fn running_control(call: &Call) -> Result<(Arc<SandboxRecord>, Control), CallError> {
    let id: SandboxId = call.sandbox().await?.id;
    Ok(call.api.fleet.control(&id).await?)
}

pub async fn stdin(mut call: Call) -> CallResult {
    let id = call.exec_id()?;
    let query = call.query.runtimed_query(&["at", "eof"])?;
    let (_, control) = running_control(&call).await?;
    let body = call.stream.take().unwrap_or_default();
    relay::request_body(
        &control,
        &format!("{}{query}", relay::runtimed_path(&["execs", id.as_str(), "stdin"])),
        body,
    )
    .await?;
    Ok(views::no_content())
}

pub async fn signal(call: Call) -> CallResult {
    let request: SignalRequest = call.json()?;
    post_verb(&call, "signal", &request).await
}

pub async fn cancel(call: Call) -> CallResult {
    let request: CancelRequest = call.json()?;
    post_verb(&call, "cancel", &request).await
}

pub async fn resize(call: Call) -> CallResult {
    let request: Resize = call.json()?;
    post_verb(&call, "resize", &request).await
}

async fn post_verb(call: &Call, verb: &str, request: &impl Serialize) -> CallResult {
    let id = call.exec_id()?;
    let (_, control) = running_control(call).await?;
    let body = serde_json::to_vec(request).map_err(|error| CallError::internal(&error))?;
    relay::post(&control, &relay::runtimed_path(&["execs", id.as_str(), verb]), body.into()).await?;
    Ok(views::no_content())
}
