//! Agents started before there is a task for them: the first task with the same spec adopts the agent. Kept
//! in memory only, for a while: after a restart of hostd such a task starts cold.

use super::{
    call::Call,
    dispatch::new_id,
    error::{CallError, CallResult},
    model_connection,
    relay::{self, CONTROL_TIMEOUT},
    task_agent,
    task_request::{self, TaskContext},
    tasks::briefing_context,
    views::{json, ok},
};
use crate::{
    agents::{AgentProtocol, ModelAccess},
    reconcile::locate_agent,
};
use hostd_drivers::control::{Control, ControlError};
use hostd_store::{SandboxRecord, TaskGrant};
use hyper::{Method, StatusCode};
use protocol::{
    ErrorCode, TaskId, WarmRequest, WarmView,
    api::{ApiErrorCode, SandboxId, TaskCreate, WarmAnswer, WarmCreate},
};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How long an agent waits for its task.
const KEEP_MS: u64 = 10 * 60 * 1000;
/// Sandboxes whose warm agent is kept.
const WARM_AGENTS_MAX: usize = 10_000;

/// The connection to its model, and the row to persist with its task.
pub type ModelGrant = Option<(ModelAccess, TaskGrant)>;

struct WarmAgent {
    /// Its name in runtimed.
    name: String,
    spec: WarmCreate,
    /// The attempt of the sandbox that it was started in.
    attempt: u32,
    until_ms: u64,
    model: ModelGrant,
}

impl WarmAgent {
    fn is_usable(&self, sandbox: &SandboxRecord, now_ms: u64) -> bool {
        self.until_ms > now_ms && self.attempt == sandbox.attempt
    }

    fn view(&self, now_ms: u64) -> WarmAnswer {
        WarmAnswer {
            agent: self.spec.agent.clone().unwrap_or_default(),
            model: self.model.as_ref().map(|(connection, _)| connection.model.clone()),
            ready: false,
            keep_s: self.until_ms.saturating_sub(now_ms) / 1000,
        }
    }
}

#[derive(Default)]
pub struct WarmAgents {
    by_sandbox: Mutex<HashMap<SandboxId, WarmAgent>>,
}

impl WarmAgents {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, WarmAgent>> {
        self.by_sandbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, sandbox: SandboxId, warm: WarmAgent, now_ms: u64) {
        let mut by_sandbox = self.lock();
        if by_sandbox.len() >= WARM_AGENTS_MAX {
            by_sandbox.retain(|_, warm| warm.until_ms > now_ms);
        }
        if by_sandbox.len() < WARM_AGENTS_MAX {
            by_sandbox.insert(sandbox, warm);
        }
    }

    /// Returns name and view of the warm agent of a sandbox, as far as hostd knows.
    fn find(
        &self,
        sandbox: &SandboxRecord,
        spec: Option<&WarmCreate>,
        now_ms: u64,
    ) -> Option<(String, WarmAnswer)> {
        let by_sandbox = self.lock();
        let warm = by_sandbox.get(&sandbox.id).filter(|warm| warm.is_usable(sandbox, now_ms))?;
        let same = spec.is_none_or(|spec| warm.spec == *spec);
        same.then(|| (warm.name.clone(), warm.view(now_ms)))
    }

    /// Claims the agent that was started for exactly this task. Its model key becomes valid when the task
    /// that adopted it runs.
    pub fn take(
        &self,
        sandbox: &SandboxRecord,
        agent: &str,
        create: &TaskCreate,
        now_ms: u64,
    ) -> Option<WarmAgentClaim<'_>> {
        if create.budget.is_some() || create.continues == Some(true) {
            return None;
        }
        let spec = warm_spec(agent, create);
        let mut by_sandbox = self.lock();
        let warm = by_sandbox.get(&sandbox.id)?;
        let good = warm.is_usable(sandbox, now_ms);
        if good && warm.spec != spec {
            return None;
        }
        let warm = by_sandbox.remove(&sandbox.id).filter(|_| good)?;
        Some(WarmAgentClaim { warm_agents: self, sandbox: sandbox.id, warm: Some(warm) })
    }

    /// Puts an agent back, unless there is a newer one.
    fn restore(&self, sandbox: SandboxId, warm: WarmAgent) {
        self.lock().entry(sandbox).or_insert(warm);
    }
}

/// A claimed agent, put back when dropped unless a task adopted it.
pub struct WarmAgentClaim<'a> {
    warm_agents: &'a WarmAgents,
    sandbox: SandboxId,
    warm: Option<WarmAgent>,
}

impl WarmAgentClaim<'_> {
    pub fn name(&self) -> Option<String> {
        self.warm.as_ref().map(|warm| warm.name.clone())
    }

    pub fn model_grant(&self) -> Option<&(ModelAccess, TaskGrant)> {
        self.warm.as_ref()?.model.as_ref()
    }

    /// A task adopted the agent.
    pub fn consume(mut self) {
        self.warm = None;
    }
}

impl Drop for WarmAgentClaim<'_> {
    fn drop(&mut self) {
        if let Some(warm) = self.warm.take() {
            self.warm_agents.restore(self.sandbox, warm);
        }
    }
}

#[cfg(test)]
#[path = "warm_agents_tests.rs"]
mod tests;

fn warm_spec(agent: &str, create: &TaskCreate) -> WarmCreate {
    WarmCreate {
        agent: Some(agent.to_owned()),
        model: create.model.clone(),
        cwd: create.cwd.clone(),
        env: create.env.clone(),
        permissions: create.permissions.clone(),
    }
}

pub async fn create(call: Call) -> CallResult {
    let wanted: WarmCreate = call.json()?;
    let sandbox = call.sandbox().await?;
    let create = TaskCreate {
        // Never sent: the task that adopts the agent brings its own.
        prompt: "later".to_owned(),
        agent: wanted.agent.clone(),
        model: wanted.model.clone(),
        cwd: wanted.cwd.clone(),
        env: wanted.env.clone(),
        permissions: wanted.permissions.clone(),
        ..TaskCreate::default()
    };
    let agents = &call.api.agents;
    let choice = task_agent::choose(&create, agents.table())?;
    if choice.entry.speaks != AgentProtocol::Acp {
        let message =
            format!("the agent {} cannot be started before its task: it does not speak acp", choice.name);
        return Err(CallError::invalid("agent", message));
    }
    let spec = warm_spec(choice.name, &create);
    if let Some((name, answer)) = call.api.warm_agents.find(&sandbox, Some(&spec), call.api.now_ms()) {
        let (_, control) = call.control_of(&sandbox.id).await?;
        if let Some(view) = fetch_view(&control, &name).await? {
            return Ok(json(StatusCode::ACCEPTED, &WarmAnswer { ready: view.ready, ..answer }));
        }
    }
    let model = model_connection::grant_model(&call, &create, choice, &sandbox).await?;
    let context = TaskContext {
        choice,
        connection: model.as_ref().map(|(connection, _)| connection),
        agents,
        briefing: briefing_context(&create, &sandbox, &call.api.settings.previews),
        sandbox_env: &sandbox.env.0.all,
    };
    let placeholder = TaskId::parse("warm").map_err(|error| CallError::internal(&error))?;
    let request = task_request::request(&create, placeholder, &context)?;
    let (sandbox, control) = call.control_of(&sandbox.id).await?;
    let agent = locate_agent(&control, agents, choice.name, &request.agent).await?;
    let agent = agent.map_err(|message| CallError::new(ApiErrorCode::Unsupported, message))?;
    let warm = WarmRequest { agent, env: request.env, cwd: request.cwd, keep_ms: KEEP_MS };
    let name = new_id();
    let path = relay::runtimed_path(&["warm", &name]);
    let (_, view) = control.json::<WarmView>(Method::PUT, &path, Some(&warm), CONTROL_TIMEOUT).await?;
    let now_ms = call.api.now_ms();
    let warm = WarmAgent { name, spec, attempt: sandbox.attempt, until_ms: now_ms + KEEP_MS, model };
    let answer = WarmAnswer { ready: view.ready, ..warm.view(now_ms) };
    call.api.warm_agents.put(sandbox.id, warm, now_ms);
    Ok(json(StatusCode::ACCEPTED, &answer))
}

/// The agent that waits for its task. Not found where there is none, or it has ended.
pub async fn get(call: Call) -> CallResult {
    let sandbox = call.sandbox().await?;
    let none = || {
        let message = "no warm agent in this sandbox: none was started, or it has a task, or has ended; \
            POST to the same path starts one";
        CallError::new(ApiErrorCode::NotFound, message)
    };
    let there = call.api.warm_agents.find(&sandbox, None, call.api.now_ms());
    let (name, answer) = there.ok_or_else(none)?;
    let (_, control) = call.control_of(&sandbox.id).await?;
    let view = fetch_view(&control, &name).await?.ok_or_else(none)?;
    Ok(ok(&WarmAnswer { ready: view.ready, ..answer }))
}

/// The agent as runtimed reports it; `None` when it has ended.
async fn fetch_view(control: &Control, name: &str) -> Result<Option<WarmView>, CallError> {
    match control.get::<WarmView>(&relay::runtimed_path(&["warm", name]), CONTROL_TIMEOUT).await {
        Ok(view) => Ok(Some(view)),
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
