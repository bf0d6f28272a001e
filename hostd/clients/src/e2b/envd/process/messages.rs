//! Messages of `process.Process`. Names are those of the JSON form; the names of the fields are understood, too.

use crate::e2b::envd::wire::{WireBytes, WireU32};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Empty {}

#[derive(Debug, Clone, Copy, Deserialize)]
pub struct ListRequest {}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessConfig {
    pub cmd: String,
    pub args: Vec<String>,
    pub envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Pty {
    pub size: Option<PtySize>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct PtySize {
    pub cols: WireU32,
    pub rows: WireU32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StartRequest {
    pub process: Option<ProcessConfig>,
    pub pty: Option<Pty>,
    pub tag: Option<String>,
    /// Whether standard input is open; clients that do not say so expect it.
    pub stdin: Option<bool>,
}

/// A process, by its pid or its tag.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Selector {
    pub pid: Option<WireU32>,
    pub tag: Option<String>,
}

/// A request that has a process and nothing else.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct OfProcess {
    pub process: Option<Selector>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct UpdateRequest {
    pub process: Option<Selector>,
    pub pty: Option<Pty>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Input {
    pub stdin: Option<WireBytes>,
    pub pty: Option<WireBytes>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SendInputRequest {
    pub process: Option<Selector>,
    pub input: Option<Input>,
}

/// A message of a stream of input: the process first, then input.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StreamInputRequest {
    pub start: Option<OfProcess>,
    pub data: Option<InputData>,
    pub keepalive: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct InputData {
    pub input: Option<Input>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SendSignalRequest {
    pub process: Option<Selector>,
    pub signal: Option<Signal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Signal {
    Named(SignalName),
    Number(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum SignalName {
    #[serde(rename = "SIGNAL_UNSPECIFIED")]
    Unspecified,
    #[serde(rename = "SIGNAL_SIGTERM")]
    Term,
    #[serde(rename = "SIGNAL_SIGKILL")]
    Kill,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessList {
    pub processes: Vec<ProcessInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    pub config: ProcessConfig,
    pub pid: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}
