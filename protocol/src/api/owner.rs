//! Ownership: tenant, principal, project and scope. Tenant and principal come from the caller's token, never from a
//! body.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest tenant, principal, project or scope key, in bytes.
const LABEL_MAX_BYTES: usize = 128;

/// An identifier from another system (a tenant, a user, a conversation): 1 to 128 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLabel;

impl fmt::Display for BadLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be 1 to {LABEL_MAX_BYTES} visible ASCII characters without spaces")
    }
}

impl std::error::Error for BadLabel {}

impl Label {
    pub fn parse(text: &str) -> Result<Self, BadLabel> {
        let good =
            !text.is_empty() && text.len() <= LABEL_MAX_BYTES && text.bytes().all(|b| b.is_ascii_graphic());
        if good { Ok(Self(text.to_owned())) } else { Err(BadLabel) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Label {
    type Error = BadLabel;
    fn try_from(text: String) -> Result<Self, BadLabel> {
        Self::parse(&text)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> String {
        label.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Tenant, principal and project of a resource. The project is given in the request, the rest by the token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Owner {
    pub tenant: Label,
    pub principal: Label,
    pub project: Label,
}

/// What a sandbox is for. At most one live sandbox has a given tenant, principal, project and scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SandboxScope {
    pub kind: ScopeKind,
    /// Required for every kind except `shared-project-user`, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Label>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ScopeKind {
    SharedProjectUser,
    AgentRun,
    AgentInstance,
    Conversation,
    RuntimeInstance,
    Custom,
}

impl ScopeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SharedProjectUser => "shared-project-user",
            Self::AgentRun => "agent-run",
            Self::AgentInstance => "agent-instance",
            Self::Conversation => "conversation",
            Self::RuntimeInstance => "runtime-instance",
            Self::Custom => "custom",
        }
    }
}
