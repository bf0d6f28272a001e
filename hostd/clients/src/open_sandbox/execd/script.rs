//! Small shell scripts that do what the files API does not: they see the whole sandbox, as its user does.

use super::{
    super::{error::SandboxError, limits},
    ExecdCall,
};
use crate::command_stream::{CommandStream, ExitStatus};
use hyper::StatusCode;
use protocol::api::ExecCreate;

/// The exit status of a script that did not find the path it printed.
pub const NOT_FOUND: i32 = 44;
/// The exit status of a script that found something of another kind at the path it printed.
pub const WRONG_KIND: i32 = 45;

/// Runs a script with these arguments, and returns what it printed.
pub async fn run(call: &ExecdCall, script: &str, arguments: Vec<String>) -> Result<Vec<u8>, SandboxError> {
    let command = CommandStream::start(call.api.clone(), &call.id, create(script, arguments)).await?;
    let ended = command.collect(limits::LISTING_MAX_BYTES).await?;
    let stdout = ended.stdout.to_vec();
    match ExitStatus::from(&ended.exit) {
        ExitStatus::Code(0) => Ok(stdout),
        ExitStatus::Code(NOT_FOUND) => Err(not_found(&String::from_utf8_lossy(&stdout))),
        ExitStatus::Code(WRONG_KIND) => {
            let path = String::from_utf8_lossy(&stdout).into_owned();
            Err(SandboxError::invalid(format!("{path} is of another kind: a file, or a directory")))
        }
        ExitStatus::Code(code) => {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            Err(failed(if said.is_empty() { format!("exit status {code}") } else { said }))
        }
        ExitStatus::NotStarted { message, .. } => Err(failed(message)),
        ExitStatus::Lost => Err(failed("the sandbox stopped".to_owned())),
    }
}

pub fn create(script: &str, arguments: Vec<String>) -> ExecCreate {
    let shell = ["sh".to_owned(), "-c".to_owned(), script.to_owned(), "sh".to_owned()];
    let argv = shell.into_iter().chain(arguments).collect();
    ExecCreate { argv: Some(argv), timeout_s: Some(limits::FILES_TIMEOUT_S), ..ExecCreate::default() }
}

pub fn not_found(path: &str) -> SandboxError {
    let message = format!("no such file or directory: {path}");
    SandboxError::new(StatusCode::NOT_FOUND, "FILE_NOT_FOUND", message)
}

fn failed(message: String) -> SandboxError {
    SandboxError::new(StatusCode::INTERNAL_SERVER_ERROR, "RUNTIME_ERROR", message)
}
