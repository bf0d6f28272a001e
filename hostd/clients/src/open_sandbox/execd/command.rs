//! Commands: run to their end, or in the background with their state and output to ask for.

use super::{
    super::{SandboxResult, error::SandboxError, limits},
    ExecdCall, as_another_user, events,
    place::in_app_dir,
};
use crate::{
    command_stream::{CommandStream, ExitStatus},
    percent, respond,
};
use axum::{body::Body, response::Response};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use protocol::{
    CancelRequest, EnvMap, ExecId,
    api::{ExecAnswer, ExecCreate},
};
use serde::Deserialize;
use serde_json::{Value, json};

const CURSOR: HeaderName = HeaderName::from_static("execd-commands-tail-cursor");
const SANDBOX_UID: u32 = 1000;
/// The file of variables that `set_env` of the client writes, and each command has.
const ENV_FILE: (&str, &str) = ("EXECD_ENVS", "/home/sandbox/.local/state/slipway/execd.env");
/// Reads that file.
const PROLOGUE: &str = "if [ -r \"$EXECD_ENVS\" ]; then set -a; . \"$EXECD_ENVS\"; set +a; fi\n";

#[derive(Debug, Default, Deserialize)]
pub struct RunBody {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    background: bool,
    /// Milliseconds; none where it is 0.
    #[serde(default)]
    timeout: u64,
    #[serde(default)]
    uid: Option<u32>,
    #[serde(default)]
    gid: Option<u32>,
    #[serde(default)]
    envs: EnvMap,
}

pub async fn run(call: &ExecdCall, body: RunBody) -> SandboxResult {
    let background = body.background;
    let command = CommandStream::start(call.api.clone(), &call.id, create(body)?).await?;
    Ok(if background { events::begun(&command) } else { events::follow(command) })
}

fn create(body: RunBody) -> Result<ExecCreate, SandboxError> {
    if [body.uid, body.gid].into_iter().flatten().any(|id| id != SANDBOX_UID) {
        return Err(as_another_user());
    }
    let mut argv = vec!["sh".to_owned(), "-c".to_owned()];
    match (body.command, body.argv) {
        (Some(line), None) => argv.push(format!("{PROLOGUE}{line}")),
        (None, Some(program)) => {
            argv.extend([format!("{PROLOGUE}exec \"$@\""), "sh".to_owned()]);
            argv.extend(program);
        }
        (None, None) | (Some(_), Some(_)) => return Err(SandboxError::invalid("give command or argv")),
    }
    Ok(ExecCreate {
        argv: Some(argv),
        cwd: body.cwd.map(in_app_dir),
        env: with_env_file(body.envs),
        timeout_s: timeout_s(body.timeout)?,
        ..ExecCreate::default()
    })
}

pub fn with_env_file(mut env: EnvMap) -> EnvMap {
    env.entry(ENV_FILE.0.to_owned()).or_insert_with(|| ENV_FILE.1.to_owned());
    env
}

#[allow(clippy::cast_precision_loss)] // A timeout has far fewer digits.
pub fn timeout_s(ms: u64) -> Result<Option<f64>, SandboxError> {
    if ms > limits::TIMEOUT_MAX_MS {
        return Err(SandboxError::invalid(format!("timeout must be at most {}", limits::TIMEOUT_MAX_MS)));
    }
    Ok((ms > 0).then_some(ms as f64 / 1000.0))
}

pub async fn interrupt(call: &ExecdCall, query: Option<&str>) -> SandboxResult {
    let id = percent::value(query, "id").unwrap_or_default();
    let path = call.path(&format!("/execs/{}/cancel", exec_id(&id)?));
    let cancel = CancelRequest { grace_ms: Some(limits::INTERRUPT_GRACE_MS) };
    call.api.post::<_, Value>(&path, &cancel).await?;
    Ok(respond::empty(StatusCode::OK))
}

pub async fn status(call: &ExecdCall, exec: &str) -> SandboxResult {
    let exec: ExecAnswer = call.api.get(&call.path(&format!("/execs/{}", exec_id(exec)?))).await?;
    let mut status = json!({
        "id": exec.id,
        "content": content(&exec.argv),
        "running": exec.exit.is_none(),
        "started_at": exec.started_at,
    });
    if let Some(exit) = &exec.exit {
        let (code, error) = match ExitStatus::from(exit) {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::NotStarted { code, message } => (Some(code), Some(message)),
            ExitStatus::Lost => (None, Some("the sandbox stopped under the command".to_owned())),
        };
        status["exit_code"] = json!(code);
        status["finished_at"] = json!(exec.ended_at);
        if let Some(error) = error {
            status["error"] = json!(error);
        }
    }
    Ok(respond::json(StatusCode::OK, &status))
}

/// The command as its client gave it.
fn content(argv: &[String]) -> String {
    match argv {
        [_, _, script] => script.strip_prefix(PROLOGUE).unwrap_or(script).to_owned(),
        [_, _, _, _, program @ ..] => program.join(" "),
        other => other.join(" "),
    }
}

/// Returns the output after a position, which the header of an earlier response has.
pub async fn logs(call: &ExecdCall, exec: &str, query: Option<&str>) -> SandboxResult {
    let cursor = match percent::value(query, "cursor") {
        Some(text) => text.parse().map_err(|_| SandboxError::invalid("cursor must be a number"))?,
        None => 0,
    };
    let command = CommandStream::follow(call.api.clone(), &call.id, exec_id(exec)?, cursor);
    let (output, cursor) = command.read_now(limits::LOGS_MAX_BYTES).await?;
    let mut response = Response::new(Body::from(String::from_utf8_lossy(&output).into_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CURSOR, HeaderValue::from(cursor));
    Ok(response)
}

fn exec_id(text: &str) -> Result<ExecId, SandboxError> {
    let unknown = |_| SandboxError::new(StatusCode::NOT_FOUND, "NOT_FOUND", "no command with this id");
    ExecId::parse(text).map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: Value) -> RunBody {
        serde_json::from_value(text).expect("parsed")
    }

    #[test]
    fn a_command_becomes_one_of_the_api() {
        let line = json!({"command": "echo $A", "envs": {"A": "b"}, "timeout": 1500, "cwd": "/workspace/x", "uid": 1000});
        let made = create(body(line)).expect("good");
        assert_eq!(content(&made.argv.clone().expect("given")), "echo $A");
        assert_eq!(made.cwd.as_deref(), Some("/home/sandbox/workspace/app/x"));
        assert_eq!((made.timeout_s, made.env["A"].as_str()), (Some(1.5), "b"));
        let made = create(body(json!({"argv": ["ls", "-l"]}))).expect("good");
        assert_eq!(content(&made.argv.expect("given")), "ls -l");
        assert_eq!((made.timeout_s, made.env["EXECD_ENVS"].as_str()), (None, ENV_FILE.1));
        for (bad, status) in [
            (json!({}), 400),
            (json!({"command": "id", "argv": ["id"]}), 400),
            (json!({"command": "id", "uid": 0}), 403),
            (json!({"command": "id", "uid": 1000, "gid": 0}), 403),
            (json!({"command": "id", "timeout": 1u64 << 40}), 400),
        ] {
            let text = bad.to_string();
            assert_eq!(create(body(bad)).expect_err(&text).status.as_u16(), status, "{text}");
        }
    }
}
