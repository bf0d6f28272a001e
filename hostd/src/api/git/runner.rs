//! Runs git in a sandbox: as its user, in a directory of the caller's choice, with a fixed environment.

use super::{
    super::{
        call::Call,
        dispatch::new_id,
        error::CallError,
        exec_run::{self, ExecOutcome},
    },
    problem::{explain, failed},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use hostd_drivers::control::Control;
use hostd_store::SandboxRecord;
use protocol::{
    Encoding, ExecId, ExecRequest, Exit, Payload,
    api::{ApiErrorCode, GIT_PATH_MAX_BYTES, GitReason},
    validate,
};
use std::sync::Arc;

/// How long a local verb may take, and one with a server.
pub const LOCAL_MAX_MS: u64 = 60_000;
pub const NETWORK_MAX_MS: u64 = 900_000;

/// Before every verb. Nothing that the repository configures runs: no hook, no monitor of files, no pager.
const PROTECTED: [&str; 15] = [
    "git",
    "--no-pager",
    "--no-optional-locks",
    "--literal-pathspecs",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "log.showSignature=false",
    "-c",
    "gc.auto=0",
    "-c",
    "core.quotePath=false",
    "--no-replace-objects",
];

const ENVIRONMENT: [(&str, &str); 11] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "/bin/false"),
    ("GIT_PROXY_COMMAND", ""),
    // A repository may lack objects and configure a program that brings them.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("no_proxy", "*"),
    ("NO_PROXY", "*"),
];

/// Runs git in one sandbox and directory.
pub struct GitRunner<'a> {
    call: &'a Call,
    pub sandbox: Arc<SandboxRecord>,
    control: Control,
    dir: Option<String>,
}

/// One command.
#[derive(Default)]
pub struct GitCommand {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub stdin: Option<String>,
    pub within_ms: u64,
}

pub struct GitOutput {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub truncated: bool,
}

impl GitCommand {
    /// A verb of git with its arguments.
    pub fn local(args: &[&str]) -> Self {
        let argv = PROTECTED.iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        // No transport has this name: a local verb speaks to no server.
        Self { argv, within_ms: LOCAL_MAX_MS, ..Self::default() }.with_env("GIT_ALLOW_PROTOCOL", "none")
    }

    /// A script for `sh`, with its arguments.
    pub fn network(script: &str, args: &[&str]) -> Self {
        let argv =
            ["sh", "-c", script, "slipway-git"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
        Self { argv, within_ms: NETWORK_MAX_MS, ..Self::default() }
    }

    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl<'a> GitRunner<'a> {
    pub async fn new(call: &'a Call, dir: Option<&str>) -> Result<Self, CallError> {
        if dir.is_some_and(|dir| dir.is_empty() || dir.len() > GIT_PATH_MAX_BYTES || dir.contains('\0')) {
            return Err(CallError::invalid("dir", format!("must have 1 to {GIT_PATH_MAX_BYTES} bytes")));
        }
        let (sandbox, control) = call.control().await?;
        Ok(Self { call, sandbox, control, dir: dir.map(str::to_owned) })
    }

    /// Runs a command and returns its output, whatever its exit code.
    pub async fn run(&self, command: GitCommand) -> Result<GitOutput, CallError> {
        let environment = ENVIRONMENT.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let request = ExecRequest {
            id: ExecId::parse(&format!("git-{}", new_id())).ok(),
            argv: Some(command.argv),
            shell: None,
            cwd: self.dir.clone(),
            env: environment.chain(command.env).collect(),
            stdin: command.stdin,
            stdin_open: false,
            timeout_ms: Some(command.within_ms),
            tty: None,
        };
        validate::exec_request(&request)?;
        let wait_ms = Some(command.within_ms);
        let (api, control) = (&self.call.api, self.control.clone());
        let view = match exec_run::run(api, &self.sandbox.id, control, &request, wait_ms).await? {
            ExecOutcome::Reported(view) => view,
            ExecOutcome::Paused | ExecOutcome::SandboxDown => {
                return Err(CallError::new(ApiErrorCode::NotRunning, "the sandbox stopped while git ran"));
            }
        };
        let code = exit_code(view.exit.as_ref(), command.within_ms)?;
        let stdout = view.stdout.map(bytes_of).unwrap_or_default();
        let stderr = view.stderr.map(bytes_of).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ok(GitOutput { code, stdout, stderr, truncated: view.truncated })
    }

    /// Runs a command that must succeed.
    pub async fn succeed(&self, command: GitCommand) -> Result<GitOutput, CallError> {
        let output = self.run(command).await?;
        if output.code == 0 { Ok(output) } else { Err(explain(&output)) }
    }

    /// Runs a verb that prints one line, or fails because there is none.
    pub async fn line(&self, args: &[&str]) -> Result<Option<String>, CallError> {
        let output = self.run(GitCommand::local(args)).await?;
        match output.code {
            0 => Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end_matches(['\n', '\0']).to_owned())),
            1 => Ok(None),
            _ => Err(explain(&output)),
        }
    }
}

fn exit_code(exit: Option<&Exit>, within_ms: u64) -> Result<i32, CallError> {
    match exit {
        Some(Exit::Exited { code }) => Ok(*code),
        Some(Exit::SpawnFailed { message }) => {
            let message = format!("git could not be started in the sandbox: {message}");
            Err(failed(GitReason::NoGit, message))
        }
        Some(Exit::TimedOut) | None => {
            let message = format!("git timed out after {} s; repeat with fewer paths", within_ms / 1_000);
            Err(failed(GitReason::TimedOut, message))
        }
        Some(Exit::Signalled { signal }) => Err(killed(&format!("signal {signal}"))),
        Some(Exit::Oom) => Err(killed("out of memory")),
        Some(Exit::Cancelled) => Err(killed("cancelled")),
        Some(Exit::Lost) => Err(killed("the sandbox died")),
    }
}

fn killed(exit: &str) -> CallError {
    failed(GitReason::Refused, format!("git was killed ({exit}); repeat the request"))
}

fn bytes_of(payload: Payload) -> Vec<u8> {
    match payload.encoding {
        Encoding::Utf8 => payload.data.into_bytes(),
        Encoding::Base64 => BASE64_STANDARD.decode(payload.data).unwrap_or_default(),
    }
}
