//! Runs a command and returns its output as text. A failing command is 200; a sandbox that cannot run it is an error.

use super::{
    super::{
        call::Call,
        error::{CallError, CallResult},
        execs,
        views::ok,
    },
    exec_stream,
    request::OlderExec,
    sandboxes::existing_sandbox,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{
    Exit,
    api::{ApiErrorCode, ExecAnswer, ExecCreate},
};
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub struct OlderOutput {
    /// Bytes that are not UTF-8 are replaced: this route has no encoding for them.
    pub stdout: String,
    pub stderr: String,
    pub exit_code: i32,
    /// There was more output than is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

pub async fn exec(call: Call) -> CallResult {
    existing_sandbox(&call).await?;
    let OlderExec { cmd, stream } = call.json()?;
    if cmd.first().is_none_or(String::is_empty) {
        return Err(CallError::invalid("cmd", "give the program and its arguments"));
    }
    let create = ExecCreate { argv: Some(cmd), wait: Some(!stream), ..ExecCreate::default() };
    let answer = execs::run_or_find(&call, create).await?;
    if stream { exec_stream::stream(&call, &answer.id).await } else { output(answer) }
}

fn output(answer: ExecAnswer) -> CallResult {
    let late =
        || CallError::new(ApiErrorCode::TimedOut, "the command still runs; this route does not wait longer");
    let exit_code = exit_code(answer.exit.as_ref().ok_or_else(late)?)?;
    let base64 = answer.encoding.is_some();
    let text = |output: Option<String>| {
        let output = output.unwrap_or_default();
        if !base64 {
            return output;
        }
        String::from_utf8_lossy(&BASE64_STANDARD.decode(&output).unwrap_or_default()).into_owned()
    };
    let mut stderr = text(answer.stderr);
    if let Some(Exit::SpawnFailed { message }) = &answer.exit {
        stderr.push_str(message);
    }
    Ok(ok(&OlderOutput { stdout: text(answer.stdout), stderr, exit_code, truncated: answer.truncated }))
}

/// The exit code that a shell reports.
pub fn exit_code(exit: &Exit) -> Result<i32, CallError> {
    match exit {
        Exit::Exited { code } => Ok(*code),
        Exit::Signalled { signal } => Ok(128 + signal),
        Exit::Oom | Exit::Cancelled => Ok(137),
        Exit::TimedOut => Ok(124),
        Exit::SpawnFailed { .. } => Ok(127),
        Exit::Lost => {
            Err(CallError::new(ApiErrorCode::SandboxFailed, "the sandbox died while the command ran"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_the_code_that_a_shell_reports() {
        let table = [
            (Exit::Exited { code: 3 }, Some(3)),
            (Exit::Signalled { signal: 9 }, Some(137)),
            (Exit::Oom, Some(137)),
            (Exit::TimedOut, Some(124)),
            (Exit::Cancelled, Some(137)),
            (Exit::SpawnFailed { message: "no such file".into() }, Some(127)),
            (Exit::Lost, None),
        ];
        for (exit, expected) in table {
            assert_eq!(exit_code(&exit).ok(), expected, "{exit:?}");
        }
    }
}
