//! Links to private previews.

use super::SandboxId;
use serde::{Deserialize, Serialize};

/// A link to create to a private preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PreviewLinkCreate {
    /// Port of the sandbox; it need not be advertised.
    pub port: u16,
    /// Lifetime, as `90s`, `15m`, `4h` or `7d`, at most `30d`; default: one day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Path that the link opens; default: `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// A link to a private preview, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewLinkView {
    pub id: String,
    pub sandbox_id: SandboxId,
    pub port: u16,
    /// Principal that created the link.
    pub created_by: String,
    pub created_at: String,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A created link. Only this response contains the preview pass, as `token` and in `url`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PreviewLinkCreated {
    #[serde(flatten)]
    pub view: PreviewLinkView,
    /// URL for browsers: the first request moves the pass from the URL into a cookie.
    pub url: String,
    /// The pass alone, for programs to send in `X-Slipway-Token`.
    pub token: String,
}
