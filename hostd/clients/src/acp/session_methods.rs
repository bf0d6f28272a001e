//! Methods that make, open, list and end sessions.

use super::{
    config_options::{self, Choices},
    connection::{Caller, Connection},
    history::{self, ReplayError},
    limits,
    methods::{self, Answer},
    params::{self, NewSession},
    record::{self, Mode, SessionRecord},
    rpc::{self, RESOURCE_NOT_FOUND, RpcError},
    session_id::{SessionId, SessionNumber},
};
use crate::{ApiClient, respond};
use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::api::{Page, SandboxId, SandboxView, TaskAnswer};
use serde_json::{Map, Value, json};
use std::sync::Arc;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Makes a session, in a new sandbox or in one that exists. A repeated request makes it once.
pub async fn new(
    connection: &Arc<Connection>,
    caller: &Caller,
    id: &Value,
    params: &Value,
) -> Result<Answer, RpcError> {
    let settings = NewSession::parse(params, &caller.defaults)?;
    let key = match params::message_id(params)? {
        Some(chosen) => format!("message {chosen}"),
        None => format!("connection {} {id}", connection.name),
    };
    let number = SessionNumber::derive(&key);
    let choices = Choices::read(&caller.api).await?;
    let mut record = first_record(&settings, &choices)?;
    let sandbox = match &settings.sandbox {
        Some(named) => {
            let session = number.in_sandbox(find_sandbox(&caller.api, named).await?);
            record::store(&caller.api, &connection.locks, &session, Some(&record)).await?
        }
        None => {
            record.owns_sandbox = true;
            record.ttl = time_to_live(&settings);
            create_sandbox(&caller.api, &settings, &number, &record).await?
        }
    };
    let session = number.in_sandbox(sandbox.id);
    connection.attach(&caller.api, &session)?;
    let mut result = opened(&session, &sandbox, &record, &choices);
    result["sessionId"] = json!(session.to_string());
    if settings.names_mcp_servers {
        result["_meta"]["ignored"] = json!(["mcpServers"]);
    }
    Ok(Answer::Now(result))
}

/// The time to live of a new sandbox; `null` in its fields: none.
fn time_to_live(settings: &NewSession) -> Option<String> {
    if let Some(ttl) = &settings.ttl {
        return Some(ttl.clone());
    }
    match settings.create.get("ttl") {
        None => Some(limits::SANDBOX_TTL.to_owned()),
        Some(ttl) => ttl.as_str().map(str::to_owned),
    }
}

fn first_record(settings: &NewSession, choices: &Choices) -> Result<SessionRecord, RpcError> {
    let by_command = settings.command.as_ref().map(|_| "command");
    let agent = settings.agent.as_deref().or(by_command).or(choices.default_agent()).unwrap_or_default();
    if !choices.has_agent(agent) {
        return Err(RpcError::invalid("agent", format!("no agent {agent:?} on this host")));
    }
    Ok(SessionRecord {
        cwd: settings.cwd.clone(),
        directory: settings.directory.clone(),
        agent: agent.to_owned(),
        model: settings.model.clone(),
        mode: settings.mode.as_deref().map_or(Ok(Mode::default()), config_options::parse_mode)?,
        permissions: settings.permissions.clone(),
        command: settings.command.clone(),
        owns_sandbox: false,
        ttl: None,
    })
}

/// Finds a sandbox by its id, or by its name among those of the caller.
async fn find_sandbox(api: &ApiClient, named: &str) -> Result<SandboxId, RpcError> {
    if let Ok(id) = named.parse() {
        return Ok(id);
    }
    let mut after = String::new();
    loop {
        let path = format!("/v1/sandboxes?limit={}{after}", limits::PAGE_MAX);
        let page: Page<SandboxView> = api.get(&path).await?;
        if let Some(found) = page.items.iter().find(|sandbox| sandbox.name == named) {
            return Ok(found.id);
        }
        let missing = || RpcError::new(RESOURCE_NOT_FOUND, format!("no sandbox {named:?}"));
        after = format!("&after={}", page.next.ok_or_else(missing)?);
    }
}

async fn create_sandbox(
    api: &ApiClient,
    settings: &NewSession,
    number: &SessionNumber,
    record: &SessionRecord,
) -> Result<SandboxView, RpcError> {
    let mut spec: Map<String, Value> = settings.create.clone();
    let name = || json!(settings.sandbox_name(number.short()));
    spec.entry("name").or_insert_with(name);
    spec.entry("idle_policy").or_insert_with(|| json!("sleep"));
    spec.entry("ttl").or_insert_with(|| json!(record.ttl));
    if let Some(image) = &settings.image {
        spec.insert("image".to_owned(), json!(image));
    }
    let metadata = spec.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(RpcError::invalid("_meta.create.metadata", "must be an object"));
    };
    metadata.insert(number.metadata_key(), json!(record::text(record)));
    let mut request = ApiClient::request(Method::POST, "/v1/sandboxes");
    *request.body_mut() = Value::Object(spec).to_string().into();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(key) = HeaderValue::try_from(format!("acp-{}", number.as_str())) {
        headers.insert(IDEMPOTENCY_KEY, key);
    }
    let response = api.send(request).await?;
    let document = respond::read(response.into_body(), limits::SANDBOX_MAX_BYTES).await;
    let internal = |error: &dyn std::error::Error| RpcError::new(rpc::INTERNAL_ERROR, error.to_string());
    let document = document.map_err(|error| internal(&error))?;
    serde_json::from_slice(&document).map_err(|error| internal(&error))
}

/// Opens a session and tells of its whole history, or of what comes after an event.
pub async fn load(connection: &Arc<Connection>, caller: &Caller, params: &Value) -> Result<Answer, RpcError> {
    let (id, cursor) = (params::session(params)?, params::meta(params, "after")?.unwrap_or(0));
    params::cwd(params)?;
    let (sandbox, record) = record::load(&caller.api, &id).await?;
    let choices = Choices::read(&caller.api).await?;
    let tasks = history::tasks_after(&caller.api, &id, cursor).await?;
    let attached = connection.attach_anew(&id)?;
    attached.restart(cursor, Vec::new(), true);
    let feed = connection.feed(&caller.api, &attached);
    let mut failed = None;
    for task in &tasks {
        match feed.replay(task).await {
            Ok(()) => {}
            Err(ReplayError::Failed(error)) => {
                failed = Some(error);
                break;
            }
            // The response will not be read either.
            Err(ReplayError::Gone) => break,
        }
    }
    let is_left = |task: &TaskAnswer| !task.status.is_final() || attached.is_waited_for(&task.id);
    let left = tasks.into_iter().filter(is_left).collect();
    attached.restart(attached.cursor(), history::queued(left), true);
    match failed {
        None => Ok(Answer::Then(opened(&id, &sandbox, &record, &choices), Box::new(feed))),
        Some(error) => {
            connection.give_up_opening(feed);
            Err(error)
        }
    }
}

/// Opens a session and goes on after the last event that the editor was told of, or from now.
pub async fn resume(
    connection: &Arc<Connection>,
    caller: &Caller,
    params: &Value,
) -> Result<Answer, RpcError> {
    let (id, after) = (params::session(params)?, params::meta(params, "after")?);
    params::cwd(params)?;
    let (sandbox, record) = record::load(&caller.api, &id).await?;
    let choices = Choices::read(&caller.api).await?;
    let (cursor, tasks) = match after {
        Some(after) => (after, history::tasks_after(&caller.api, &id, after).await?),
        None => {
            let tasks = history::unfinished_tasks(&caller.api, &id).await?;
            let mut cursor = 0;
            for task in &tasks {
                cursor = cursor.max(history::last_event(&caller.api, &id, task).await?);
            }
            (cursor, tasks)
        }
    };
    let attached = connection.attach_anew(&id)?;
    attached.restart(cursor, history::queued(tasks), true);
    let feed = connection.feed(&caller.api, &attached);
    Ok(Answer::Then(opened(&id, &sandbox, &record, &choices), Box::new(feed)))
}

/// The part that responses which open a session have in common.
fn opened(id: &SessionId, sandbox: &SandboxView, record: &SessionRecord, choices: &Choices) -> Value {
    json!({
        "modes": config_options::modes(record), "configOptions": choices.show(record),
        "_meta": {"sandbox": id.sandbox, "name": sandbox.name, "previews": sandbox.previews},
    })
}

pub async fn list(caller: &Caller, params: &Value) -> Result<Value, RpcError> {
    let cwd = params["cwd"].as_str();
    let cursor = params["cursor"].as_str().map(str::parse::<SandboxId>).transpose();
    let cursor = cursor.map_err(|_| RpcError::invalid("cursor", "must be one of an earlier response"))?;
    let after = cursor.map(|after| format!("&after={after}")).unwrap_or_default();
    let path = format!("/v1/sandboxes?limit={}{after}", limits::LIST_PAGE_MAX);
    let page: Page<SandboxView> = caller.api.get(&path).await?;
    let mut sessions = Vec::new();
    for sandbox in &page.items {
        for (id, record) in record::of_sandbox(sandbox) {
            if cwd.is_none_or(|cwd| cwd == record.cwd) {
                sessions.push(json!({
                    "sessionId": id.to_string(), "cwd": record.cwd, "title": sandbox.name,
                    "updatedAt": sandbox.updated_at,
                    "_meta": {"sandbox": sandbox.id, "agent": record.agent},
                }));
            }
        }
    }
    let mut result = json!({ "sessions": sessions });
    if let Some(next) = page.next {
        result["nextCursor"] = json!(next);
    }
    Ok(result)
}

/// Lets go of a session, and cancels what it does. The session, its sandbox and its files stay.
pub async fn close(connection: &Arc<Connection>, caller: &Caller, params: &Value) -> Result<Value, RpcError> {
    let id = params::session(params)?;
    record::load(&caller.api, &id).await?;
    end(connection, caller, &id).await?;
    Ok(json!({}))
}

async fn end(connection: &Arc<Connection>, caller: &Caller, id: &SessionId) -> Result<(), RpcError> {
    let attached = connection.detach(id);
    if let Some(session) = &attached {
        session.submitted().await;
    }
    methods::cancel_tasks(&caller.api, id).await?;
    for request in attached.map(|session| session.close()).unwrap_or_default() {
        let cancelled = rpc::response(&request, Ok(super::prompt_end::cancelled()));
        // Not sent: the connection ends.
        let _ = connection.outbox.tell(cancelled).await;
    }
    Ok(())
}

/// Ends a session, with the sandbox that it made.
pub async fn delete(
    connection: &Arc<Connection>,
    caller: &Caller,
    params: &Value,
) -> Result<Value, RpcError> {
    let id = params::session(params)?;
    let (sandbox, record) = record::load(&caller.api, &id).await?;
    end(connection, caller, &id).await?;
    let shared = record::of_sandbox(&sandbox).any(|(other, _)| other != id);
    if record.owns_sandbox && !shared {
        let path = format!("/v1/sandboxes/{}", id.sandbox);
        let _: Value = caller.api.json(Method::DELETE, &path, None::<&()>).await?;
    } else {
        record::store(&caller.api, &connection.locks, &id, None).await?;
    }
    Ok(json!({}))
}
