//! Agents that are started before there is a task for them: the first task that asks for the same gets it. What is
//! prepared is known here alone and for a while: a hostd that is started again starts such a task as any other.

use super::{
    call::Call,
    connection,
    dispatch::new_id,
    failure::{Answer, Failure},
    pass::{self, WITHIN},
    task_agent,
    task_request::{self, Telling},
    tasks::place,
    views::{json, ok},
};
use crate::{
    agents::{Connection, Speaks},
    control::{Control, ControlError},
    reconcile::locate_agent,
    store::{SandboxRecord, TaskGrant},
};
use hyper::{Method, StatusCode};
use protocol::{
    ErrorCode, TaskId, WarmRequest, WarmView,
    api::{ApiErrorCode, SandboxId, TaskCreate, WarmAnswer, WarmCreate},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How long one waits for its task.
const KEEP_MS: u64 = 10 * 60 * 1000;
/// Sandboxes with one that are remembered.
const WARMS_MAX: usize = 10_000;

/// The way to its model, and what is written down about that with its task.
pub type Connected = Option<(Connection, TaskGrant)>;

struct Prepared {
    /// As runtimed knows it.
    name: String,
    asked: WarmCreate,
    /// Which try to bring the sandbox up it belongs to.
    attempt: u32,
    until_ms: u64,
    connected: Connected,
}

impl Prepared {
    fn is_good(&self, sandbox: &SandboxRecord, now_ms: u64) -> bool {
        self.until_ms > now_ms && self.attempt == sandbox.attempt
    }

    fn view(&self, now_ms: u64) -> WarmAnswer {
        WarmAnswer {
            agent: self.asked.agent.clone().unwrap_or_default(),
            model: self.connected.as_ref().map(|(connection, _)| connection.model.clone()),
            ready: false,
            keep_s: self.until_ms.saturating_sub(now_ms) / 1000,
        }
    }
}

#[derive(Default)]
pub struct Warms {
    of: Mutex<HashMap<SandboxId, Prepared>>,
}

impl Warms {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Prepared>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, sandbox: SandboxId, prepared: Prepared, now_ms: u64) {
        let mut of = self.lock();
        if of.len() >= WARMS_MAX {
            of.retain(|_, prepared| prepared.until_ms > now_ms);
        }
        if of.len() < WARMS_MAX {
            of.insert(sandbox, prepared);
        }
    }

    /// The one that is there, as far as is known here: its name, and what is told of it.
    fn there(
        &self,
        sandbox: &SandboxRecord,
        asked: Option<&WarmCreate>,
        now_ms: u64,
    ) -> Option<(String, WarmAnswer)> {
        let of = self.lock();
        let prepared = of.get(&sandbox.id).filter(|prepared| prepared.is_good(sandbox, now_ms))?;
        let same = asked.is_none_or(|asked| prepared.asked == *asked);
        same.then(|| (prepared.name.clone(), prepared.view(now_ms)))
    }

    /// What was prepared for just this task, once. Its key opens when the task runs that takes it.
    pub fn take(
        &self,
        sandbox: &SandboxRecord,
        agent: &str,
        create: &TaskCreate,
        now_ms: u64,
    ) -> Option<Taken<'_>> {
        if create.budget.is_some() || create.continues == Some(true) {
            return None;
        }
        let asked = asked_by(agent, create);
        let mut of = self.lock();
        let prepared = of.get(&sandbox.id)?;
        let good = prepared.is_good(sandbox, now_ms);
        if good && prepared.asked != asked {
            return None;
        }
        let prepared = of.remove(&sandbox.id).filter(|_| good)?;
        Some(Taken { warms: self, sandbox: sandbox.id, prepared: Some(prepared) })
    }

    /// Where there is no newer one.
    fn put_back(&self, sandbox: SandboxId, prepared: Prepared) {
        self.lock().entry(sandbox).or_insert(prepared);
    }
}

/// It goes back when no task comes of it.
pub struct Taken<'a> {
    warms: &'a Warms,
    sandbox: SandboxId,
    prepared: Option<Prepared>,
}

impl Taken<'_> {
    pub fn name(&self) -> Option<String> {
        self.prepared.as_ref().map(|prepared| prepared.name.clone())
    }

    pub fn connected(&self) -> Option<&(Connection, TaskGrant)> {
        self.prepared.as_ref()?.connected.as_ref()
    }

    /// A task has it now.
    pub fn given(mut self) {
        self.prepared = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(prepared) = self.prepared.take() {
            self.warms.put_back(self.sandbox, prepared);
        }
    }
}

#[cfg(test)]
#[path = "warm_tests.rs"]
mod tests;

fn asked_by(agent: &str, create: &TaskCreate) -> WarmCreate {
    WarmCreate {
        agent: Some(agent.to_owned()),
        model: create.model.clone(),
        cwd: create.cwd.clone(),
        env: create.env.clone(),
        permissions: create.permissions.clone(),
    }
}

pub async fn create(call: Call) -> Answer {
    let wanted: WarmCreate = call.json()?;
    let sandbox = call.sandbox().await?;
    let create = TaskCreate {
        // Nobody is told it: a task that adopts the agent brings its own.
        prompt: "later".to_owned(),
        agent: wanted.agent.clone(),
        model: wanted.model.clone(),
        cwd: wanted.cwd.clone(),
        env: wanted.env.clone(),
        permissions: wanted.permissions.clone(),
        ..TaskCreate::default()
    };
    let agents = call.api.fleet.agents();
    let choice = task_agent::choose(&create, agents.table())?;
    if choice.entry.speaks != Speaks::Acp {
        let message =
            format!("the agent {} cannot be started before its task: it does not speak acp", choice.name);
        return Err(Failure::invalid("agent", message));
    }
    let asked = asked_by(choice.name, &create);
    if let Some((name, answer)) = call.api.warms.there(&sandbox, Some(&asked), call.api.now_ms()) {
        let (_, control) = call.control_of(&sandbox.id).await?;
        if let Some(view) = seen(&control, &name).await? {
            return Ok(json(StatusCode::ACCEPTED, &WarmAnswer { ready: view.ready, ..answer }));
        }
    }
    let connected = connection::connect(&call, &create, choice, &sandbox).await?;
    let telling = Telling {
        choice,
        connection: connected.as_ref().map(|(connection, _)| connection),
        agents,
        place: place(&create, &sandbox, &call.api.settings.previews),
        sandbox_env: &sandbox.env.0.all,
    };
    let nobody = TaskId::parse("warm").map_err(|error| Failure::internal(&error))?;
    let request = task_request::request(&create, nobody, &telling)?;
    let (sandbox, control) = call.control_of(&sandbox.id).await?;
    let agent = locate_agent(&control, agents, choice.name, &request.agent).await?;
    let agent = agent.map_err(|message| Failure::new(ApiErrorCode::Unsupported, message))?;
    let warm = WarmRequest { agent, env: request.env, cwd: request.cwd, keep_ms: KEEP_MS };
    let name = new_id();
    let path = pass::path(&["warm", &name]);
    let (_, view) = control.json::<WarmView>(Method::PUT, &path, Some(&warm), WITHIN).await?;
    let now_ms = call.api.now_ms();
    let prepared = Prepared { name, asked, attempt: sandbox.attempt, until_ms: now_ms + KEEP_MS, connected };
    let answer = WarmAnswer { ready: view.ready, ..prepared.view(now_ms) };
    call.api.warms.put(sandbox.id, prepared, now_ms);
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// The one that waits for its task. Not found where there is none, or it has ended.
pub async fn get(call: Call) -> Answer {
    let sandbox = call.sandbox().await?;
    let none = || {
        let message = "no agent was started here in advance, or it has a task, or has ended; \
            POST to the same path starts one";
        Failure::new(ApiErrorCode::NotFound, message)
    };
    let there = call.api.warms.there(&sandbox, None, call.api.now_ms());
    let (name, answer) = there.ok_or_else(none)?;
    let (_, control) = call.control_of(&sandbox.id).await?;
    let view = seen(&control, &name).await?.ok_or_else(none)?;
    Ok(ok(&WarmAnswer { ready: view.ready, ..answer }))
}

/// As runtimed sees it; nothing when it has ended.
async fn seen(control: &Control, name: &str) -> Result<Option<WarmView>, Failure> {
    match control.get::<WarmView>(&pass::path(&["warm", name]), WITHIN).await {
        Ok(view) => Ok(Some(view)),
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
