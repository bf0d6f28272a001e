//! Containers. Each verb may be repeated.

use super::{
    CreateContainer, EngineError, Inspected, Listed,
    client::{Ask, Engine},
    limits::{LIST_MAX_BYTES, LIST_WITHIN, STOP_BEYOND, WORK_WITHIN},
    path,
};
use hyper::Method;
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Created {
    id: String,
}

impl Engine {
    /// The id of the container. `Conflict`: the name is taken; `NotFound`: there is no such image.
    pub async fn create(&self, name: &str, container: &CreateContainer) -> Result<String, EngineError> {
        let path = format!("/containers/create?name={}", path::value(name));
        let ask = Ask::new("create the container", Method::POST, path).within(WORK_WITHIN).json(container)?;
        let created: Created = self.ask_json(ask).await?;
        Ok(created.id)
    }

    /// One that runs already is started. `Conflict` when it is paused.
    pub async fn start(&self, container: &str) -> Result<(), EngineError> {
        self.tell("start the container", path::container(container, "/start")?, WORK_WITHIN).await
    }

    /// One that does not run, or is gone, is stopped. `grace_s` before it is killed.
    pub async fn stop(&self, container: &str, grace_s: u64) -> Result<(), EngineError> {
        let path = path::container(container, &format!("/stop?t={grace_s}"))?;
        let within = Duration::from_secs(grace_s).saturating_add(STOP_BEYOND);
        forgive(self.tell("stop the container", path, within).await, &[])
    }

    /// One that does not run, or is gone, is killed.
    pub async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let path = path::container(container, "/kill?signal=KILL")?;
        let done = self.tell("kill the container", path, WORK_WITHIN).await;
        forgive(done, &["is not running", "can only kill running containers"])
    }

    /// One that is paused already is paused. `Conflict` when it does not run, `NotFound` when it is gone.
    pub async fn pause(&self, container: &str) -> Result<(), EngineError> {
        let path = path::container(container, "/pause")?;
        so_already(self.tell("pause the container", path, WORK_WITHIN).await, &["is already paused"])
    }

    /// One that is not paused, running or not, is unpaused. `NotFound` when it is gone.
    pub async fn unpause(&self, container: &str) -> Result<(), EngineError> {
        let path = path::container(container, "/unpause")?;
        so_already(self.tell("unpause the container", path, WORK_WITHIN).await, &["is not paused"])
    }

    /// With its anonymous volumes, running or not; one that is gone is removed. Waits when it is being removed.
    pub async fn remove(&self, container: &str) -> Result<(), EngineError> {
        const WHAT: &str = "remove the container";
        let ask = || {
            let path = path::container(container, "?force=true&v=true")?;
            Ok::<_, EngineError>(Ask::new(WHAT, Method::DELETE, path).within(WORK_WITHIN))
        };
        match forgive(self.ask(ask()?).await.map(drop), &[]) {
            Err(EngineError::Conflict(message)) if message.contains("is already in progress") => {
                let path = path::container(container, "/wait?condition=removed")?;
                forgive(self.tell(WHAT, path, WORK_WITHIN).await, &[])?;
                // The other removal may have failed.
                forgive(self.ask(ask()?).await.map(drop), &[])
            }
            done => done,
        }
    }

    /// By id or name. Absent when there is none.
    pub async fn inspect(&self, container: &str) -> Result<Option<Inspected>, EngineError> {
        let path = path::container(container, "/json")?;
        self.find(Ask::new("inspect the container", Method::GET, path)).await
    }

    /// All that have this label (`name` or `name=value`), running or not.
    pub async fn list(&self, label: &str) -> Result<Vec<Listed>, EngineError> {
        let path = format!("/containers/json?all=true&{}", path::labelled(label));
        let ask = Ask::new("list the containers", Method::GET, path);
        self.ask_json(ask.within(LIST_WITHIN).at_most(LIST_MAX_BYTES)).await
    }

    async fn tell(&self, what: &'static str, path: String, within: Duration) -> Result<(), EngineError> {
        self.ask(Ask::new(what, Method::POST, path).within(within)).await.map(drop)
    }
}

/// A conflict with one of these words is no conflict: it was so already.
fn so_already(done: Result<(), EngineError>, words: &[&str]) -> Result<(), EngineError> {
    match done {
        Err(EngineError::Conflict(message)) if words.iter().any(|known| message.contains(known)) => Ok(()),
        done => done,
    }
}

/// The same, and one that is gone is fine too.
fn forgive(done: Result<(), EngineError>, words: &[&str]) -> Result<(), EngineError> {
    match done {
        Err(EngineError::NotFound(_)) => Ok(()),
        done => so_already(done, words),
    }
}
