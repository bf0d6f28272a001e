//! `session/prompt`: a task of the session's sandbox. The task goes on whatever happens to the connection, and a prompt
//! that is repeated with its `_meta.messageId` waits for the same task.

use super::{
    attached::Queued,
    connection::{Caller, Connection},
    history::{self, Continues},
    methods::Answer,
    params, prompt,
    record::{self, SessionRecord},
    rpc::{RESOURCE_NOT_FOUND, RpcError},
    session_id::SessionId,
};
use crate::{ApiClient, ApiFailure};
use hyper::Method;
use protocol::{
    TaskId,
    api::{ApiErrorCode, TaskAnswer, TaskCreate, TtlChange},
};
use serde_json::Value;
use std::sync::Arc;

/// The agent that is any program: it has no session to continue.
const COMMAND: &str = "command";

pub async fn prompt(
    connection: &Arc<Connection>,
    caller: &Caller,
    request: &Value,
    params: &Value,
) -> Result<Answer, RpcError> {
    let id = params::session(params)?;
    let text = prompt::text(&params["prompt"])?;
    let loaded = record::load(&caller.api, &id).await;
    if loaded.as_ref().is_err_and(|error| error.code == RESOURCE_NOT_FOUND) {
        connection.forget(&id);
    }
    let (_, record) = loaded?;
    let key = match params::message_id(params)? {
        Some(chosen) => format!("message {chosen}"),
        None => format!("connection {} {request}", connection.name),
    };
    let task = id.task(&key);
    let is_known = is_there(&caller.api, &id, &task, &text).await?;
    let session = connection.attach(&caller.api, &id)?;
    if let Some(outcome) = session.expect(&task, request.clone()) {
        return outcome.map(Answer::Now);
    }
    let begun = if is_known { Ok(true) } else { submit(&caller.api, &id, &record, &task, text).await };
    match begun {
        Ok(begun) => {
            session.enqueue(Queued { task, begun });
            Ok(Answer::Later)
        }
        Err(error) => {
            session.forget(&task);
            Err(error)
        }
    }
}

/// Stores the task; whether it was stored before, by the same prompt.
async fn submit(
    api: &ApiClient,
    id: &SessionId,
    record: &SessionRecord,
    task: &TaskId,
    text: String,
) -> Result<bool, RpcError> {
    if let Some(ttl) = &record.ttl {
        let change = TtlChange { ttl: Some(Some(ttl.clone())), on_ttl: None };
        let path = format!("/v1/sandboxes/{}/ttl", id.sandbox);
        // Refused for a sandbox that was given another owner or is gone: then the prompt is refused below.
        let _: Result<Value, ApiFailure> = api.json(Method::PATCH, &path, Some(&change)).await;
    }
    let create = task_create(api, id, record, task, text.clone()).await?;
    match api.post::<_, TaskAnswer>(&id.tasks_path(), &create).await {
        Ok(_) => Ok(false),
        // The same prompt was sent twice at once.
        Err(failure) if failure.error.code == ApiErrorCode::Conflict => {
            if is_there(api, id, task, &text).await? { Ok(true) } else { Err(failure.into()) }
        }
        Err(failure) => Err(failure.into()),
    }
}

async fn is_there(api: &ApiClient, id: &SessionId, task: &TaskId, text: &str) -> Result<bool, RpcError> {
    let known: TaskAnswer = match api.get(&id.task_path(task)).await {
        Ok(known) => known,
        Err(failure) if failure.error.code == ApiErrorCode::NotFound => return Ok(false),
        Err(failure) => return Err(failure.into()),
    };
    if known.prompt != text && !known.recovered {
        return Err(RpcError::invalid("_meta.messageId", "belongs to another prompt of this session"));
    }
    Ok(true)
}

async fn task_create(
    api: &ApiClient,
    id: &SessionId,
    record: &SessionRecord,
    task: &TaskId,
    prompt: String,
) -> Result<TaskCreate, RpcError> {
    let is_program = record.agent == COMMAND;
    let before =
        if is_program { Continues::Nothing } else { history::continues(api, id, &record.agent).await? };
    let (continues, session) = match before {
        Continues::Nothing => (None, None),
        Continues::Session(session) => (Some(true), Some(session)),
        Continues::Last => (Some(true), None),
    };
    Ok(TaskCreate {
        id: Some(task.clone()),
        prompt,
        agent: Some(record.agent.clone()),
        model: record.model.clone(),
        permissions: record.task_permissions(),
        continues,
        session,
        command: record.command.clone().filter(|_| is_program),
        cwd: record.directory.clone(),
        ..TaskCreate::default()
    })
}
