//! What a caller asks for as what runtimed is told. Checked as runtimed would, because afterwards the id is
//! taken.

use super::failure::Failure;
use protocol::{
    Agent, BuildSpec, EnvMap, TaskId, TaskRequest,
    api::{ApiError, ApiErrorCode, TaskCreate},
    limits,
};
use sha2::{Digest, Sha256};

/// The agents there are.
const AGENTS: [&str; 1] = ["command"];
const TIMEOUT_MAX_S: f64 = 86_400.0;

pub fn request(create: &TaskCreate, id: TaskId, sandbox_env: &EnvMap) -> Result<TaskRequest, Failure> {
    fits("prompt", &create.prompt, limits::PROMPT_MAX_BYTES)?;
    if create.prompt.is_empty() && create.command.is_none() {
        return Err(Failure::invalid("prompt", "say what is to be done"));
    }
    if let Some(cwd) = &create.cwd {
        fits("cwd", cwd, limits::PATH_MAX_BYTES)?;
        if cwd.is_empty() {
            return Err(Failure::invalid("cwd", "must be a path"));
        }
    }
    if let Some(build) = &create.build {
        fits("build", build, limits::ARG_MAX_BYTES)?;
    }
    let mut env = sandbox_env.clone();
    env.extend(create.env.clone());
    fit_together(create, &env)?;
    Ok(TaskRequest {
        id: Some(id),
        prompt: create.prompt.clone(),
        agent: agent(create)?,
        env,
        cwd: create.cwd.clone(),
        timeout_ms: create.timeout_s.map(|s| timeout_ms("timeout_s", s)).transpose()?,
        idle_timeout_ms: create.idle_timeout_s.map(|s| timeout_ms("idle_timeout_s", s)).transpose()?,
        keep_processes: create.keep_processes,
        build: create.build.clone().map(|command| BuildSpec { command, timeout_ms: None }),
        health_timeout_ms: None,
    })
}

fn agent(create: &TaskCreate) -> Result<Agent, Failure> {
    let named = create.agent.as_deref().or(create.command.as_ref().map(|_| "command"));
    match named {
        Some("command") => {}
        Some(other) => return Err(unsupported(format!("there is no agent {other:?} here"))),
        None => return Err(unsupported("say which agent is to do it".to_owned())),
    }
    let argv = create.command.clone().unwrap_or_default();
    if argv.first().is_none_or(String::is_empty) {
        return Err(Failure::invalid("command", "give the program and its arguments"));
    }
    if argv.len() > limits::ARGV_MAX_COUNT {
        return Err(too_large("command", format!("has more than {} arguments", limits::ARGV_MAX_COUNT)));
    }
    for argument in &argv {
        fits("command", argument, limits::ARG_MAX_BYTES)?;
    }
    if create.model.is_some() {
        return Err(Failure::invalid("model", "the agent command has no model"));
    }
    if create.continues == Some(true) {
        return Err(Failure::invalid("continue", "the agent command has no sessions to go on with"));
    }
    Ok(Agent::Command { argv })
}

fn unsupported(message: String) -> Failure {
    let error = ApiError::new(ApiErrorCode::Unsupported, message);
    let with = error.with(|detail| {
        detail.field = Some("agent".to_owned());
        detail.supported = AGENTS.map(str::to_owned).to_vec();
    });
    with.into()
}

/// Each variable, and all that the program is started with.
fn fit_together(create: &TaskCreate, env: &EnvMap) -> Result<(), Failure> {
    if env.len() > limits::ENV_MAX_COUNT {
        return Err(too_large("env", format!("has more than {} variables", limits::ENV_MAX_COUNT)));
    }
    for (name, value) in env {
        let field = format!("env.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Failure::invalid(field, "a variable needs a name without = and NUL"));
        }
        fits(&field, value, limits::ARG_MAX_BYTES.saturating_sub(name.len() + 1))?;
    }
    let argv: usize = create.command.iter().flatten().map(|argument| argument.len() + 1).sum();
    let env: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if argv + env + create.prompt.len() > limits::ARGV_ENV_MAX_BYTES {
        let message = format!("command, env and prompt have more than {} bytes", limits::ARGV_ENV_MAX_BYTES);
        return Err(too_large("command", message));
    }
    Ok(())
}

fn fits(field: &str, text: &str, max_bytes: usize) -> Result<(), Failure> {
    if text.contains('\0') {
        return Err(Failure::invalid(field, "must not contain a NUL byte"));
    }
    if text.len() > max_bytes {
        return Err(too_large(field, format!("is longer than {max_bytes} bytes")));
    }
    Ok(())
}

fn too_large(field: &str, message: String) -> Failure {
    ApiError::new(ApiErrorCode::TooLarge, message).with(|detail| detail.field = Some(field.to_owned())).into()
}

fn timeout_ms(field: &str, seconds: f64) -> Result<u64, Failure> {
    if seconds > 0.0 && seconds <= TIMEOUT_MAX_S {
        // At least one: a timeout of nothing would mean none.
        return Ok(((seconds * 1000.0) as u64).max(1));
    }
    Err(Failure::invalid(field, format!("must be more than 0 and at most {TIMEOUT_MAX_S} seconds")))
}

/// Tells a repetition from another task. The id is what is compared by.
pub fn hash(create: &TaskCreate) -> [u8; 32] {
    let create = TaskCreate { id: None, ..create.clone() };
    Sha256::digest(serde_json::to_vec(&create).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create() -> TaskCreate {
        let command = Some(vec!["cat".to_owned()]);
        TaskCreate { prompt: "do it".to_owned(), command, ..TaskCreate::default() }
    }

    fn refused(change: impl FnOnce(&mut TaskCreate)) -> (ApiErrorCode, Option<String>) {
        let mut create = create();
        change(&mut create);
        let id = TaskId::parse("t").expect("a name");
        let failure = request(&create, id, &EnvMap::new()).expect_err("refused");
        (failure.error.code, failure.error.detail.field)
    }

    #[test]
    fn what_cannot_be_done_is_refused_by_name() {
        use ApiErrorCode::{InvalidRequest, TooLarge, Unsupported};
        type Change = fn(&mut TaskCreate);
        let table: [(ApiErrorCode, &str, Change); 13] = [
            (Unsupported, "agent", |create| create.agent = Some("mine".to_owned())),
            (Unsupported, "agent", |create| create.command = None),
            (InvalidRequest, "command", |create| create.command = Some(vec![])),
            (InvalidRequest, "command", |create| create.command = Some(vec!["a\0".to_owned()])),
            (InvalidRequest, "model", |create| create.model = Some("m".to_owned())),
            (InvalidRequest, "continue", |create| create.continues = Some(true)),
            (InvalidRequest, "timeout_s", |create| create.timeout_s = Some(f64::NAN)),
            (InvalidRequest, "idle_timeout_s", |create| create.idle_timeout_s = Some(-1.0)),
            (TooLarge, "command", |create| create.command = Some(vec!["x".repeat(200_000)])),
            (TooLarge, "command", |create| create.command = Some(vec!["x".repeat(100_000); 11])),
            (TooLarge, "command", |create| create.command = Some(vec!["x".to_owned(); 5000])),
            (InvalidRequest, "cwd", |create| create.cwd = Some(String::new())),
            (TooLarge, "prompt", |create| create.prompt = "x".repeat(limits::PROMPT_MAX_BYTES + 1)),
        ];
        for (code, field, change) in table {
            assert_eq!(refused(change), (code, Some(field.to_owned())), "{field}");
        }
    }

    #[test]
    fn the_environment_of_the_sandbox_is_there_and_that_of_the_task_wins() {
        let sandbox = EnvMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "1".to_owned())]);
        let create = TaskCreate { env: EnvMap::from([("B".to_owned(), "2".to_owned())]), ..create() };
        let told = request(&create, TaskId::parse("t").expect("a name"), &sandbox).expect("good");
        assert_eq!((told.env["A"].as_str(), told.env["B"].as_str()), ("1", "2"));
        assert_eq!(told.agent, Agent::Command { argv: vec!["cat".to_owned()] });
    }
}
