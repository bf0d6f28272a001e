//! Links to private previews.

use super::SandboxId;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PreviewLinkCreate {
    /// Of the sandbox; it need not be among the advertised ones.
    pub port: u16,
    /// As `90s`, `15m`, `4h` or `7d`, at most `30d`; a day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Where the link leads to; `/` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewLinkView {
    pub id: String,
    pub sandbox_id: SandboxId,
    pub port: u16,
    /// The principal who made it.
    pub created_by: String,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// The only answer that has the pass itself, alone and in an address.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewLinkCreated {
    #[serde(flatten)]
    pub view: PreviewLinkView,
    /// For browsers: the pass leaves the address and becomes a cookie.
    pub url: String,
    /// For programs, in `X-Slipway-Token`.
    pub token: String,
}
