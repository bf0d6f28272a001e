//! Execs: commands in a sandbox, each with a log that outlives the client. A terminal is an exec with a `tty`.

use crate::ExecId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub type EnvMap = BTreeMap<String, String>;

/// A command to run. Exactly one of `argv` and `shell` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Chosen by the client; generated when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Command line for `bash -c`, or `sh -c` where the image has no bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Working directory, absolute or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: EnvMap,
    /// Text for standard input; end of file follows unless `stdin_open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Keeps standard input open for `POST …/stdin`. Without it and `stdin`, standard input is /dev/null.
    #[serde(default)]
    pub stdin_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Runs the command on a pseudo-terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtySize>,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TtySize {
    pub cols: u16,
    pub rows: u16,
}

pub type Resize = TtySize;

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exit {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// The kernel's OOM killer ended the leader.
    Oom,
    TimedOut,
    Cancelled,
    SpawnFailed {
        message: String,
    },
    /// The sandbox, or the shim of the job, died first, so that the end was not observed.
    Lost,
}

/// An observation beside the exit status. Hints never replace the status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hint {
    /// The process limit was hit this many times.
    PidsLimit { times: u64 },
    /// The OOM killer ended this many processes of the sandbox meanwhile.
    OomKills { times: u64 },
    /// The file system of the workspace is full.
    DiskFull,
    /// Bytes of output that could not be written to the log.
    OutputLost { bytes: u64 },
    /// A process kept the output open after the leader had ended.
    Leaky,
    /// Processes that survived SIGKILL longer than the time limit.
    Unkillable { processes: u32 },
    /// The shim of the job died, so its end was not observed.
    ShimDied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    Running,
    Ended,
}

/// An exec. `stdout` and `stderr` are present when output was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecView {
    pub id: ExecId,
    pub state: ExecState,
    pub argv: Vec<String>,
    pub cwd: String,
    pub tty: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    pub started_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
    /// Start of the output log (above 0 when it was trimmed).
    pub output_oldest: u64,
    /// End of the output log, once the exec has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_end: Option<u64>,
    /// Processes that still run after the leader ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<crate::Process>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<crate::Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<crate::Payload>,
    /// Whether `stdout` or `stderr` is incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Processes that receive a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    Leader,
    /// The leader's process group, as Ctrl-C on a terminal.
    #[default]
    Group,
    /// The leader and every descendant.
    Tree,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignalRequest {
    /// `TERM`, `SIGTERM` or `15`.
    pub signal: String,
    #[serde(default)]
    pub scope: SignalScope,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelRequest {
    /// Milliseconds between SIGTERM and SIGKILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}
