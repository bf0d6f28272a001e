//! Container endpoints. Each verb may be repeated.

use super::{
    CreateContainer, EngineError, InspectedContainer, ListedContainer, Resources,
    client::{Engine, EngineRequest},
    limits::{LIST_DEADLINE, LIST_MAX_BYTES, STOP_MARGIN, WORK_DEADLINE},
    request_path,
};
use hyper::Method;
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CreateResponse {
    id: String,
}

impl Engine {
    /// Creates a container and returns its id. `Conflict`: the name is taken; `NotFound`: no such image.
    pub async fn create(&self, name: &str, container: &CreateContainer) -> Result<String, EngineError> {
        let path = format!("/containers/create?name={}", request_path::query_value(name));
        let request = EngineRequest::new("create the container", Method::POST, path)
            .deadline(WORK_DEADLINE)
            .json(container)?;
        let created: CreateResponse = self.call_json(request).await?;
        Ok(created.id)
    }

    /// Starts a container; a no-op when it runs already. `Conflict` when it is paused.
    pub async fn start(&self, container: &str) -> Result<(), EngineError> {
        self.post("start the container", request_path::container(container, "/start")?, WORK_DEADLINE).await
    }

    /// Stops a container, with SIGKILL after `grace_s`. A no-op when it does not run or is gone.
    pub async fn stop(&self, container: &str, grace_s: u64) -> Result<(), EngineError> {
        let path = request_path::container(container, &format!("/stop?t={grace_s}"))?;
        let deadline = Duration::from_secs(grace_s).saturating_add(STOP_MARGIN);
        ignore_missing(self.post("stop the container", path, deadline).await, &[])
    }

    /// Kills a container. A no-op when it does not run or is gone.
    pub async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let path = request_path::container(container, "/kill?signal=KILL")?;
        let done = self.post("kill the container", path, WORK_DEADLINE).await;
        ignore_missing(done, &["is not running", "can only kill running containers"])
    }

    /// Pauses a container; a no-op when it is paused already. `Conflict` when it does not run, `NotFound`
    /// when it is gone.
    pub async fn pause(&self, container: &str) -> Result<(), EngineError> {
        let path = request_path::container(container, "/pause")?;
        ignore_already_done(
            self.post("pause the container", path, WORK_DEADLINE).await,
            &["is already paused"],
        )
    }

    /// Unpauses a container; a no-op when it is not paused, running or not. `NotFound` when it is gone.
    pub async fn unpause(&self, container: &str) -> Result<(), EngineError> {
        let path = request_path::container(container, "/unpause")?;
        ignore_already_done(self.post("unpause the container", path, WORK_DEADLINE).await, &["is not paused"])
    }

    /// Removes a container with its anonymous volumes, running or not; a no-op when it is gone. Waits for a
    /// removal that is already in progress.
    pub async fn remove(&self, container: &str) -> Result<(), EngineError> {
        const WHAT: &str = "remove the container";
        let request = || {
            let path = request_path::container(container, "?force=true&v=true")?;
            Ok::<_, EngineError>(EngineRequest::new(WHAT, Method::DELETE, path).deadline(WORK_DEADLINE))
        };
        match ignore_missing(self.call(request()?).await.map(drop), &[]) {
            Err(EngineError::Conflict(message)) if message.contains("is already in progress") => {
                let path = request_path::container(container, "/wait?condition=removed")?;
                ignore_missing(self.post(WHAT, path, WORK_DEADLINE).await, &[])?;
                // The other removal may have failed.
                ignore_missing(self.call(request()?).await.map(drop), &[])
            }
            done => done,
        }
    }

    /// Changes the limits of a container. `NotFound` where the engine has no such verb.
    pub async fn update(&self, container: &str, resources: &Resources) -> Result<(), EngineError> {
        let path = request_path::container(container, "/update")?;
        let request = EngineRequest::new("update the container", Method::POST, path).deadline(WORK_DEADLINE);
        self.call(request.json(resources)?).await.map(drop)
    }

    /// Inspects a container by id or name. `None` when there is no such container.
    pub async fn inspect(&self, container: &str) -> Result<Option<InspectedContainer>, EngineError> {
        let path = request_path::container(container, "/json")?;
        self.call_optional(EngineRequest::new("inspect the container", Method::GET, path)).await
    }

    /// Lists all containers with this label (`name` or `name=value`), running or not.
    pub async fn list(&self, label: &str) -> Result<Vec<ListedContainer>, EngineError> {
        let path = format!("/containers/json?all=true&{}", request_path::label_filter(label));
        let request = EngineRequest::new("list the containers", Method::GET, path);
        self.call_json(request.deadline(LIST_DEADLINE).max_bytes(LIST_MAX_BYTES)).await
    }

    async fn post(&self, what: &'static str, path: String, deadline: Duration) -> Result<(), EngineError> {
        self.call(EngineRequest::new(what, Method::POST, path).deadline(deadline)).await.map(drop)
    }
}

/// Turns a conflict with one of these messages into success: the container is in the wanted state already.
fn ignore_already_done(done: Result<(), EngineError>, messages: &[&str]) -> Result<(), EngineError> {
    match done {
        Err(EngineError::Conflict(message)) if messages.iter().any(|known| message.contains(known)) => Ok(()),
        done => done,
    }
}

/// Like `ignore_already_done`, and a missing container is a success too.
fn ignore_missing(done: Result<(), EngineError>, messages: &[&str]) -> Result<(), EngineError> {
    match done {
        Err(EngineError::NotFound(_)) => Ok(()),
        done => ignore_already_done(done, messages),
    }
}
