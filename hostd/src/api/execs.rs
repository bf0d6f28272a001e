//! Execs: one command each. Written down before they run; what runtimed forgot is answered from there.

use super::{
    Api,
    call::Call,
    dispatch::new_id,
    exec_run::{self, Seen},
    failure::{Answer, Failure},
    idempotency,
    pass::{self, WITHIN},
    views::{self, ok},
};
use crate::{
    control::{Control, ControlError},
    limits,
    store::{Begun, ExecEnd, ExecRecord, SandboxRecord},
};
use axum::response::Response;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hyper::StatusCode;
use protocol::{
    CancelRequest, ErrorCode, ExecId, ExecRequest, ExecState, ExecView, Exit, Resize, SignalRequest,
    api::{ApiErrorCode, ExecAnswer, ExecCreate, SandboxId},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};

pub async fn create(call: Call) -> Answer {
    let create: ExecCreate = call.json()?;
    Ok(answer(&perform(&call, create).await?))
}

/// Runs it, or finds what an earlier call with the same id has run.
pub async fn perform(call: &Call, mut create: ExecCreate) -> Result<ExecAnswer, Failure> {
    let sandbox = call.sandbox().await?;
    let repeatable = create.id.is_some() || call.headers.contains_key(idempotency::HEADER);
    let id = match create.id.take() {
        Some(id) => id,
        None => ExecId::parse(&id_made_up(call, &sandbox)).map_err(|error| Failure::internal(&error))?,
    };
    create.id = Some(id.clone());
    let request = exec_run::request(&create, &sandbox.env.0.all)?;
    // One that has ended is answered without waking anybody.
    if repeatable
        && let Some(record) = call.api.fleet.store().exec(&sandbox.id, &id).await?
        && record.exit.is_some()
        && record.request_hash == exec_run::hash(&create)
    {
        return Ok(known(call, &record).await);
    }
    let waits = create.wait.unwrap_or(request.tty.is_none());
    let (sandbox, control) = call.control().await?;
    let row = row(call, &sandbox, &create, &request);
    match call.api.fleet.store().begin_exec(row.clone()).await? {
        Begun::New => {}
        Begun::Same(record) if record.exit.is_some() => return Ok(known(call, &record).await),
        Begun::Same(_) => {}
        Begun::Conflict => {
            let message = format!("another command has the id {id} already; choose another");
            return Err(Failure::new(ApiErrorCode::Conflict, message));
        }
    }
    let wait_ms = waits.then_some(limits::EXEC_WAIT_MAX_MS);
    match exec_run::run(&call.api, &sandbox.id, control, &request, wait_ms).await {
        Ok(Seen::Told(view)) => Ok(views::exec(*view)),
        Ok(Seen::Frozen) => Ok(views::exec_record(&row)),
        Ok(Seen::Dead) => lost(call, row).await,
        Err(failure) => {
            refused(call, &row, &failure).await?;
            Err(failure)
        }
    }
}

/// With an `Idempotency-Key` always the same: however a call ended, repeating it finds what it began.
pub(super) fn id_made_up(call: &Call, sandbox: &SandboxRecord) -> String {
    let Some(key) = call.headers.get(idempotency::HEADER) else { return new_id() };
    let mut hash = Sha256::new();
    for part in [call.who.tenant.as_str(), call.who.principal.as_str(), sandbox.id.as_str()] {
        hash.update(part);
        hash.update([0]);
    }
    hash.update(key.as_bytes());
    BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()).replace(['-', '_'], "x")
}

fn row(call: &Call, sandbox: &SandboxRecord, create: &ExecCreate, request: &ExecRequest) -> ExecRecord {
    let shell = |line: &String| vec!["sh".to_owned(), "-c".to_owned(), line.clone()];
    let argv = request.argv.clone().or_else(|| request.shell.as_ref().map(shell));
    ExecRecord {
        sandbox: sandbox.id,
        id: create.id.clone().expect("given or made up by the caller of this"),
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

/// The sandbox died under it. Whoever follows its events may know more.
async fn lost(call: &Call, row: ExecRecord) -> Result<ExecAnswer, Failure> {
    let store = call.api.fleet.store();
    let end = ExecEnd { exit: Exit::Lost, hints: Vec::new(), ended_ms: call.api.now_ms() };
    store.end_exec(&row.sandbox, &row.id, end).await?;
    let record = store.exec(&row.sandbox, &row.id).await?;
    Ok(views::exec_record(&record.unwrap_or(row)))
}

/// A command that runtimed will never run has ended; one that it may run later has not begun.
async fn refused(call: &Call, row: &ExecRecord, failure: &Failure) -> Result<(), Failure> {
    let never = matches!(
        failure.error.code,
        ApiErrorCode::InvalidRequest | ApiErrorCode::TooLarge | ApiErrorCode::Conflict
    );
    if never {
        let exit = Exit::SpawnFailed { message: failure.error.message.clone() };
        let end = ExecEnd { exit, hints: Vec::new(), ended_ms: call.api.now_ms() };
        call.api.fleet.store().end_exec(&row.sandbox, &row.id, end).await?;
    }
    Ok(())
}

/// An exec that has ended: with its output where runtimed can be asked without waking it.
async fn known(call: &Call, record: &ExecRecord) -> ExecAnswer {
    let asked = match call.api.fleet.control(&record.sandbox).await {
        Ok((_, control)) => ask(&control, &record.id, Some(0)).await.ok(),
        Err(_) => None,
    };
    asked.map_or_else(|| views::exec_record(record), views::exec)
}

async fn ask(control: &Control, id: &ExecId, wait_ms: Option<u64>) -> Result<ExecView, ControlError> {
    let query = wait_ms.map(|ms| format!("?wait_ms={ms}")).unwrap_or_default();
    let within = WITHIN + Duration::from_millis(wait_ms.unwrap_or(0));
    control.get(&format!("{}{query}", pass::path(&["execs", id.as_str()])), within).await
}

fn answer(exec: &ExecAnswer) -> Response {
    let status = match exec.state {
        ExecState::Running => StatusCode::ACCEPTED,
        ExecState::Ended => StatusCode::OK,
    };
    views::json(status, exec)
}

pub async fn list(call: Call) -> Answer {
    let sandbox = call.sandbox().await?;
    let parsed =
        |text: &str| ExecId::parse(text).map_err(|error| Failure::invalid("after", error.to_string()));
    let after = call.query.text("after").map(parsed).transpose()?;
    let limit = call.query.limit()?;
    let records = call.api.fleet.store().execs(&sandbox.id, after.as_ref(), limit).await?;
    let mut page = views::page(&records, limit, views::exec_record, |record| record.id.to_string());
    newest(&call, &sandbox.id, &mut page.items).await;
    Ok(ok(&page))
}

/// runtimed knows of an end before its event is taken over: nobody who was told of one finds it running.
async fn newest(call: &Call, sandbox: &SandboxId, execs: &mut [ExecAnswer]) {
    for exec in execs.iter_mut().filter(|exec| exec.exit.is_none()) {
        let Ok((_, control)) = call.api.fleet.control(sandbox).await else { return };
        match ask(&control, &exec.id, None).await {
            Ok(view) => *exec = views::exec(view),
            Err(ControlError::Refused(_)) => {}
            // It does not answer, and would not for the others.
            Err(_) => return,
        }
    }
}

/// Always 200: the state says whether it runs.
pub async fn get(call: Call) -> Answer {
    let (sandbox, id) = (call.sandbox().await?, call.exec_id()?);
    let wait_ms = call.query.wait_up_to(0, limits::EXEC_WAIT_MAX_MS)?;
    let wait_ms = call.query.text("wait").map(|_| wait_ms);
    Ok(ok(&look(&call.api, &sandbox.id, &id, wait_ms).await?))
}

/// An exec as runtimed knows it, else as it is written down.
pub async fn look(
    api: &Api,
    sandbox: &SandboxId,
    id: &ExecId,
    wait_ms: Option<u64>,
) -> Result<ExecAnswer, Failure> {
    if let Ok((_, control)) = api.fleet.control(sandbox).await {
        match ask(&control, id, wait_ms).await {
            Ok(view) => return Ok(views::exec(view)),
            Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => {}
            Err(error @ ControlError::Refused(_)) => return Err(error.into()),
            // It does not answer: what is written down is better than nothing.
            Err(_) => {}
        }
    }
    let record = api.fleet.store().exec(sandbox, id).await?;
    Ok(views::exec_record(&record.ok_or_else(Failure::not_found)?))
}

pub async fn output(call: Call) -> Answer {
    let id = call.exec_id()?;
    let query = call.query.passed_on(super::params::READING)?;
    let (_, control) = call.control().await?;
    let path = format!("{}{query}", pass::path(&["execs", id.as_str(), "output"]));
    pass::down(&call, control, &path).await
}

/// The way to a sandbox that runs: what is done to a running exec wakes nobody.
async fn way(call: &Call) -> Result<(Arc<SandboxRecord>, Control), Failure> {
    let id: SandboxId = call.sandbox().await?.id;
    Ok(call.api.fleet.control(&id).await?)
}

pub async fn stdin(mut call: Call) -> Answer {
    let id = call.exec_id()?;
    let query = call.query.passed_on(&["at", "eof"])?;
    let (_, control) = way(&call).await?;
    let body = call.stream.take().unwrap_or_default();
    pass::up(&control, &format!("{}{query}", pass::path(&["execs", id.as_str(), "stdin"])), body).await?;
    Ok(views::no_content())
}

pub async fn signal(call: Call) -> Answer {
    let request: SignalRequest = call.json()?;
    verb(&call, "signal", &request).await
}

pub async fn cancel(call: Call) -> Answer {
    let request: CancelRequest = call.json()?;
    verb(&call, "cancel", &request).await
}

pub async fn resize(call: Call) -> Answer {
    let request: Resize = call.json()?;
    verb(&call, "resize", &request).await
}

async fn verb(call: &Call, verb: &str, request: &impl Serialize) -> Answer {
    let id = call.exec_id()?;
    let (_, control) = way(call).await?;
    let body = serde_json::to_vec(request).map_err(|error| Failure::internal(&error))?;
    pass::tell(&control, &pass::path(&["execs", id.as_str(), verb]), body.into()).await?;
    Ok(views::no_content())
}
