//! Tasks: written down, then done; their callers may come and go.

use super::{
    call::Call,
    execs::id_made_up,
    failure::{Answer, Failure},
    limits, task_request,
    views::{self, json, ok},
};
use crate::store::{NewTask, Secret, TaskBegun, TaskRecord};
use hyper::StatusCode;
use protocol::{
    TaskId,
    api::{ApiErrorCode, SandboxId, SandboxStatus, TaskCreate},
};

pub async fn create(call: Call) -> Answer {
    let create: TaskCreate = call.json()?;
    let sandbox = call.sandbox().await?;
    let id = match &create.id {
        Some(id) => id.clone(),
        None => TaskId::parse(&id_made_up(&call, &sandbox)).map_err(|error| Failure::internal(&error))?,
    };
    let request = task_request::request(&create, id.clone(), &sandbox.env.0.all)?;
    if sandbox.state.status == SandboxStatus::Error && sandbox.state.effort.is_none() {
        // Says what is wrong with it, as every other call does.
        call.control().await?;
    }
    let task = NewTask {
        sandbox: sandbox.id,
        id: id.clone(),
        agent: request.agent.name().to_owned(),
        prompt: request.prompt.clone(),
        request: Secret(request),
        request_hash: task_request::hash(&create),
        created_ms: call.api.now_ms(),
    };
    match call.api.fleet.submit(task).await? {
        TaskBegun::New(task) | TaskBegun::Same(task) => Ok(json(StatusCode::ACCEPTED, &views::task(&task))),
        TaskBegun::Conflict => {
            let message = format!("another task has the id {id} already; choose another");
            Err(Failure::new(ApiErrorCode::Conflict, message))
        }
        TaskBegun::Full => {
            let message = "too many tasks of this sandbox wait for their turn; try again when some are done";
            Err(Failure::new(ApiErrorCode::TooMany, message))
        }
    }
}

pub async fn list(call: Call) -> Answer {
    let sandbox = call.sandbox().await?.id;
    let limit = call.query.limit()?;
    let wrong = |_| Failure::invalid("after", "must be the id of a task");
    let after = call.query.text("after").map(|text| TaskId::parse(text).map_err(wrong)).transpose()?;
    let store = call.api.fleet.store();
    let tasks = store.tasks(&sandbox, after.as_ref(), limit, limits::PROMPT_SHOWN_CHARS).await?;
    Ok(ok(&views::page(&tasks, limit, views::task, |task| task.id.to_string())))
}

pub async fn get(call: Call) -> Answer {
    Ok(ok(&views::task(&call.task().await?)))
}

pub async fn cancel(call: Call) -> Answer {
    let task = call.task().await?;
    let task = call.api.fleet.cancel(&task).await?;
    let status = if task.done_seq.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(json(status, &views::task(&task)))
}

impl Call {
    /// The task the path names, if it is there for this caller.
    pub async fn task(&self) -> Result<TaskRecord, Failure> {
        let sandbox = self.sandbox().await?.id;
        self.task_by(&sandbox, self.param("task")?).await
    }

    /// A malformed id is the id of nothing.
    pub async fn task_by(&self, sandbox: &SandboxId, id: &str) -> Result<TaskRecord, Failure> {
        let id = TaskId::parse(id).map_err(|_| Failure::not_found())?;
        self.api.fleet.store().task(sandbox, &id).await?.ok_or_else(Failure::not_found)
    }
}
