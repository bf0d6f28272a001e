//! Coding agents as runtimed starts them: the program and the protocol that it speaks. Differences between agents are
//! data of hostd (`agents.toml`); only what all agents of a kind share is here.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The agent that does a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Agent {
    /// Any program: it gets the prompt on standard input and in `$SLIPWAY_PROMPT`; each line of its output is a message.
    Command { argv: Vec<String> },
    /// Speaks the Agent Client Protocol (ACP) on standard input and output.
    Acp(AcpAgent),
    /// Reads the prompt from standard input and prints events as lines of JSON.
    StreamJson(StreamJsonAgent),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcpAgent {
    /// Name of the agent in the API.
    pub name: String,
    pub argv: Vec<String>,
    /// Files that the agent needs, by path below the home directory; written as the sandbox's user before it starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// ACP authentication method, where the agent requires one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authenticate: Option<String>,
    /// ACP session mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Session options, for example `model`. Options that the agent does not know are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Instructions before the prompt in a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    /// Whether to continue its last session in this sandbox, if there is one.
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
    /// Arguments that continue a session; `{session}` is replaced by its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv_to_continue: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub briefing: Option<String>,
    #[serde(default)]
    pub continues: bool,
}

/// Format of the JSON lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamDialect {
    /// `claude -p --output-format stream-json`
    Claude,
    /// `codex exec --json`
    Codex,
}

impl Agent {
    /// Returns the name of the agent in the API.
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

/// Rules for actions that an agent asks permission for. The first matching rule decides, else the default.
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
    /// Kind of tool (`execute`, `edit`, `fetch`, …) or its title, with `*` as wildcard; absent: any tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Command, path or URL of the action, with `*` as wildcard; absent: any.
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
    /// The agent waits until the client answers.
    Ask,
    Deny,
}

/// The answer to a permission request: `POST /v1/tasks/{id}/permissions/{permission}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct PermissionAnswer {
    /// `allow` or `deny`.
    pub decision: Decision,
    /// Id of one of the offered options; absent: the agent's option for this decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
}

/// An agent to start before its task: `PUT /v1/warm/{name}`. It is ended when no task came in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmRequest {
    pub agent: Agent,
    #[serde(default)]
    pub env: crate::EnvMap,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Milliseconds that it waits for its task.
    pub keep_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmView {
    pub name: String,
    pub agent: String,
    /// Whether it has a session and waits for its prompt.
    pub ready: bool,
}

/// Asks which programs the sandbox's user can run: `POST /v1/programs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramsRequest {
    /// Names to look up on the `PATH` of jobs, or absolute paths.
    pub programs: Vec<String>,
}

/// Programs that were found, with their paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramsView {
    pub found: BTreeMap<String, String>,
}
