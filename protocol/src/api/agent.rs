//! Coding agents: those that can do tasks, and agents started in advance.

use crate::{EnvMap, Permissions};
use serde::{Deserialize, Serialize};

/// A coding agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AgentView {
    pub name: String,
    pub title: String,
    /// Protocol of the agent: `acp`, `stream-json:claude`, `stream-json:codex` or `command`.
    pub speaks: String,
    /// Whether tasks that name no agent use this one.
    pub default: bool,
    /// Whether it can be started: in the sandbox of the query, else from the agents that this host mounts everywhere.
    pub installed: bool,
    /// Path of its program inside a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Version that it reports; only with a sandbox in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Version that is known to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// Model APIs that it speaks, preferred first; empty where it needs no model of hostd.
    pub dialects: Vec<String>,
    /// Whether a configured provider has a model for it.
    pub connected: bool,
    /// Steps to install it or to connect it to a model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub how_to_connect: Vec<String>,
}

/// An agent to start before its task: `POST …/warm`. Fields, and their defaults, are those of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct WarmCreate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "EnvMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub env: EnvMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
}

/// An agent that was started in advance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WarmAnswer {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether it waits for its prompt; false while it is starting.
    pub ready: bool,
    /// Seconds that it waits for its task.
    pub keep_s: u64,
}
