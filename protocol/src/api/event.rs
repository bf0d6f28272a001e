//! The `data` of events that hostd itself records about a sandbox. hostd writes them as JSON; these types say what may be
//! in them. Every field that an event of the kind need not have is optional.

use super::{AttemptRelation, PostMortem, Problem, SandboxStatus, ShareAccess};
use crate::{ExecId, Exit};
use serde::{Deserialize, Serialize};

/// The `data` of `sandbox.` events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct SandboxEventData {
    /// `created` and `adopted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `created` and `adopted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<SandboxStatus>,
    /// The wanted status: `running`, `paused`, `stopped` or `destroyed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The operation that began, or that takes longer than it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Whether the idle policy caused the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dozing: Option<bool>,
    /// The new deadline of the operation: `delayed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Why the operation failed, or why the sandbox was evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// How the sandbox died.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_mortem: Option<PostMortem>,
    /// A stop that is followed by a start from the frozen blueprint, with or without its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub renewal: Option<serde_json::Value>,
    /// Fields that were changed: `changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The sandbox that has the name now (`replaced`), or the principal that changed a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The principal that the sandbox is shared with; absent for the whole tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// `shared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<ShareAccess>,
    /// A line for people: `progress`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `drift`: the status that hostd expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// `drift`: the status that hostd found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// `drift`: the reaction of hostd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
}

/// The `data` of `attempt.` events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AttemptEventData {
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<AttemptRelation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The `data` of `setup.` events: a step that makes a new sandbox ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupEventData {
    #[serde(default)]
    pub step: Option<String>,
    /// Number of the step, from 1.
    pub number: u64,
    /// How many steps there are.
    pub of: u64,
    #[serde(default)]
    pub exec: Option<ExecId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
}

/// The `data` of `dotfiles.copied`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DotfilesEventData {
    pub files: u64,
    /// The first files that were in the way and kept under another name.
    pub kept: Vec<String>,
    pub kept_count: u64,
}

/// The `data` of `git.` events: an operation that went through the git gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GitEventData {
    pub remote: String,
    #[serde(default)]
    pub branch: Option<String>,
    /// Name of the secret that was used.
    #[serde(default)]
    pub secret: Option<String>,
    pub bytes_up: u64,
    pub bytes_down: u64,
    #[serde(default)]
    pub error: Option<String>,
}

/// The `data` of a `gap`: events that were lost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct GapEventData {
    pub reason: String,
    /// A torn tail of the log, or a full disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_events: Option<u64>,
    /// Trimmed before hostd read them: the position of the last event that it has, and of the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
}

/// The `data` of `egress`: decisions of one kind, added up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressEventData {
    /// `allowed` or `denied`.
    pub verdict: String,
    /// Empty for a malformed request; `*` where events were merged.
    pub host: String,
    pub port: u16,
    pub rule: String,
    /// The profile that has the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why there was no connection although it was allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The job that made the requests, as the sandbox claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub by: Option<serde_json::Value>,
    pub times: u64,
    /// Connections that ended.
    pub ended: u64,
    pub bytes_up: u64,
    pub bytes_down: u64,
    pub duration_ms: u64,
}
