//! Handlers of exec requests.

use super::inline_output;
use super::request_body;
use super::response::{HttpResponse, Refusal, json, no_content};
use super::route::{GRACE_MS, GRACE_OMITTED_MS};
use crate::core::validation::parse_signal;
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Command, ExecCommand, Handle, LogHandle, LogKey};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use protocol::{CancelRequest, ErrorBody, ExecId, ExecState, ExecView, Resize, SignalRequest, validate};
use std::time::Duration;

pub async fn start(
    handle: &Handle,
    http: Request<Incoming>,
    wait_ms: Option<u64>,
) -> Result<HttpResponse, Refusal> {
    let trace = request_body::trace_parent(http.headers());
    let request = Box::new(request_body::read(http.into_body(), BODY_MAX_BYTES).await?);
    let id = handle.ask(|reply| ExecCommand::Start { request, trace, reply }).await?;
    view(handle, id, wait_ms).await
}

/// An exec; waits for its end if asked to, and then adds its output.
pub async fn view(handle: &Handle, id: ExecId, wait_ms: Option<u64>) -> Result<HttpResponse, Refusal> {
    let log = log(handle, &id).await?;
    let mut head = log.head.clone();
    // Until it runs or failed to start there is nothing to report; that is fast enough to need no limit.
    let _ = head.wait_for(|head| head.started).await;
    if let Some(wait_ms) = wait_ms {
        let ended = head.wait_for(|head| head.ended.is_some());
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), ended).await;
    }
    let mut view = *handle.ask(|reply| ExecCommand::View { id, reply }).await?;
    if wait_ms.is_some() && view.state == ExecState::Ended {
        let oldest = view.output_oldest;
        inline_output::add(&mut view, &LogHandle { oldest, ..log });
    }
    Ok(json(status_of(&view), &view))
}

fn status_of(view: &ExecView) -> StatusCode {
    match view.state {
        ExecState::Running => StatusCode::ACCEPTED,
        ExecState::Ended => StatusCode::OK,
    }
}

pub async fn log(handle: &Handle, id: &ExecId) -> Result<LogHandle, Refusal> {
    let key = LogKey::Exec(id.clone());
    handle.ask(|reply| Command::Log { key, reply }).await
}

pub async fn signal(handle: &Handle, id: ExecId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request: SignalRequest = request_body::read(body, BODY_MAX_BYTES).await?;
    let (signal, scope) = (parse_signal(&request.signal)?, request.scope);
    handle.ask(|reply| ExecCommand::Signal { id, signal, scope, reply }).await?;
    Ok(no_content())
}

pub async fn cancel(handle: &Handle, id: ExecId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request: CancelRequest = request_body::read_or_default(body, BODY_MAX_BYTES).await?;
    let grace_ms = request.grace_ms.unwrap_or(GRACE_OMITTED_MS);
    if !GRACE_MS.contains(&grace_ms) {
        return Err(Box::new(ErrorBody::invalid("grace_ms", format!("must be at most {}", GRACE_MS.end()))));
    }
    handle.ask(|reply| ExecCommand::Cancel { id, grace_ms, reply }).await?;
    Ok(no_content())
}

pub async fn resize(handle: &Handle, id: ExecId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let size: Resize = request_body::read(body, BODY_MAX_BYTES).await?;
    validate::tty_size("cols", size)?;
    handle.ask(|reply| ExecCommand::Resize { id, size, reply }).await?;
    Ok(no_content())
}
