//! The audit log.

use serde::{Deserialize, Serialize};

/// A call that changed something or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditView {
    pub number: u64,
    pub time: String,
    /// Empty when the caller was not identified.
    pub tenant: String,
    pub principal: String,
    /// The token's id, or how else the caller was identified.
    pub via: String,
    pub request_id: String,
    pub method: String,
    pub path: String,
    pub status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The operation, as in the API document; empty where no route matched, and in rows of an older hostd.
    #[serde(default)]
    pub operation: String,
    /// Id or name of what the call was about, or of what it made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sandbox: String,
    /// The address that the call came from, or `unix` for the local socket. Behind a proxy it is that of the proxy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}
