//! Execs on the public API.

use crate::{EnvMap, ExecId, ExecState, Exit, Hint, TtySize};
use serde::{Deserialize, Serialize};

/// `POST …/execs`. Exactly one of `argv` and `shell`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ExecCreate {
    /// Chosen by the caller; repeating it never runs a command twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<ExecId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Keep the input open for `POST …/stdin`.
    pub stdin_open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<TtyChoice>,
    /// Wait for the end, at most 30 minutes; true unless given, false on a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<bool>,
}

/// `true`, or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TtyChoice {
    Default(bool),
    Size(TtySize),
}

/// An exec as its caller sees it. Output is there when the end was waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecAnswer {
    pub id: ExecId,
    pub state: ExecState,
    pub argv: Vec<String>,
    pub cwd: String,
    pub tty: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// `base64` when `stdout` or `stderr` is not UTF-8; both are then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
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
