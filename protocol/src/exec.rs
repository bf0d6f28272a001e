//! Execs: one command each, with a log that outlives the caller. A terminal is an exec with a `tty`.

use crate::ExecId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub type EnvMap = BTreeMap<String, String>;

/// What to run. Exactly one of `argv` and `shell` is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRequest {
    /// Chosen by the caller; made up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// A line for `bash -c`, or `sh -c` where the image has no bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Absolute, or relative to the app directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: EnvMap,
    /// Bytes for standard input, as text; end of file follows unless `stdin_open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Keep standard input open for `POST …/stdin`. Without it and `stdin`, input is /dev/null.
    #[serde(default)]
    pub stdin_open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Run on a pseudo-terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtySize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TtySize {
    pub cols: u16,
    pub rows: u16,
}

pub type Resize = TtySize;

/// Every way a process can end.
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
    /// The leader was killed by the kernel because the sandbox ran out of memory.
    Oom,
    TimedOut,
    Cancelled,
    SpawnFailed {
        message: String,
    },
    /// The sandbox, or the shim of the job, died under it.
    Lost,
}

/// Something that was seen beside the true exit; never a guess in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Hint {
    /// A process could not be created because the limit of processes was hit, so many times.
    PidsLimit { times: u64 },
    /// The kernel killed so many processes of the sandbox for memory while this ran.
    OomKills { times: u64 },
    /// The file system of the workspace is full.
    DiskFull,
    /// Output that could not be written to the log.
    OutputLost { bytes: u64 },
    /// Someone kept the output open after the leader had ended.
    Leaky,
    /// Processes that did not die within the bound after SIGKILL.
    Unkillable { processes: u32 },
    /// The shim of the job died, so its end was not seen.
    ShimDied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    Running,
    Ended,
}

/// An exec as a caller sees it. `stdout` and `stderr` are there when output was asked for.
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
    /// Where the output log starts now (later than 0 when it was trimmed), and where it ended.
    pub output_oldest: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_end: Option<u64>,
    /// Processes that live on after the leader ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<crate::Process>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<crate::Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<crate::Payload>,
    /// Whether `stdout` or `stderr` is not all there was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Who gets a signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignalScope {
    Leader,
    /// The leader's process group: what a terminal's Ctrl-C reaches.
    #[default]
    Group,
    /// Every descendant.
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
    /// How long the tree may take after SIGTERM before SIGKILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}
