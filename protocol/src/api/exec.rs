//! Execs on the public API.

use crate::{EnvMap, ExecId, ExecState, Exit, Hint, TtySize};
use serde::{Deserialize, Serialize};

/// A command to run: `POST …/execs`. Exactly one of `argv` and `shell` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ExecCreate {
    /// Id of the exec, chosen by the client; made up when absent. A request repeated with the same id runs the command
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecId>,
    /// Program and arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Command line for `bash -c`, or `sh -c` where the image has no bash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Working directory, absolute or relative to the app directory, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables, added to those of the sandbox and overriding them.
    #[serde(skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    /// Text for standard input; end of file follows unless `stdin_open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Keeps standard input open for `POST …/stdin`. Without it and `stdin`, standard input is /dev/null.
    pub stdin_open: bool,
    /// Seconds after which the command, and everything it started, is killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Runs the command on a pseudo-terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtyChoice>,
    /// Whether the response waits for the end of the command, at most 30 minutes. Default: true, on a terminal false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

/// `true` for a terminal of 80 by 24, or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TtyChoice {
    Default(bool),
    Size(TtySize),
}

/// An exec. `stdout` and `stderr` are present when the response waited for the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecAnswer {
    pub id: ExecId,
    pub state: ExecState,
    pub argv: Vec<String>,
    pub cwd: String,
    pub tty: bool,
    /// The pid of the command inside the sandbox, also after its end, until the sandbox is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// `base64` when `stdout` or `stderr` is not UTF-8; both are encoded then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Whether `stdout` or `stderr` is incomplete; `GET …/execs/{exec}/output` has everything that is kept.
    #[serde(default)]
    pub truncated: bool,
    #[serde(default)]
    pub hints: Vec<Hint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    pub started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}
