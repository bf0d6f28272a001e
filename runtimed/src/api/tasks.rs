//! Handlers of task requests.

use super::request_body;
use super::response::{HttpResponse, Refusal, json, no_content, ok};
use super::route::{GRACE_MS, GRACE_OMITTED_MS};
use crate::limits::BODY_MAX_BYTES;
use crate::supervisor::{Command, Handle, LogHandle, LogKey, TaskCommand};
use hyper::StatusCode;
use hyper::body::Incoming;
use protocol::{CancelRequest, ErrorBody, TaskId};
use std::time::Duration;

pub async fn submit(handle: &Handle, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request = Box::new(request_body::read(body, BODY_MAX_BYTES).await?);
    let view = handle.ask(|reply| TaskCommand::Submit { request, reply }).await?;
    Ok(json(StatusCode::ACCEPTED, &view))
}

/// A task; waits for its end if asked to.
pub async fn view(handle: &Handle, id: TaskId, wait_ms: Option<u64>) -> Result<HttpResponse, Refusal> {
    if let Some(wait_ms) = wait_ms {
        let asked = id.clone();
        let mut head = handle.ask(|reply| TaskCommand::Events { id: asked, reply }).await?.head;
        let done = head.wait_for(|head| head.done);
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), done).await;
    }
    Ok(ok(&handle.ask(|reply| TaskCommand::View { id, reply }).await?))
}

pub async fn cancel(handle: &Handle, id: TaskId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request: CancelRequest = request_body::read_or_default(body, BODY_MAX_BYTES).await?;
    let grace_ms = request.grace_ms.unwrap_or(GRACE_OMITTED_MS);
    if !GRACE_MS.contains(&grace_ms) {
        return Err(Box::new(ErrorBody::invalid("grace_ms", format!("must be at most {}", GRACE_MS.end()))));
    }
    let view = handle.ask(|reply| TaskCommand::Cancel { id, grace_ms, reply }).await?;
    Ok(json(StatusCode::ACCEPTED, &view))
}

/// Decides a permission that the agent of a task asked for.
pub async fn permit(
    handle: &Handle,
    id: TaskId,
    permission: String,
    body: Incoming,
) -> Result<HttpResponse, Refusal> {
    let answer = request_body::read(body, BODY_MAX_BYTES).await?;
    handle.ask(|reply| TaskCommand::DecidePermission { id, permission, answer, reply }).await?;
    Ok(no_content())
}

/// The raw log of a task's agent, to read and follow.
pub async fn output(handle: &Handle, id: TaskId) -> Result<LogHandle, Refusal> {
    let key = LogKey::Task(id);
    handle.ask(|reply| Command::Log { key, reply }).await
}
