//! Holds: named locks that keep a sandbox awake until they expire (compare systemd's inhibitor locks).

use crate::HoldName;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRequest {
    /// Seconds until the hold expires; default: one minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// Explanation as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    pub name: HoldName,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub expires_ms: u64,
}
