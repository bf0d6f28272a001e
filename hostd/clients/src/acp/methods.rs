//! The methods of the protocol, version 1.

use super::{
    attached::Attached,
    config_options::{self, Choices},
    connection::{Caller, Connection},
    feed::Feed,
    history, params, record,
    rpc::{self, METHOD_NOT_FOUND, RpcError},
    session_id::SessionId,
    session_methods, submit,
};
use crate::ApiClient;
use hyper::Method;
use protocol::api::TaskAnswer;
use serde_json::{Value, json};
use std::sync::Arc;

pub const VERSION: u64 = 1;
pub const INITIALIZE: &str = "initialize";
pub const PROMPT: &str = "session/prompt";

/// How a request is answered.
pub enum Answer {
    Now(Value),
    /// After the response, the editor is told of the session's tasks.
    Then(Value, Box<Feed>),
    /// By the feed of the session, when its task has ended.
    Later,
}

/// Answers a request.
pub async fn call(
    connection: &Arc<Connection>,
    caller: &Caller,
    id: &Value,
    method: &str,
    params: &Value,
) -> Result<Answer, RpcError> {
    match method {
        INITIALIZE => Ok(Answer::Now(initialize())),
        // The connection is authenticated by its token.
        "authenticate" => Ok(Answer::Now(json!({}))),
        "session/new" => session_methods::new(connection, caller, id, params).await,
        "session/load" => session_methods::load(connection, caller, params).await,
        "session/resume" => session_methods::resume(connection, caller, params).await,
        "session/list" => session_methods::list(caller, params).await.map(Answer::Now),
        "session/close" => session_methods::close(connection, caller, params).await.map(Answer::Now),
        "session/delete" => session_methods::delete(connection, caller, params).await.map(Answer::Now),
        PROMPT => submit::prompt(connection, caller, id, params).await,
        "session/set_mode" => {
            let mode = config_options::parse_mode(params::text(params, "modeId")?)?;
            change(connection, caller, params, "mode", mode.id()).await?;
            Ok(Answer::Now(json!({})))
        }
        "session/set_config_option" => {
            let (option, value) = (params::text(params, "configId")?, params::text(params, "value")?);
            let options = change(connection, caller, params, option, value).await?;
            Ok(Answer::Now(json!({ "configOptions": options })))
        }
        other => {
            let message = format!("method not found: {}", protocol::sanitize::one_line(other, 100));
            Err(RpcError::new(METHOD_NOT_FOUND, message))
        }
    }
}

pub fn initialize() -> Value {
    json!({
        "protocolVersion": VERSION,
        "agentInfo": {"name": "slipway", "title": "Slipway", "version": env!("CARGO_PKG_VERSION")},
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": {"image": false, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": false, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
    })
}

/// Changes an option of a session, for the prompts that follow.
async fn change(
    connection: &Connection,
    caller: &Caller,
    params: &Value,
    option: &str,
    value: &str,
) -> Result<Value, RpcError> {
    let id = params::session(params)?;
    let (_, mut record) = record::load(&caller.api, &id).await?;
    let choices = Choices::read(&caller.api).await?;
    choices.apply(&mut record, option, value)?;
    record::store(&caller.api, &connection.locks, &id, Some(&record)).await?;
    Ok(choices.show(&record))
}

/// Cancels all tasks of a session that have not ended, also those of prompts that arrived just before.
pub async fn cancel(connection: &Connection, caller: &Caller, params: &Value) -> Result<(), RpcError> {
    let id = params::session(params)?;
    if let Some(session) = connection.attached(&id) {
        session.submitted().await;
    }
    cancel_tasks(&caller.api, &id).await
}

pub async fn cancel_tasks(api: &ApiClient, id: &SessionId) -> Result<(), RpcError> {
    let mut tasks = history::unfinished_tasks(api, id).await?;
    // Waiting tasks first, so that none of them begins.
    tasks.reverse();
    for task in tasks {
        let path = format!("{}/cancel", id.task_path(&task.id));
        let _: TaskAnswer = api.json(Method::POST, &path, None::<&()>).await?;
    }
    Ok(())
}

/// Cancels the task that a request waits for.
pub async fn cancel_request(
    connection: &Connection,
    caller: &Caller,
    params: &Value,
) -> Result<(), RpcError> {
    let request = &params["requestId"];
    let sessions: Vec<Arc<Attached>> = connection.all_attached();
    for session in sessions {
        session.submitted().await;
        if let Some(task) = session.task_of(request) {
            let path = format!("{}/cancel", session.id.task_path(&task));
            let _: TaskAnswer = caller.api.json(Method::POST, &path, None::<&()>).await?;
            return Ok(());
        }
    }
    Err(RpcError::new(rpc::INVALID_PARAMS, "no open request has this id"))
}
