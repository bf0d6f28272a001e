//! Sessions of a shell: the working directory and the variables of one command are those of the next.

use super::{
    super::{SandboxResult, error::SandboxError},
    ExecdCall, command, events,
    place::in_app_dir,
};
use crate::{
    ApiFailure,
    command_stream::CommandStream,
    respond,
    shell_session::{SessionCommand, SessionDirectory, SessionName, SessionStart},
};
use hyper::StatusCode;
use protocol::{
    EnvMap,
    api::{ApiErrorCode, ExecCreate},
};
use serde::Deserialize;
use serde_json::json;

#[derive(Debug, Default, Deserialize)]
pub struct CreateBody {
    #[serde(default)]
    cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct RunBody {
    command: String,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    timeout: u64,
}

pub async fn create(call: &ExecdCall, body: CreateBody) -> SandboxResult {
    let name = SessionName::generate();
    let start = SessionStart { cwd: body.cwd.map(directory), env: EnvMap::new() };
    name.create(&call.api, &call.id, &start).await?;
    Ok(respond::json(StatusCode::OK, &json!({"session_id": name.as_str()})))
}

pub async fn run(call: &ExecdCall, name: &str, body: RunBody) -> SandboxResult {
    let name = parse(name)?;
    name.check(&call.api, &call.id).await.map_err(unknown)?;
    let cwd = body.cwd.map(directory);
    let create = ExecCreate {
        argv: Some(name.argv(cwd, SessionCommand::Script(body.command))),
        env: command::with_env_file(EnvMap::new()),
        timeout_s: command::timeout_s(body.timeout)?,
        ..ExecCreate::default()
    };
    Ok(events::follow(CommandStream::start(call.api.clone(), &call.id, create).await?))
}

pub async fn delete(call: &ExecdCall, name: &str) -> SandboxResult {
    parse(name)?.delete(&call.api, &call.id).await.map_err(unknown)?;
    Ok(respond::empty(StatusCode::OK))
}

fn directory(path: String) -> SessionDirectory {
    SessionDirectory { path: in_app_dir(path), shown: None }
}

fn parse(name: &str) -> Result<SessionName, SandboxError> {
    SessionName::parse(name).map_err(|_| no_such_session())
}

fn unknown(failure: ApiFailure) -> SandboxError {
    let is_file = failure.error.code == ApiErrorCode::NotFound && failure.error.detail.missing.is_none();
    if is_file { no_such_session() } else { failure.into() }
}

fn no_such_session() -> SandboxError {
    SandboxError::new(StatusCode::NOT_FOUND, "SESSION_NOT_FOUND", "no session with this id")
}
