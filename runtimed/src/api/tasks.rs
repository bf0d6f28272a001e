//! Handlers of task requests.

use super::request_body;
use super::response::{HttpResponse, Refusal, json, no_content, ok, refuse, with_type};
use super::response_body::ResponseBody;
use super::route::{GRACE_MS, GRACE_OMITTED_MS};
use crate::limits::{BODY_MAX_BYTES, CHUNK_MAX_BYTES};
use crate::log::segment;
use crate::supervisor::{Command, Handle, LogHandle, LogKey, TaskCommand};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use protocol::{CancelRequest, ErrorBody, ErrorCode, TaskId};
use std::fs::File;
use std::io::Read;
use std::time::Duration;

pub async fn submit(handle: &Handle, http: Request<Incoming>) -> Result<HttpResponse, Refusal> {
    let trace = request_body::trace_parent(http.headers());
    let request = Box::new(request_body::read(http.into_body(), BODY_MAX_BYTES).await?);
    let view = handle.ask(|reply| TaskCommand::Submit { request, trace, reply }).await?;
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

/// The document of what a task changed, as its shim stored it. A task without one has no checkpoint, is not at
/// its end, or ended long ago.
pub async fn changes(handle: &Handle, id: TaskId) -> Result<HttpResponse, Refusal> {
    let key = LogKey::TaskChanges(id);
    let log = handle.ask(|reply| Command::Log { key, reply }).await?;
    let none = |_| refuse(ErrorCode::NotFound, "the changes of this task are not recorded");
    let ended = log.head.borrow().ended.is_some();
    if !ended {
        return Err(refuse(ErrorCode::Conflict, "the changes of this task are not complete"));
    }
    Ok(document(File::open(segment::data_path(&log.dir, 0)).map_err(none)?))
}

pub async fn diff(handle: &Handle, id: TaskId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request = Box::new(request_body::read(body, BODY_MAX_BYTES).await?);
    handle.ask(|reply| TaskCommand::Diff { id, request, reply }).await.map(document)
}

pub async fn revert(handle: &Handle, id: TaskId, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request = Box::new(request_body::read(body, BODY_MAX_BYTES).await?);
    handle.ask(|reply| TaskCommand::Revert { id, request, reply }).await.map(document)
}

/// Sends a file at the pace of the client, in pieces: PID 1 never holds all of it.
fn document(mut file: File) -> HttpResponse {
    let body = ResponseBody::stream(|to| async move {
        let mut piece = vec![0; CHUNK_MAX_BYTES];
        while let Ok(read) = file.read(&mut piece)
            && read > 0
        {
            if to.send(bytes::Bytes::copy_from_slice(&piece[..read])).await.is_err() {
                return;
            }
        }
    });
    with_type(StatusCode::OK, "application/octet-stream", body)
}

/// The raw log of a task's agent, to read and follow.
pub async fn output(handle: &Handle, id: TaskId) -> Result<LogHandle, Refusal> {
    let key = LogKey::Task(id);
    handle.ask(|reply| Command::Log { key, reply }).await
}
