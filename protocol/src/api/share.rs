//! Shares: access that the owner of a sandbox gives to colleagues of the same tenant.

use super::Label;
use serde::{Deserialize, Serialize};

/// What a share allows. `run` includes `read`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ShareAccess {
    /// See the sandbox, its files, tasks, output and events, and open its previews.
    Read,
    /// Also use it: commands, terminals, tasks, files, services, tunnels, start and stop. Not: destroy, recreate or rename
    /// it, share it, create links, change its egress rules, its limits or its lifetime.
    Run,
}

/// `PUT …/shares/principals/{principal}` and `PUT …/shares/tenant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ShareSpec {
    pub access: ShareAccess,
}

/// A share of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShareView {
    /// Absent where the sandbox is shared with the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Label>,
    pub access: ShareAccess,
    /// Principal that created the share.
    pub created_by: String,
    pub created_at: String,
}

/// How a sandbox of a colleague is shared with the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SharedView {
    /// The smaller one of the share's access and the token's scope.
    pub access: ShareAccess,
    /// Principal that owns the sandbox.
    pub owner: Label,
}
