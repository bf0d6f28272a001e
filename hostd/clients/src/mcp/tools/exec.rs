//! The tool that runs commands.

use super::{
    args::UlidText,
    registry::{Effect, ToolEntry, Words},
    result::{Outcome, ToolAnswer, ToolFailure, done, middle_cut, result},
};
use crate::mcp::{call::Call, cancel::cancel_path, event_id::Work, limits};
use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{
    EnvMap, ExecId, Exit,
    api::{ExecAnswer, ExecCreate, SandboxId},
};
use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub fn tools() -> Vec<ToolEntry> {
    vec![ToolEntry::new(EXEC, Effect::Changes, exec)]
}

const EXEC: Words = Words {
    name: "exec",
    title: "Run a command",
    description: "Runs a shell command in a sandbox and returns its exit code and output. Waits for its end, at most \
        timeout_s seconds; then the command and all it started are killed. With background: true it returns at once with \
        an exec_id, for servers and long jobs; the tool logs reads their output. Commands start in the app directory \
        /home/sandbox/workspace/app, and each in a new shell: `cd` and variables do not last.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExecArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Shell command line, for bash where the image has it.
    #[schemars(length(min = 1, max = 100_000))]
    command: String,
    /// Working directory, absolute or relative to the app directory.
    #[schemars(length(min = 1, max = 4095))]
    cwd: Option<String>,
    /// Environment variables for this command.
    #[serde(default)]
    env: EnvMap,
    /// Text for its standard input.
    #[schemars(length(max = 1_000_000))]
    stdin: Option<String>,
    /// Seconds after which it is killed; default 600. No limit in the background, unless given.
    #[schemars(range(min = 0.1, max = 86_400.0))]
    timeout_s: Option<f64>,
    /// Whether to return at once, while it runs.
    #[serde(default)]
    background: bool,
}

async fn exec(call: Call, args: ExecArgs) -> ToolAnswer {
    let work = call.work_id();
    let id = ExecId::parse(&work).map_err(|error| ToolFailure::invalid(error.to_string()))?;
    let timeout_s = args.timeout_s.or((!args.background).then_some(limits::EXEC_TIMEOUT_S));
    let create = ExecCreate {
        id: Some(id),
        shell: Some(args.command),
        cwd: args.cwd,
        env: args.env,
        stdin: args.stdin,
        timeout_s,
        wait: Some(false),
        ..ExecCreate::default()
    };
    let path = format!("/v1/sandboxes/{}/execs", args.sandbox);
    let starting = call.clients.mcp.starting.begin(&work);
    let exec: ExecAnswer = call.api.post(&path, &create).await?;
    if starting.finish() {
        cancel_path(&call.api, &format!("{path}/{}", exec.id)).await;
    }
    if args.background {
        let text =
            format!("started in the background; read its output with the tool logs, exec_id {}", exec.id);
        return Ok(done(text, json!({"exec_id": exec.id, "state": exec.state})));
    }
    Ok(Outcome::Follow(Work::Exec(args.sandbox, exec.id), 0))
}

/// The result of a command that has ended.
pub fn exec_result(exec: &ExecAnswer) -> CallToolResult {
    let exit = exec.exit.clone().unwrap_or(Exit::Lost);
    let (stdout, short_stdout) = output(exec.stdout.as_deref(), exec.encoding.as_deref());
    let (stderr, short_stderr) = output(exec.stderr.as_deref(), exec.encoding.as_deref());
    let truncated = exec.truncated || short_stdout || short_stderr;
    let mut text = stdout.clone();
    if !stderr.is_empty() {
        let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        text.push_str(&format!("{line}[stderr]\n{stderr}"));
    }
    let line = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    text.push_str(&format!("{line}[{}]", exit_text(&exit)));
    if truncated {
        text.push_str(&format!(
            "\n[the output is incomplete; the tool logs has all of it, exec_id {}]",
            exec.id
        ));
    }
    let structure = json!({
        "exec_id": exec.id, "exit": exit, "exit_code": exit_code(&exit), "stdout": stdout, "stderr": stderr,
        "truncated": truncated, "duration_ms": exec.duration_ms, "hints": exec.hints,
    });
    result(text, structure, !matches!(exit, Exit::Exited { .. }))
}

/// Returns output as text, cut where it is long, and whether it was.
fn output(data: Option<&str>, encoding: Option<&str>) -> (String, bool) {
    let Some(data) = data else { return (String::new(), false) };
    let decoded = encoding.and_then(|_| BASE64_STANDARD.decode(data).ok());
    let text = decoded.map_or_else(|| data.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned());
    middle_cut(&text, limits::OUTPUT_MAX_CHARS)
}

fn exit_text(exit: &Exit) -> String {
    match exit {
        Exit::Exited { code } => format!("exit code {code}"),
        Exit::Signalled { signal } => format!("killed by signal {signal}"),
        Exit::Oom => "killed: the sandbox is out of memory".to_owned(),
        Exit::TimedOut => "killed: its time was up; raise timeout_s, or run it in the background".to_owned(),
        Exit::Cancelled => "cancelled".to_owned(),
        Exit::SpawnFailed { message } => format!("could not be started: {message}"),
        Exit::Lost => "lost: the sandbox stopped or died".to_owned(),
    }
}

fn exit_code(exit: &Exit) -> Value {
    match exit {
        Exit::Exited { code } => json!(code),
        Exit::Signalled { .. }
        | Exit::Oom
        | Exit::TimedOut
        | Exit::Cancelled
        | Exit::SpawnFailed { .. }
        | Exit::Lost => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_told_by_its_output_and_exit() {
        let with = |fields: Value| {
            let mut exec = json!({"id": "e", "state": "ended", "argv": ["sh"], "cwd": "", "tty": false,
                "truncated": false, "hints": [], "started_at": "t"});
            exec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let result = exec_result(&serde_json::from_value(exec).unwrap());
            let text = serde_json::to_value(&result.content[0]).unwrap()["text"].as_str().unwrap().to_owned();
            (text, result.is_error.unwrap())
        };
        let exited = json!({"kind": "exited", "code": 1});
        let table = [
            (json!({"exit": exited, "stdout": "a", "stderr": ""}), "a\n[exit code 1]", false),
            (json!({"exit": exited, "stdout": "a\n", "stderr": "b"}), "a\n[stderr]\nb\n[exit code 1]", false),
            (
                json!({"exit": exited, "stdout": "/w==", "encoding": "base64"}),
                "\u{fffd}\n[exit code 1]",
                false,
            ),
            (json!({"exit": {"kind": "cancelled"}}), "[cancelled]", true),
            (json!({}), "[lost: the sandbox stopped or died]", true),
        ];
        for (fields, text, is_error) in table {
            assert_eq!(with(fields), (text.to_owned(), is_error));
        }
    }
}
