//! Agents on the public API.

use crate::{EnvMap, Permissions};
use serde::{Deserialize, Serialize};

/// An agent that can do tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct AgentView {
    pub name: String,
    pub title: String,
    /// `acp`, `stream-json:claude`, `stream-json:codex` or `command`.
    pub speaks: String,
    /// Who does a task that names nobody.
    pub default: bool,
    /// Whether it can be started: in the sandbox that was asked about, else by what this host gives to all.
    pub installed: bool,
    /// Where, as seen in a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// As it says itself; only where a sandbox was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that is known to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// What it speaks to models, by preference; nothing where it needs none of ours.
    pub dialects: Vec<String>,
    /// Whether there is a model for it.
    pub connected: bool,
    /// What to do where it is not installed or not connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub how_to_connect: Vec<String>,
}

/// `POST …/warm`: what a task will ask for. Absent fields mean what they mean in a task.
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

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WarmAnswer {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// It waits for its prompt; otherwise it is on its way there.
    pub ready: bool,
    /// How long it waits.
    pub keep_s: u64,
}
