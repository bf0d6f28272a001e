//! Tasks: persisted first, then run independently of their callers' connections.

use super::{
    call::Call,
    error::{CallError, CallResult},
    execs::generated_id,
    limits, model_connection, relay,
    request_trace::log_field,
    task_agent,
    task_request::{self, TaskContext},
    views::{self, json, ok},
    warm_agents::WarmAgentClaim,
};
use crate::agents::{BriefingContext, COMMAND};
use hostd_core::{Preview, Previews};
use hostd_store::{NewTask, SandboxRecord, Secret, TaskBegun, TaskRecord};
use hyper::StatusCode;
use protocol::{
    TaskId, TaskRequest,
    api::{ApiErrorCode, Missing, MissingKind, Network, SandboxId, SandboxStatus, TaskCreate},
};

pub async fn create(call: Call) -> CallResult {
    let create: TaskCreate = call.json()?;
    let sandbox = call.sandbox().await?;
    let id = match &create.id {
        Some(id) => id.clone(),
        None => TaskId::parse(&generated_id(&call, &sandbox)).map_err(|error| CallError::internal(&error))?,
    };
    log_field("task", id.as_str());
    let agents = &call.api.agents;
    let choice = task_agent::choose(&create, agents.table())?;
    let warm = call.api.warm_agents.take(&sandbox, choice.name, &create, call.api.now_ms());
    let made = match &warm {
        Some(_) => None,
        None => model_connection::grant_model(&call, &create, choice, &sandbox).await?,
    };
    let connected = warm.as_ref().map_or(made.as_ref(), WarmAgentClaim::model_grant);
    let grant = connected.map(|(_, grant)| grant.clone());
    let context = TaskContext {
        choice,
        connection: connected.map(|(connection, _)| connection),
        agents,
        briefing: briefing_context(&create, &sandbox, &call.api.settings.previews),
        sandbox_env: &sandbox.env.0.all,
    };
    let name = warm.as_ref().and_then(WarmAgentClaim::name);
    let request = TaskRequest { warm: name, ..task_request::request(&create, id.clone(), &context)? };
    if sandbox.state.status == SandboxStatus::Error && sandbox.state.operation.is_none() {
        // Fails with the sandbox's problem, as every other call does.
        call.control().await?;
    }
    let task = NewTask {
        sandbox: sandbox.id,
        id: id.clone(),
        agent: choice.name.to_owned(),
        created_by: call.caller.principal.to_string(),
        prompt: request.prompt.clone(),
        request: Secret(request),
        request_hash: task_request::hash(&create),
        grant,
        created_ms: call.api.now_ms(),
    };
    let begun = call.api.fleet.submit(task).await;
    // After an error it is unknown whether the task was persisted.
    if let (Some(warm), Ok(TaskBegun::New(_)) | Err(_)) = (warm, &begun) {
        warm.consume();
    }
    match begun? {
        TaskBegun::New(task) | TaskBegun::Same(task) => Ok(json(StatusCode::ACCEPTED, &views::task(&task))),
        TaskBegun::Conflict => {
            let message = format!("the id {id} belongs to another task; choose another id");
            Err(CallError::new(ApiErrorCode::Conflict, message))
        }
        TaskBegun::Full => {
            let message = "too many tasks of this sandbox are queued; try again when some are done";
            Err(CallError::new(ApiErrorCode::TooMany, message))
        }
    }
}

/// The facts about the sandbox in the agent's briefing.
pub fn briefing_context<'a>(
    create: &'a TaskCreate,
    sandbox: &'a SandboxRecord,
    previews: &Previews,
) -> BriefingContext<'a> {
    const SOME: u16 = u16::MAX;
    let blueprint = &sandbox.blueprint;
    let url = |port| previews.url(&Preview { sandbox: sandbox.id, port });
    BriefingContext {
        cwd: create.cwd.as_deref(),
        network: network(blueprint.network),
        services: blueprint.services.iter().map(|service| (service.name.as_str(), service.port)).collect(),
        previews: blueprint.ports.iter().map(|port| (*port, url(*port))).collect(),
        preview: url(SOME).replace(&format!("-{SOME}."), "-N."),
    }
}

fn network(network: Network) -> &'static str {
    match network {
        Network::None => "none",
        Network::Proxy => "proxy",
        Network::Open => "open",
    }
}

pub async fn list(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?.id;
    let limit = call.query.limit()?;
    let invalid = |_| CallError::invalid("after", "must be the id of a task");
    let after = call.query.text("after").map(|text| TaskId::parse(text).map_err(invalid)).transpose()?;
    let store = &call.api.store;
    let tasks = store.tasks(&sandbox, after.as_ref(), limit, limits::PROMPT_SHOWN_CHARS).await?;
    Ok(ok(&views::page(&tasks, limit, views::task, |task| task.id.to_string())))
}

pub async fn get(call: Call) -> CallResult {
    Ok(ok(&views::task(&call.task().await?)))
}

/// The output of the task's agent, as runtimed stores it.
pub async fn log(call: Call) -> CallResult {
    let task = call.task().await?;
    let query = call.query.runtimed_query(super::route_params::RUNTIMED_READ_PARAMS)?;
    if task.agent == COMMAND {
        let message = "the output of a command is in the events of its task";
        return Err(CallError::new(ApiErrorCode::Conflict, message));
    }
    let (_, control) = call.control().await?;
    let path = format!("{}{query}", relay::runtimed_path(&["tasks", task.id.as_str(), "output"]));
    let response = relay::response(&call, control, &path).await;
    response.map_err(|failure| {
        if failure.error.code == ApiErrorCode::NotFound { log_not_found(&task) } else { failure }
    })
}

/// The error when runtimed does not have the task: not yet, or not any more.
fn log_not_found(task: &TaskRecord) -> CallError {
    let id = &task.id;
    match task.done_seq {
        None => CallError::new(
            ApiErrorCode::Conflict,
            format!("task {id} has not started; try again when it has"),
        ),
        Some(_) => CallError::new(ApiErrorCode::NotFound, format!("the log of task {id} is no longer kept")),
    }
}

pub async fn cancel(call: Call) -> CallResult {
    let task = call.task().await?;
    let task = call.api.fleet.cancel(&task).await?;
    let status = if task.done_seq.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json(status, &views::task(&task)))
}

impl Call {
    /// Returns the task named in the path, if the caller may see it.
    pub async fn task(&self) -> Result<TaskRecord, CallError> {
        let sandbox = self.sandbox().await?.id;
        self.task_by(&sandbox, self.param("task")?).await
    }

    /// A malformed id is reported as not found.
    pub async fn task_by(&self, sandbox: &SandboxId, id: &str) -> Result<TaskRecord, CallError> {
        let missing = || Some(Missing::new(MissingKind::Task, id).in_sandbox(sandbox.as_str()));
        let none = || CallError::not_found().with_resource(missing);
        let id = TaskId::parse(id).map_err(|_| none())?;
        self.api.store.task(sandbox, &id).await?.ok_or_else(none)
    }
}
