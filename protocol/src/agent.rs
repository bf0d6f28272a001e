//! Agents: the tools that do tasks, as programs and the languages they speak. What is special about one of them
//! is data that hostd has; here is only what all of a kind have in common.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The tool that does a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Agent {
    /// Any program: the prompt is its input and `$SLIPWAY_PROMPT`, each line it prints is a message.
    Command { argv: Vec<String> },
    /// Speaks the Agent Client Protocol on its input and output.
    Acp(AcpAgent),
    /// Takes the prompt as its input and prints what happens as lines of JSON.
    StreamJson(StreamJsonAgent),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcpAgent {
    /// What a caller calls it.
    pub name: String,
    pub argv: Vec<String>,
    /// Files that it wants, by their path below the home; written as the sandbox's user before it starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The method to authenticate by, where it wants that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate: Option<String>,
    /// The mode of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Options of its session, `model` for example. One that it does not know is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Said before the prompt, in a session that begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// Go on with the last session that it had in this sandbox, if there is one.
    #[serde(default)]
    pub continues: bool,
    #[serde(default)]
    pub permissions: Permissions,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamJsonAgent {
    pub name: String,
    pub dialect: StreamDialect,
    pub argv: Vec<String>,
    /// The same to go on with a session, whose name is put in the place of `{session}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv_to_continue: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    #[serde(default)]
    pub continues: bool,
}

/// Whose lines they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamDialect {
    /// `claude -p --output-format stream-json`
    Claude,
    /// `codex exec --json`
    Codex,
}

impl Agent {
    /// What a caller calls it.
    pub fn name(&self) -> &str {
        match self {
            Self::Command { .. } => "command",
            Self::Acp(agent) => &agent.name,
            Self::StreamJson(agent) => &agent.name,
        }
    }

    pub fn kind(&self) -> AgentKind {
        match self {
            Self::Command { .. } => AgentKind::Command,
            Self::Acp(_) => AgentKind::Acp,
            Self::StreamJson(_) => AgentKind::StreamJson,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Command,
    Acp,
    StreamJson,
}

/// What an agent may do that asks first. The first rule that fits decides, else the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Permissions {
    pub default: Decision,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PermissionRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PermissionRule {
    /// The kind of tool (`execute`, `edit`, `fetch`, …) or its title, with `*` for anything; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Fits the command, a path or an address that it names, with `*` for anything; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub then: Decision,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    #[default]
    Allow,
    /// Somebody is asked, and the agent waits.
    Ask,
    Deny,
}

/// The answer to a permission that was asked for: `POST /v1/tasks/{id}/permissions/{permission}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct PermissionAnswer {
    /// `allow` or `deny`.
    pub decision: Decision,
    /// One of the options that were offered, by its id; the agent's own for this decision unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
}

/// An agent to start before there is a task for it: `PUT /v1/warm/{name}`. Ended by itself after a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmRequest {
    pub agent: Agent,
    #[serde(default)]
    pub env: crate::EnvMap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How long it waits for its task.
    pub keep_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmView {
    pub name: String,
    pub agent: String,
    /// It has a session, and waits for its prompt.
    pub ready: bool,
}

/// `POST /v1/programs`: which of these programs the sandbox's user could run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramsRequest {
    /// Names, to be looked for where every job does, or absolute paths.
    pub programs: Vec<String>,
}

/// The path of each that there is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramsView {
    pub found: BTreeMap<String, String>,
}
