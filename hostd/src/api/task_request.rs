//! Builds the request of a task to runtimed. Validated here as runtimed would, because afterwards the id is
//! taken.

use super::{error::CallError, task_agent::ChosenAgent};
use crate::agents::{
    Agents, BriefingContext, COMMAND, Invocation, InvocationRequest, ModelAccess, invocation,
};
use protocol::{Agent, BuildSpec, EnvMap, TaskId, TaskRequest, api::TaskCreate, limits, validate};
use sha2::{Digest, Sha256};

pub const TIMEOUT_MAX_S: f64 = 86_400.0;

/// Facts about agent, model and sandbox that the request is built from, beside the caller's spec.
pub struct TaskContext<'a> {
    pub choice: ChosenAgent<'a>,
    pub connection: Option<&'a ModelAccess>,
    pub agents: &'a Agents,
    pub briefing: BriefingContext<'a>,
    pub sandbox_env: &'a EnvMap,
}

pub fn request(create: &TaskCreate, id: TaskId, context: &TaskContext<'_>) -> Result<TaskRequest, CallError> {
    validate::text("prompt", &create.prompt, limits::PROMPT_MAX_BYTES)?;
    if let Some(cwd) = &create.cwd {
        validate::text("cwd", cwd, limits::PATH_MAX_BYTES)?;
        if cwd.is_empty() {
            return Err(CallError::invalid("cwd", "must be a path"));
        }
    }
    if let Some(build) = &create.build {
        validate::text("build", build, limits::ARG_MAX_BYTES)?;
    }
    let sandbox_env = context.sandbox_env;
    let Invocation { agent, env, enforced_env } = agent_launch(create, context);
    // Variables that lead to the model, or set who grants permissions, are fixed; the caller may override the
    // others.
    let env: EnvMap =
        env.into_iter().chain(sandbox_env.clone()).chain(create.env.clone()).chain(enforced_env).collect();
    check_total_size(create, &env)?;
    Ok(TaskRequest {
        id: Some(id),
        prompt: create.prompt.clone(),
        agent,
        env,
        cwd: create.cwd.clone(),
        timeout_ms: create.timeout_s.map(|s| timeout_ms("timeout_s", s)).transpose()?,
        idle_timeout_ms: create.idle_timeout_s.map(|s| timeout_ms("idle_timeout_s", s)).transpose()?,
        keep_processes: create.keep_processes,
        warm: None,
        session: create.session.clone(),
        build: create.build.clone().map(|command| BuildSpec { command, timeout_ms: None }),
        health_timeout_ms: None,
    })
}

fn agent_launch(create: &TaskCreate, context: &TaskContext<'_>) -> Invocation {
    let ChosenAgent { name, entry } = context.choice;
    if name == COMMAND {
        let agent = Agent::Command { argv: create.command.clone().unwrap_or_default() };
        return Invocation { agent, env: EnvMap::new(), enforced_env: EnvMap::new() };
    }
    let usual = || context.agents.briefing().render(&context.briefing);
    let briefing = create.briefing.clone().unwrap_or_else(usual);
    let wish = InvocationRequest {
        program: context.agents.program(entry),
        connection: context.connection,
        model: create.model.as_deref().filter(|_| entry.dialects.is_empty()),
        briefing: Some(briefing).filter(|text| !text.is_empty()),
        continues: create.continues.unwrap_or(false),
        permissions: create.permissions.clone().unwrap_or_default(),
    };
    invocation(name, entry, wish)
}

/// Checks each variable, and the total size of arguments, environment and prompt.
fn check_total_size(create: &TaskCreate, env: &EnvMap) -> Result<(), CallError> {
    validate::env(env)?;
    let command = create.command.as_deref().unwrap_or_default();
    let bytes = validate::argv_env_bytes(command, env) + create.prompt.len();
    Ok(validate::argv_env_size("command", "command, env and prompt", bytes)?)
}

fn timeout_ms(field: &str, seconds: f64) -> Result<u64, CallError> {
    if seconds > 0.0 && seconds <= TIMEOUT_MAX_S {
        // At least one: a timeout of 0 would mean none.
        return Ok(((seconds * 1000.0) as u64).max(1));
    }
    Err(CallError::invalid(field, format!("must be more than 0 and at most {TIMEOUT_MAX_S} seconds")))
}

/// Hash that tells a repeated request from a different one with the same id. The id does not count.
pub fn hash(create: &TaskCreate) -> [u8; 32] {
    let create = TaskCreate { id: None, ..create.clone() };
    Sha256::digest(serde_json::to_vec(&create).unwrap_or_default()).into()
}

#[cfg(test)]
#[path = "task_request_tests.rs"]
mod tests;
