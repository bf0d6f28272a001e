//! API tokens and their scopes.

use super::Label;
use serde::{Deserialize, Serialize};

/// What a token allows. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TokenScope {
    /// Read-only access.
    Read,
    /// Create, change, run and destroy resources of the principal.
    Run,
    /// Everything of the tenant, including its tokens.
    Admin,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    pub tenant: Label,
    pub principal: Label,
    #[serde(default = "run")]
    pub scope: TokenScope,
    /// Lifetime, as `90s`, `15m`, `4h` or `7d`; absent: does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Whether the token has the form `e2b_<hex digits>`, which clients made for E2B insist on. It works everywhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub e2b: bool,
}

fn run() -> TokenScope {
    TokenScope::Run
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenView {
    pub id: String,
    pub tenant: Label,
    pub principal: Label,
    pub scope: TokenScope,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// The caller, as its token says: `GET /v1/identity`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdentityView {
    pub tenant: Label,
    pub principal: Label,
    pub scope: TokenScope,
    /// Whether the caller is the operator of the host.
    pub operator: bool,
    /// When the token expires; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// A created token. Only this response contains the secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenCreated {
    #[serde(flatten)]
    pub view: TokenView,
    pub token: String,
}
